"""The JSON shape in which a skill's tools are kept in the warm index."""

from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from kitbag.argv import Argument, ArgvPlan, Word
from kitbag.declarations.skill_tools import SkillTools
from kitbag.problems import Problem
from kitbag.signatures.signature import Dependencies
from kitbag.tools import Binary, Http, InlineScript, Runs, Script, Stub, Tool

_VARIANTS: dict[str, type[Runs]] = {
    "script": Script,
    "inline": InlineScript,
    "binary": Binary,
    "http": Http,
    "stub": Stub,
}
_TUPLES = ("effects", "examples", "variables", "missing")


def pack_skill_tools(skill: str, read: SkillTools) -> dict[str, Any]:
    """Make JSON of everything that was read of one skill."""
    return {
        "skill": skill,
        "stamps": read.stamps,
        "tools": [_pack_tool(tool) for tool in read.tools],
        "problems": [asdict(problem) for problem in read.problems],
    }


def unpack_skill_tools(record: dict[str, Any]) -> SkillTools:
    """Make the tools of JSON; a damaged record raises TypeError, KeyError or ValueError."""
    return SkillTools(
        tools=tuple(_unpack_tool(tool) for tool in record["tools"]),
        problems=tuple(Problem(**problem) for problem in record["problems"]),
        stamps=record["stamps"],
    )


def _pack_tool(tool: Tool) -> dict[str, Any]:
    packed = {field.name: getattr(tool, field.name) for field in fields(tool)}
    return packed | {"kind": tool.kind, "runs": _pack_runs(tool.runs)}


def _pack_runs(runs: Runs) -> dict[str, Any]:
    packed = {field.name: getattr(runs, field.name) for field in fields(runs)}
    if isinstance(runs, Script):
        packed["path"] = str(runs.path)
        packed["plan"] = None if runs.plan is None else [asdict(part) for part in runs.plan]
        packed["dependencies"] = runs.dependencies and asdict(runs.dependencies)
    return packed


def _unpack_tool(record: dict[str, Any]) -> Tool:
    kind = record.pop("kind")
    for name in _TUPLES:
        record[name] = tuple(record[name])
    record["runs"] = _unpack_runs(kind, record["runs"])
    return Tool(**record)


def _unpack_runs(kind: str, record: dict[str, Any]) -> Runs:
    if kind == "script":
        record["path"] = Path(record["path"])
        record["plan"] = _unpack_plan(record["plan"])
        record["shebang"] = tuple(record["shebang"])
        wanted = record["dependencies"]
        if wanted is not None:
            packages = tuple(wanted["packages"])
            record["dependencies"] = Dependencies(**wanted | {"packages": packages})
    if kind == "inline":
        record["interpreter_args"] = tuple(record["interpreter_args"])
    return _VARIANTS[kind](**record)


def _unpack_plan(plan: list[dict[str, Any]] | None) -> ArgvPlan | None:
    if plan is None:
        return None
    return tuple(Word(**part) if "text" in part else Argument(**part) for part in plan)
