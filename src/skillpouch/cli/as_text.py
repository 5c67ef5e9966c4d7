"""What skills, tools and problems look like to a person: plain lines, tables on a terminal."""

import json
import sys
from collections.abc import Sequence

import click

from skillpouch.problems import Problem
from skillpouch.tools import Tool

_COLUMN = 44


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
        "time limit": f"{tool.timeout_ms} ms" if tool.timeout_ms else "",
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
