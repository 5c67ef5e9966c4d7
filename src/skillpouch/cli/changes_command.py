"""`skillpouch changes`, `diff`, `apply`, `discard`, `undo`: what calls changed, and back again."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from skillpouch.builtins.kept_calls import KeptChanges, line_of
from skillpouch.cli.call_command import progress_of
from skillpouch.cli.options import EXIT_FAILED, common_options
from skillpouch.cli.output import print_json, print_table, result_as_dict
from skillpouch.manager import SkillManager
from skillpouch.results import ToolResult
from skillpouch.text import clean

_Command = TypeVar("_Command", bound=Callable[..., Any])
_NAMED = 2
_DIFF_BYTES = 10_000_000


def workspace_options(command: _Command) -> _Command:
    """Add `--workspace DIR` and the options of every command."""
    workspace = click.option(
        "--workspace",
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        metavar="DIR",
        help="The workspace of the call; by default the current folder.",
    )
    return workspace(common_options(command))


@click.command("changes")
@click.option("--session", metavar="ID", help="Only calls of this session.")
@click.option("--all", "show_all", is_flag=True, help="Also what was discarded.")
@workspace_options
def changes_command(
    session: str | None,
    show_all: bool,
    workspace: Path | None,
    roots: tuple[Path, ...],
    as_json: bool,
) -> None:
    """List what is kept of calls in this workspace, and the next step for each; newest first."""
    kept = SkillManager(*roots, workspace=workspace).changes(session=session)
    shown = [each for each in kept if show_all or each.state != "discarded"]
    if as_json:
        print_json({"changes": [_as_dict(each) for each in shown]})
        return
    rows = [
        (each.id, _local(each), clean(each.tool), each.state, _short(each), _next_step(each))
        for each in shown
    ]
    if rows:
        print_table(("call", "time", "tool", "state", "changes", "next"), rows)
    else:
        click.echo("nothing is kept of calls in this workspace", err=True)


@click.command("diff")
@click.argument("call")
@click.option("--path", metavar="PATH", help="Only this file, or the files below this folder.")
@workspace_options
def diff_command(
    call: str,
    path: str | None,
    workspace: Path | None,
    roots: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Show what CALL changed, or would change if it is applied, as a text diff.

    CALL is the number that `skillpouch changes` and the journal show. Values of granted secrets
    are taken out; files that are no text are told by size and hash.
    """
    manager = SkillManager(*roots, workspace=workspace)
    text = manager.diff(call, path=path, most_bytes=_DIFF_BYTES)
    if as_json:
        kept = next((each for each in manager.changes() if each.id == call), None)
        print_json({**(_as_dict(kept) if kept else {"call": call}), "diff": text})
    else:
        click.echo(text, nl=not text.endswith("\n"))


@click.command("apply")
@click.argument("call", required=False)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--earlier", is_flag=True, help="First the calls that wait and CALL builds on.")
@click.option("--session", metavar="ID", help="All calls of this session that wait.")
@workspace_options
def apply_command(  # noqa: PLR0913, PLR0917 - one parameter per option
    call: str | None,
    paths: tuple[str, ...],
    earlier: bool,
    session: str | None,
    workspace: Path | None,
    roots: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Bring what the staged CALL changed into the workspace: all of it, or these PATHs.

    Files that somebody else changed meanwhile are named and left alone, and so are those of an
    earlier call of the session that waits; the exit code is 1 then.
    """
    _require_one(call, session)

    def apply(manager: SkillManager) -> ToolResult:
        return manager.apply(call, paths, session=session, earlier=earlier)

    _report(_working(roots, workspace, apply), as_json)


@click.command("discard")
@click.argument("call", required=False)
@click.option("--session", metavar="ID", help="All calls of this session that wait.")
@workspace_options
def discard_command(
    call: str | None,
    session: str | None,
    workspace: Path | None,
    roots: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Drop what the staged CALL changed: it never reaches the workspace."""
    _require_one(call, session)

    def discard(manager: SkillManager) -> ToolResult:
        return manager.discard(call, session=session)

    _report(_working(roots, workspace, discard), as_json)


def _require_one(call: str | None, session: str | None) -> None:
    if (call is None) == (session is None):
        raise click.UsageError("give CALL, or --session: one of them")


@click.command("undo")
@click.argument("call", required=False)
@click.argument("paths", nargs=-1, metavar="[PATH]...")
@click.option("--calls", type=click.IntRange(min=1), metavar="N", help="This many calls back.")
@click.option("--session", metavar="ID", help="All calls of this session.")
@workspace_options
def undo_command(  # noqa: PLR0913, PLR0917 - one parameter per option
    call: str | None,
    paths: tuple[str, ...],
    calls: int | None,
    session: str | None,
    workspace: Path | None,
    roots: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Take back what CALL changed; without CALL, the last call that changed something here.

    Content, permissions, times, links and extended attributes are as they were. Files that
    somebody else changed since are named and left alone; the exit code is 1 then. An undo is a
    call of its own: to take it back, undo it by its number.
    """
    if call is not None and (calls or session):
        raise click.UsageError("give CALL, or --calls and --session: not both")

    def undo(manager: SkillManager) -> ToolResult:
        return manager.undo(call, calls=calls, session=session, paths=paths)

    _report(_working(roots, workspace, undo), as_json)


def _working(
    roots: tuple[Path, ...], workspace: Path | None, work: Callable[[SkillManager], ToolResult]
) -> ToolResult:
    shown = progress_of("changes")
    with shown:
        manager = SkillManager(
            *roots, workspace=workspace, on_progress=shown, approver=shown.approver
        )
        return work(manager)


def _report(result: ToolResult, as_json: bool) -> None:
    if as_json:
        print_json(result_as_dict(result))
    else:
        click.echo(clean(result.content))
        if result.tool == "skillpouch.undo" and result.call_id:
            click.echo(f"`skillpouch undo {result.call_id}` takes this back", err=True)
    if result.is_error:
        raise click.exceptions.Exit(EXIT_FAILED)


def _as_dict(kept: KeptChanges) -> dict[str, Any]:
    return {
        "call": kept.id,
        "tool": kept.tool,
        "session": kept.session,
        "workspace": str(kept.workspace),
        "state": kept.state,
        "started_ns": kept.started_ns,
        "reverses": kept.reverses,
        "total": kept.total,
        "changes": [each.facts for each in kept.changes],
        "conflicts": [{"path": each.path, "reason": each.reason} for each in kept.conflicts],
    }


def _local(kept: KeptChanges) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(kept.started_ns / 1e9))


def _short(kept: KeptChanges) -> str:
    named = ", ".join(line_of(each) for each in kept.changes[:_NAMED])
    more = kept.total - min(len(kept.changes), _NAMED)
    return clean(f"{named} and {more:,} more" if more > 0 else named)


def _next_step(kept: KeptChanges) -> str:
    match kept.state:
        case "staged" | "refused":
            return f"apply {kept.id}, discard {kept.id}"
        case "applied":
            return f"undo {kept.id}"
        case "undone":
            return f"apply {kept.id}"
        case _:
            return ""
