"""How skills, tools and problems are printed: JSON for programs, lines and tables for people."""

import dataclasses
import json
import sys
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import click

from skillpouch.errors import CallDeniedError, SkillpouchError
from skillpouch.limits import DECLARED_SECONDS, time_text
from skillpouch.manager import SkillManager
from skillpouch.problems import Problem
from skillpouch.results import Attachment, ToolResult
from skillpouch.skills import Skill
from skillpouch.tools import BuiltIn, Script, Tool


def print_json(value: Any) -> None:
    """Print one JSON value on standard output."""
    click.echo(json.dumps(value, indent=2))


def skill_summary(skill: Skill, tools: list[Tool]) -> dict[str, Any]:
    """Return what `skillpouch list` says of a skill."""
    return {
        "name": skill.name,
        "description": skill.description,
        "path": str(skill.home),
        "source": skill.source,
        "version": skill.metadata.version,
        "compatibility": skill.metadata.compatibility,
        "tools": [tool.id for tool in tools],
    }


def tool_summary(tool: Tool) -> dict[str, Any]:
    """Return what `skillpouch list` says of a tool."""
    return {
        "id": tool.id,
        "name": tool.name,
        "skill": tool.skill,
        "description": tool.description,
        "kind": tool.kind,
        "convention": tool.convention,
        "input_schema": tool.input_schema,
        "effects": list(tool.effects),
        "ready": tool.ready,
        "missing": list(tool.missing),
    }


def _metadata(skill: Skill) -> dict[str, Any]:
    fields = skill.metadata._asdict()
    return {"allowed_tools": fields.pop("allowed"), **fields}


def whole_skill(skill: Skill, manager: SkillManager) -> dict[str, Any]:
    """Return everything known of a skill."""
    tools = manager.get_skill_tools(skill.name)
    home = f"{skill.home}/"
    return skill_summary(skill, tools) | {
        "metadata": _metadata(skill),
        "degraded": skill.degraded,
        "digest": skill.digest,
        "body": skill.body,
        "tools": [whole_tool(tool) for tool in tools],
        "problems": [as_dict(p) for p in manager.problems if p.path.startswith(home)],
    }


def whole_tool(tool: Tool) -> dict[str, Any]:
    """Return everything known of a tool."""
    return tool_summary(tool) | {
        "output_schema": tool.output_schema,
        "timeout_ms": tool.timeout_ms,
        "examples": list(tool.examples),
        "variables": list(tool.variables),
        "origin": tool.origin,
        "declared_in": tool.declared_in,
        "read_by": tool.read_by,
        "runs": _runs(tool),
    }


def _runs(tool: Tool) -> dict[str, Any]:
    if isinstance(tool.runs, BuiltIn):
        return {"name": tool.runs.name}
    runs = dataclasses.asdict(tool.runs)
    if isinstance(tool.runs, Script) and tool.runs.plan is not None:
        runs["plan"] = [part._asdict() for part in tool.runs.plan]
    return runs


def result_as_dict(result: ToolResult) -> dict[str, Any]:
    """Return the result of a call as JSON has it."""
    return {
        "tool": result.tool,
        "outcome": result.outcome,
        "is_error": result.is_error,
        "content": result.content,
        "structured": result.structured,
        "exit_code": result.exit_code,
        "stdout": result.stdout,
        "stderr": result.stderr,
        "truncated": result.truncated,
        "duration_ms": result.duration_ms,
        "protections": dict(result.protections),
        **({"files": [*map(dataclasses.asdict, result.files)]} if result.files else {}),
        **({} if result.files_complete else {"files_complete": False}),
        "writes": result.writes,
        **({"call_id": result.call_id} if result.call_id else {}),
        **({"changes": [each.facts for each in result.changes]} if result.changes else {}),
        **({"conflicts": [*map(dataclasses.asdict, result.conflicts)]} if result.conflicts else {}),
        **({"run_later": [*result.run_later]} if result.run_later else {}),
        **({"http": dataclasses.asdict(result.http)} if result.http else {}),
        **({"attachments": [*map(_attachment, result.attachments)]} if result.attachments else {}),
    }


