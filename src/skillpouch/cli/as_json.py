"""What skills, tools and problems look like to a program."""

import dataclasses
import json
from base64 import b64encode
from typing import Any

import click

from skillpouch.errors import CallDeniedError, SkillpouchError
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
