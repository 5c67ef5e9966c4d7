"""The plain shape in which a skill's tools are kept in the warm index."""

import marshal
from collections.abc import Callable
from dataclasses import asdict, fields
from functools import partial
from typing import Any

from skillpouch.declarations.skill_tools import SkillTools
from skillpouch.needs import Need
from skillpouch.problems import Problem
from skillpouch.signatures.argv import Argument, Word
from skillpouch.signatures.signature import Dependencies
from skillpouch.tools import Binary, Http, InlineScript, Runs, Script, Stub, Tool

_VARIANTS: dict[str, Callable[..., Runs]] = {
    "script": Script,
    "inline": InlineScript,
    "binary": Binary,
    "http": Http,
    "stub": Stub,
}

# What finds a tool, and tells whether it is ready; everything else waits until it is asked for.
_AT_ONCE = ("id", "name", "skill", "needs", "missing", "effects", "allowed_tools")
_LATER = tuple(
    field.name
    for field in fields(Tool)
    if field.name not in (*_AT_ONCE, "asks", "runs", "caller", "unpack")
)


def pack_skill_tools(skill: str, read: SkillTools) -> dict[str, Any]:
    """Make a plain value of everything that was read of one skill."""
    return {
        "skill": skill,
        "stamps": read.stamps,
        "tools": [_pack_tool(tool) for tool in read.tools],
        "problems": [asdict(problem) for problem in read.problems],
    }


def unpack_skill_tools(record: dict[str, Any]) -> SkillTools:
    """Make the tools of a plain value."""
    return SkillTools(
        tools=tuple(map(_unpack_tool, record["tools"])),
        problems=tuple(Problem(**problem) for problem in record["problems"]),
        stamps=record["stamps"],
    )


def share_equal_parts() -> Callable[[Any], Any]:
    """Return a function that makes equal texts one object, across all values given to it.

    `marshal` then writes each of them once: schemas repeat the same words over and over.
    """
    seen: dict[str, str] = {}

    def share(value: Any) -> Any:
        if isinstance(value, str):
            return seen.setdefault(value, value)
        if isinstance(value, dict):
            return {share(key): share(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(share, value))
        return value

    return share


def _pack_tool(tool: Tool) -> tuple[Any, ...]:
    """Keep what names a tool in the open, and the rest as bytes for later."""
    runs = _fields(tool.runs)
    if isinstance(tool.runs, Script):
        runs["plan"] = tool.runs.plan and tuple(map(tuple, tool.runs.plan))
        runs["dependencies"] = tool.runs.dependencies and asdict(tool.runs.dependencies)
    details = {name: getattr(tool, name) for name in _LATER}
    packed = marshal.dumps((tool.kind, runs, details))
    asks = tuple((need.kind, need.value, need.declared, need.asked_in) for need in tool.asks)
    return (*(getattr(tool, name) for name in _AT_ONCE), asks, packed)


def _unpack_tool(record: tuple[Any, ...]) -> Tool:
    tool = Tool.__new__(Tool)
    for name, value in zip(_AT_ONCE, record, strict=False):
        object.__setattr__(tool, name, value)
    object.__setattr__(tool, "asks", tuple(map(_unpack_need, record[-2])))
    object.__setattr__(tool, "caller", None)
    object.__setattr__(tool, "unpack", partial(_details, record[-1]))
    return tool


def _unpack_need(record: tuple[Any, ...]) -> Need:
    kind, value, declared, asked_in = record
    return Need(kind=kind, value=value, declared=declared, asked_in=asked_in)


def _details(packed: bytes) -> dict[str, Any]:
    details: dict[str, Any]
    kind, runs, details = marshal.loads(packed)  # noqa: S302 - the index has checked it
    if kind == "script":
        runs["plan"] = runs["plan"] and tuple(map(_unpack_part, runs["plan"]))
        runs["dependencies"] = runs["dependencies"] and Dependencies(**runs["dependencies"])
    details["runs"] = _VARIANTS[kind](**runs)
    return details


def _fields(value: Runs) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _unpack_part(record: tuple[Any, ...]) -> Word | Argument:
    # A word is one text, an argument has several parts.
    return Argument._make(record) if len(record) > 1 else Word._make(record)
