"""`skillpouch mcp`: shows the MCP servers in use, and those that a project asks for."""

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from skillpouch.cli.options import common_options
from skillpouch.cli.output import print_json, print_table, tool_summary
from skillpouch.manager import SkillManager
from skillpouch.mcp_client.configuration import read_user_mcp, user_mcp_path
from skillpouch.policy.loading import read_project
from skillpouch.policy.project import McpEntry, McpProgram
from skillpouch.trust.errors import describe


@click.command("mcp")
@click.option("--connect", is_flag=True, help="Start or reach the servers, and list their tools.")
@common_options
def command(connect: bool, roots: tuple[Path, ...], as_json: bool) -> None:
    """Show the MCP servers of your mcp.toml, and those that this project asks for.

    Nothing is started unless --connect says so. A project's servers are used once you have
    copied their [[mcp]] tables into your own file.
    """
    mine = read_user_mcp()
    wanted = [each for each in read_project(Path.cwd()).mcp if each.name not in _names(mine)]
    tools, problems = _tools(roots, mine) if connect else ([], {})
    if as_json:
        print_json(
            {
                "servers": [_as_dict(entry) for entry in mine],
                "requested": [_as_dict(entry) for entry in wanted],
                "tools": tools,
                "problems": problems,
            }
        )
        return
    if not mine:
        click.echo(f"no servers: {user_mcp_path()} has no [[mcp]] table", err=True)
    print_table(("server", "runs", "is given"), [_row(entry) for entry in mine])
    for tool in tools:
        click.echo(f"{tool['id']}: {tool['description'].splitlines()[0]}")
    for name, problem in problems.items():
        click.echo(f"error: {name}: {problem}", err=True)
    if wanted:
        click.echo(f"this project asks for {', '.join(_names(wanted))}", err=True)
        click.echo(f"hint: copy its [[mcp]] tables into {user_mcp_path()}", err=True)


def _tools(
    roots: tuple[Path, ...], entries: tuple[McpEntry, ...]
) -> tuple[list[dict[str, Any]], dict[str, str]]:
    from skillpouch.mcp_client import McpServers

    manager = SkillManager(*roots)
    with McpServers(manager, entries) as servers:
        own = {entry.skill for entry in entries}
        found = [tool_summary(tool) for tool in manager.tools if tool.skill in own]
        return found, {name: str(error) for name, error in servers.problems.items()}


def _names(entries: list[McpEntry] | tuple[McpEntry, ...]) -> list[str]:
    return [entry.name for entry in entries]


def _row(entry: McpEntry) -> tuple[str, str, str]:
    given = ", ".join(describe(need) for need in entry.granted) or "nothing more"
    return entry.name, _what(entry), given


def _what(entry: McpEntry) -> str:
    runs = entry.runs
    return shlex.join(runs.command) if isinstance(runs, McpProgram) else runs.url


def _as_dict(entry: McpEntry) -> dict[str, Any]:
    return {"name": entry.name, **asdict(entry.runs), "tools": list(entry.tools)}