def refusal_as_dict(tool: str, error: Exception) -> dict[str, Any]:
    """Return what kept a call from being made, in the form of a result, as JSON has it."""
    empty = ToolResult(
        tool=tool,
        outcome="denied" if isinstance(error, CallDeniedError) else "failed",
        content=error.format_message() if isinstance(error, click.ClickException) else str(error),
    )
    code = error.code if isinstance(error, SkillpouchError) else "usage"
    return result_as_dict(empty) | {"code": code, "hint": getattr(error, "hint", "")}


def _attachment(attachment: Attachment) -> dict[str, str]:
    data = b64encode(attachment.data).decode()
    return {"name": attachment.name, "type": attachment.type, "data": data}


def as_dict(problem: Problem) -> dict[str, Any]:
    """Return a problem as JSON has it."""
    return {
        "path": problem.path,
        "code": problem.code,
        "severity": problem.severity,
        "message": problem.message,
        "line": problem.line,
    }


_KIB = 1024
_COLUMN = 44


def size_text(size: float) -> str:
    """Return a number of bytes as people read it."""
    for unit in ("B", "KiB", "MiB"):
        if size < _KIB:
            return f"{size:.0f} {unit}"
        size /= _KIB
    return f"{size:.1f} GiB"


def print_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print rows: a table on a terminal, tab-separated lines anywhere else."""
    if not sys.stdout.isatty():
        for row in rows:
            click.echo("\t".join(" ".join(cell.split()) for cell in row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(*headings, box=None, header_style="bold", padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*(Text(" ".join(cell.split())) for cell in row))
    Console().print(table)


def print_problems(problems: Sequence[Problem], *, err: bool = True) -> None:
    """Print one line per problem, where an editor can follow it: path:line: severity: message."""
    for problem in problems:
        line = f":{problem.line}" if problem.line else ""
        click.echo(
            f"{problem.path}{line}: {problem.severity}: {problem.message} [{problem.code}]", err=err
        )


def arguments_of(tool: Tool) -> str:
    """Return the arguments in one line: `city, days?`."""
    properties = tool.input_schema.get("properties", {})
    required = tool.input_schema.get("required", [])
    return ", ".join(name if name in required else f"{name}?" for name in properties)


def description_of(tool: Tool) -> str:
    """Return what a tool does, and what it lacks before it could do so."""
    missing = f" [not ready: {'; '.join(tool.missing)}]" if tool.missing else ""
    return f"{tool.description}{missing}"


def describe_tool(tool: Tool) -> None:
    """Print a whole tool."""
    click.echo(f"{tool.id}\n\n  {tool.description}\n")
    convention = f", called by {tool.convention}" if tool.convention else ""
    facts = {
        "wire name": tool.name,
        "kind": f"{tool.kind}{convention}",
        "declared in": f"{tool.declared_in} (typed by {tool.read_by})",
        "comes from": tool.origin,
        "effects": ", ".join(tool.effects),
        "reads variables": ", ".join(tool.variables),
        "time limit": _time_limit(tool),
        "ready": "yes" if tool.ready else f"no: {'; '.join(tool.missing)}",
    }
    for label, value in facts.items():
        if value:
            click.echo(f"  {label + ':':<18}{value}")
    click.echo("\n  arguments:")
    for line in _argument_lines(tool):
        click.echo(f"    {line}")
    if tool.examples:
        click.echo("\n  as SKILL.md shows it:")
        for example in tool.examples:
            click.echo(f"    {example}")


def _time_limit(tool: Tool) -> str:
    """Return what a tool declares, and whether that has to be granted."""
    seconds = (tool.timeout_ms or 0) / 1000
    if seconds < 1:
        return f"{tool.timeout_ms} ms" if tool.timeout_ms else ""
    more = ", which has to be granted" if seconds > DECLARED_SECONDS else ""
    return f"{time_text(seconds)}{more}"


def _argument_lines(tool: Tool) -> list[str]:
    required = tool.input_schema.get("required", [])
    lines = []
    for name, what in tool.input_schema.get("properties", {}).items():
        facts = what if isinstance(what, dict) else {}
        kind = "|".join(facts["type"]) if isinstance(facts.get("type"), list) else facts.get("type")
        if "enum" in facts:
            kind = " | ".join(json.dumps(item) for item in facts["enum"])
        needed = "required" if name in required else "optional"
        if "default" in facts:
            needed = f"default {json.dumps(facts['default'])}"
        head = f"{name} ({kind or 'any'}, {needed})"
        lines.append(f"{head:<{_COLUMN}} {facts.get('description', '')}".rstrip())
    return lines or ["none"]
