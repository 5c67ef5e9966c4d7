"""`skillpouch call`: run one tool, confined, and print what it gave."""

import json
import sys
from itertools import takewhile
from pathlib import Path
from typing import Any

import click

from skillpouch.arguments import arguments_from_text
from skillpouch.cli.as_json import print_json, refusal_as_dict, result_as_dict
from skillpouch.cli.failures import EXIT_FAILED
from skillpouch.cli.mcp_joining import mcp_servers_for
from skillpouch.cli.options import DEFINE_TOOLS, common_options
from skillpouch.cli.progress import progress_of
from skillpouch.cli.timings import CommandWatch, timings_as_text
from skillpouch.errors import SkillpouchError
from skillpouch.manager import SkillManager
from skillpouch.policy.call_limits import OwnersTimeout
from skillpouch.registry.registry import AUTHORING_NAMES
from skillpouch.results import ToolResult
from skillpouch.tools import Tool

_MOST_NAMED = 20  # files, on standard error
_TIMEOUT = "How long it may take, instead of its own limit: 30 seconds unless it says otherwise."


class _CallCommand(click.Command):
    """Says in JSON, too, what is wrong with an option: `--json` may not be read by then."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        options = list(takewhile(lambda word: word != "--", args))
        try:
            return super().make_context(info_name, args, parent, **extra)
        except click.UsageError as error:
            if "--json" in options:
                tool = error.ctx.params.get("tool") if error.ctx else ""
                print_json(refusal_as_dict(tool or "", error))
            raise


@click.command("call", cls=_CallCommand)
@click.argument("tool")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]...")
@click.option("--args", "text", metavar="JSON", help="All arguments as JSON; - reads them.")
@click.option("--stdin", "pass_stdin", is_flag=True, help="Give the tool this standard input.")
@click.option("--timeout", type=click.FloatRange(min=0.001), metavar="SECONDS", help=_TIMEOUT)
@click.option(
    "--workspace",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Where the tool works and may write; the current folder unless told otherwise.",
)
@click.option("--define-tools", is_flag=True, help=DEFINE_TOOLS)
@click.option("--timings", is_flag=True, help="Show where the time of the call went.")
@common_options
def command(  # noqa: PLR0913, PLR0917 - one parameter per option
    tool: str,
    pairs: tuple[str, ...],
    text: str | None,
    pass_stdin: bool,
    timeout: float | None,
    workspace: Path | None,
    define_tools: bool,
    timings: bool,
    roots: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Run TOOL with arguments, confined: no network, and it writes only the workspace.

    Exits with 1 when the tool ran and failed.
    """
    try:
        _call(
            tool,
            pairs,
            text,
            stdin=pass_stdin,
            timeout=timeout,
            workspace=workspace,
            define_tools=define_tools,
            timings=timings,
            roots=roots,
            as_json=as_json,
        )
    except (SkillpouchError, click.UsageError) as error:
        if as_json:
            print_json(refusal_as_dict(tool, error))
        raise


def _call(  # noqa: PLR0913 - one parameter per option
    tool: str,
    pairs: tuple[str, ...],
    text: str | None,
    *,
    stdin: bool,
    timeout: float | None,
    workspace: Path | None,
    define_tools: bool,
    timings: bool,
    roots: tuple[Path, ...],
    as_json: bool,
) -> None:
    watch = CommandWatch()
    shown = progress_of(tool)
    manager = SkillManager(
        *roots,
        workspace=workspace,
        on_progress=shown,
        approver=shown.approver,
        builtins=True,
        define_tools=define_tools,
    )
    if tool in AUTHORING_NAMES and not define_tools:
        raise click.UsageError(f"{tool} is off unless it is asked for: --define-tools")
    with mcp_servers_for(manager, tool):
        found = manager.get_tool(tool)
        watch.lap("read the skills")
        arguments = _arguments(found, pairs, text)
        given = sys.stdin.buffer.read() if stdin else None
        seconds = None if timeout is None else OwnersTimeout(timeout)
        with shown:
            result = manager.call(found.id, arguments, given, timeout=seconds)
    whole = watch.timings_of(result) if timings else None
    if as_json:
        print_json(result_as_dict(result) | ({"timings": dict(whole)} if whole else {}))
    else:
        _print_text(result)
        click.echo(timings_as_text(result, whole) if whole else "", err=True, nl=False)
    if result.is_error:
        raise click.exceptions.Exit(EXIT_FAILED)


def _arguments(tool: Tool, pairs: tuple[str, ...], text: str | None) -> Any:
    if text is not None and pairs:
        raise click.UsageError("give KEY=VALUE words or --args, not both")
    if text is not None:
        try:
            return json.loads(sys.stdin.read() if text == "-" else text)
        except ValueError as error:
            raise click.UsageError(f"--args is not JSON: {error}") from None
    if pairs and not any("=" in pair for pair in pairs):
        return pairs[0] if len(pairs) == 1 else list(pairs)
    wrong = next((pair for pair in pairs if "=" not in pair), None)
    if wrong is not None:
        raise click.UsageError(f"{wrong!r} is not KEY=VALUE")
    return arguments_from_text(tool, [_split(pair) for pair in pairs])


def _split(pair: str) -> tuple[str, str]:
    key, _, value = pair.partition("=")
    return key, value


def _print_text(result: ToolResult) -> None:
    if result.outcome == "ok":
        click.echo(result.content)
        if result.stderr:
            click.echo(result.stderr, err=True, nl=False)
    else:
        click.echo(result.content, err=True)
    for path in result.saved:
        click.echo(f"all of it: {path}", err=True)
    for file in result.files[:_MOST_NAMED]:
        click.echo(f"{file.change}: {file.path}", err=True)
    if len(result.files) > _MOST_NAMED:
        click.echo(f"and {len(result.files) - _MOST_NAMED:,} more files (--json)", err=True)
