"""`skillpouch script`: runs a bash script in which every tool is a command."""

import json
import sys
from pathlib import Path

import click

from skillpouch.cli.options import (
    DEFINE_TOOLS,
    EXIT_DENIED,
    EXIT_FAILED,
    EXIT_WRONG_CALL,
    common_options,
    mcp_servers_for,
)
from skillpouch.cli.output import print_json
from skillpouch.limits import SCRIPT_SECONDS
from skillpouch.manager import SkillManager
from skillpouch.policy.limit_rules import OwnersTimeout
from skillpouch.policy.terminal import terminal_approver
from skillpouch.shell.call_log import ScriptEvent
from skillpouch.shell.responses import Artifact, ScriptCall, ToolResponse
from skillpouch.shell.scripted_tool import ScriptedTool
from skillpouch.text import clean

_WORDS = 60


def trace_of(response: ToolResponse) -> str:
    """Return the script and, below it, each call with its beginning and its duration."""
    head = f"script  {response.status}  {response.duration_ms:.0f} ms"
    calls = response.calls
    lines = [f"{'└' if call is calls[-1] else '├'}─ {_line(call)}" for call in calls]
    return "\n".join([head, *lines])


def _line(call: ScriptCall) -> str:
    params = json.dumps(dict(call.params), ensure_ascii=False, default=str)
    params = params if len(params) <= _WORDS else f"{params[: _WORDS - 1]}…"
    code = f" {call.exit_code}" if call.exit_code else ""
    times = f"{call.duration_ms:.1f} ms, from {call.started_ms:.1f} ms"
    return clean(f"{call.seq} {call.tool} {params}  {call.outcome}{code}  {times}")


_TIMEOUT = f"Time limit, instead of the {SCRIPT_SECONDS:g} seconds that a script has."
_CODES = {"ok": 0, "denied": EXIT_DENIED, "syntax": EXIT_WRONG_CALL}
_FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


@click.command("script")
@click.argument("text", required=False)
@click.option(
    "-f", "--file", "file", metavar="FILE", help="Read the script from a file; - is stdin."
)
@click.option("--dry-run", is_flag=True, help="Call only tools that read; only list the others.")
@click.option("--trace", is_flag=True, help="Show the calls that the script made, and their times.")
@click.option("--timeout", type=click.FloatRange(min=0.001), metavar="SECONDS", help=_TIMEOUT)
@click.option(
    "--builtins", is_flag=True, help="Skillpouch's own tools, too, as pouch.read, pouch.bash …"
)
@click.option("--define-tools", is_flag=True, help=DEFINE_TOOLS)
@click.option(
    "--out", type=_FOLDER, metavar="DIR", help="Save what the script writes to /out here."
)
@click.option(
    "--workspace",
    type=_FOLDER,
    metavar="DIR",
    help="Folder in which tools work and may write; by default the current one.",
)
@common_options
def command(  # noqa: PLR0913, PLR0917 - one parameter per option
    text: str | None,
    file: str | None,
    dry_run: bool,
    trace: bool,
    timeout: float | None,
    builtins: bool,
    define_tools: bool,
    out: Path | None,
    workspace: Path | None,
    roots: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Run TEXT as a bash script whose commands are tools: skill.tool --key value.

    The script has pipes, loops, variables and jq, but no file and no network of this machine.
    Without TEXT and FILE it is read from standard input. Exits with 1 when the script failed, 2
    when it is not bash, 3 when it failed and a call of it was denied.
    """
    script = _script(text, file)
    manager = SkillManager(
        *roots,
        workspace=workspace,
        approver=terminal_approver(),
        builtins=builtins,
        define_tools=define_tools,
    )
    show = None if as_json else _show
    with mcp_servers_for(manager, script):
        tool = ScriptedTool.over(manager)
        seconds = None if timeout is None else OwnersTimeout(timeout)
        response = tool.execute_sync(script, timeout=seconds, dry_run=dry_run, on_status=show)
    _save(response.artifacts, out)
    if as_json:
        print_json(response.to_dict())
    else:
        _print_rest(response)
    if trace:
        click.echo(trace_of(response), err=True)
    raise click.exceptions.Exit(_CODES.get(response.status, EXIT_FAILED))


def _script(text: str | None, file: str | None) -> str:
    if text is not None and file is not None:
        raise click.UsageError("give TEXT or --file, not both")
    if text is not None and text != "-":
        return text
    if file is None or file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text("utf-8")
    except (OSError, ValueError) as error:
        raise click.UsageError(f"cannot read {file}: {error}") from None


def _show(event: ScriptEvent) -> None:
    for stream, text in ((sys.stdout, event.stdout), (sys.stderr, event.stderr)):
        if text:
            # A program reads it as it is; a terminal must not be told to do things.
            click.echo(clean(text) if stream.isatty() else text, file=stream, nl=False)


def _print_rest(response: ToolResponse) -> None:
    for note in response.notes:
        click.echo(note, err=True)
    if response.truncated:
        click.echo("note: the output was cut", err=True)
    if response.result is not None:
        text = json.dumps(response.result, ensure_ascii=False)
        if response.stdout:
            click.echo(f"result: {text}", err=True)
        else:
            click.echo(text)


def _save(artifacts: tuple[Artifact, ...], out: Path | None) -> None:
    if artifacts and out is None:
        names = ", ".join(clean(artifact.path) for artifact in artifacts[:5])
        click.echo(f"note: not saved: {names}; --out DIR saves what is in /out", err=True)
    for artifact in artifacts if out is not None else ():
        path = (out or Path()) / artifact.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(artifact.data)
