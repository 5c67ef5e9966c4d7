"""`skillpouch journal`: shows what ran, with which arguments, who allowed it, how it ended."""

import dataclasses
import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar, get_args

import click

from skillpouch.cli.options import common_options
from skillpouch.cli.output import print_table
from skillpouch.environment import state_directory
from skillpouch.journal.journal import Retention, prune
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.journal.records import Entry
from skillpouch.journal.store import FILE_NAME
from skillpouch.results import Outcome
from skillpouch.text import clean

_Command = TypeVar("_Command", bound=Callable[..., Any])
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_AGO = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhdw])\Z")
_OUTCOMES = (*get_args(Outcome), "not_started", "running", "interrupted", "elsewhere")

_HOW = f"Calls with this outcome: {', '.join(_OUTCOMES)}."


class Moment(click.ParamType[int]):
    """A moment: how long ago (`90s`, `2h`, `7d`) or when (`2026-11-01`, `2026-11-01T09:30`)."""

    name = "when"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return nanoseconds since 1970; a time without a zone is local."""
        if isinstance(value, int):
            return value
        ago = _AGO.match(value.strip())
        if ago:
            return _within(time.time_ns() - int(float(ago[1]) * _UNITS[ago[2]] * 1e9))
        try:
            moment = datetime.fromisoformat(value.strip()).astimezone()
            return _within(int(moment.timestamp()) * 10**9)
        except (ValueError, OverflowError, OSError):
            self.fail(
                f"{value!r} is not a time: use 2h, 7d, 2026-11-01 or 2026-11-01T09:30", param, ctx
            )


def _within(moment_ns: int) -> int:
    """Return a moment that SQLite can hold: there are no calls before 1970."""
    return max(0, min(moment_ns, 2**62))


_OPTIONS = (
    click.option("--tool", metavar="ID", help="Calls of this tool; * stands for any text."),
    click.option("--skill", metavar="NAME", help="Calls of this skill's tools."),
    click.option("--session", metavar="ID", help="Calls of this session."),
    click.option("--outcome", type=click.Choice(_OUTCOMES), metavar="NAME", help=_HOW),
    click.option("--since", "since_ns", type=Moment(), metavar="WHEN", help="2h, 7d, 2026-11-01."),
    click.option("--until", "until_ns", type=Moment(), metavar="WHEN", help="Calls before then."),
)


def filter_options(command: _Command) -> _Command:
    """Add the options; the command gets their values as keywords, for `query_of`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def query_of(filters: dict[str, Any]) -> Query:
    """Return the query that the options make."""
    return Query(**{name: value for name, value in filters.items() if value is not None})


HEADINGS = ("id", "time", "tool", "outcome", "exit", "ms", "arguments", "changes")
_ARGUMENT_CHARACTERS = 60
_MOST_CHANGES = 20


def as_row(entry: Entry) -> tuple[str, ...]:
    """Return the cells of one line."""
    return (
        str(entry.id),
        _local(entry.started_ns),
        clean(entry.tool),
        clean(entry.outcome),
        "" if entry.exit_code is None else str(entry.exit_code),
        "" if entry.duration_ms is None else f"{entry.duration_ms:.0f}",
        _short(entry),
        _changes(entry),
    )


def _changes(entry: Entry) -> str:
    """Return what a call changed in few words: `3 created, 1 deleted, undoable`."""
    if not entry.changes_total:
        return ""
    kinds = [clean(str(each.get("change"))) for each in entry.changes]
    counts = [f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds)]
    more = entry.changes_total - len(kinds)
    return ", ".join([*counts, *([f"{more} more"] if more else []), clean(entry.writes or "")])


def as_dict(entry: Entry) -> dict[str, Any]:
    """Return all that is known of a call; times also in words."""
    ended = entry.ended_ns
    return dataclasses.asdict(entry) | {
        "started": _utc(entry.started_ns),
        "ended": None if ended is None else _utc(ended),
    }


def json_line(entry: Entry) -> str:
    """Return a call as one line of JSON."""
    return safe_json(json.dumps(as_dict(entry)))


def safe_json(text: str) -> str:
    """Return JSON without the one control character that `json.dumps` leaves as it is."""
    return text.replace("\x7f", "\\u007f")


def describe(entry: Entry) -> str:
    """Return a whole call, in lines."""
    facts = {
        "tool": entry.tool,
        "skill": entry.skill,
        "digest": entry.digest,
        "session": entry.session,
        "made by": None if entry.parent is None else f"call {entry.parent}",
        "started": _local(entry.started_ns),
        "outcome": f"{entry.outcome}{f' ({entry.code})' if entry.code else ''}",
        "exit code": entry.exit_code,
        "duration": None if entry.duration_ms is None else f"{entry.duration_ms:.1f} ms",
        "output": None if entry.output_bytes is None else f"{entry.output_bytes:,} bytes",
        "decision": f"{entry.decision}{f' by {entry.approved_by}' if entry.approved_by else ''}",
        "protections": ", ".join(f"{name} {by}" for name, by in dict(entry.protections).items()),
        "changes": _changes(entry),
        "undo": f"skillpouch undo {entry.call_id}" if entry.call_id and entry.changes else None,
        "process": entry.pid,
        "arguments": _argument_text(entry),
        "sha256": entry.arguments_sha256,
    }
    lines = [f"call {entry.id}", ""]
    lines += [
        f"  {label + ':':<14}{clean(str(value))}"
        for label, value in facts.items()
        if value not in (None, "")
    ]
    lines += [f"    {line}" for line in _change_lines(entry)]
    for label, text in (("content", entry.content), ("standard error", entry.stderr)):
        if text:
            lines += ["", f"  {label}{_cut(entry) if label == 'content' else ''}:", "", clean(text)]
    return "\n".join(lines)


def _change_lines(entry: Entry) -> list[str]:
    shown = entry.changes[:_MOST_CHANGES]
    lines = []
    for each in shown:
        digest = str(each.get("sha256", ""))[:16]
        told = f"{each.get('change')}: {each.get('path')} ({each.get('size')} bytes)"
        lines.append(f"{told} sha256 {digest}…" if digest else told)
    more = entry.changes_total - len(shown)
    return [*map(clean, lines), *([f"and {more:,} more (--json)"] if more else [])]


def _cut(entry: Entry) -> str:
    kept, whole = len(entry.content or ""), entry.content_characters or 0
    return f" (the first {kept:,} of {whole:,} characters)" if kept < whole else ""


def _short(entry: Entry) -> str:
    text = clean(_argument_text(entry))
    return text if len(text) <= _ARGUMENT_CHARACTERS else f"{text[: _ARGUMENT_CHARACTERS - 1]}…"


def _argument_text(entry: Entry) -> str:
    if entry.arguments_cut:
        return f"{entry.arguments}…"
    return json.dumps(entry.arguments, ensure_ascii=False)


def _local(moment_ns: int) -> str:
    moment = datetime.fromtimestamp(moment_ns / 1e9, UTC).astimezone()
    return f"{moment:%Y-%m-%d %H:%M:%S}"


def _utc(moment_ns: int) -> str:
    seconds, rest = divmod(moment_ns, 10**9)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


_LOOK_SECONDS = 0.25
_MOST_WAITING = 1000


@click.group("journal", invoke_without_command=True)
@click.option("--limit", default=20, type=click.IntRange(min=0), help="How many; 20 unless told.")
@click.option("--follow", is_flag=True, help="Keep running, and show each call when it ends.")
@filter_options
@common_options
@click.pass_context
def command(
    context: click.Context,
    /,
    limit: int,
    follow: bool,
    roots: tuple[Path, ...],  # noqa: ARG001 - every command has them
    as_json: bool,
    **filters: Any,
) -> None:
    """Show the latest calls, the newest last. Runs nothing."""
    if context.invoked_subcommand is not None:
        if any(value is not None for value in filters.values()):
            raise click.UsageError(f"give options after `{context.invoked_subcommand}`")
        return
    query = query_of(filters)
    with _reader() as reader:
        if follow:
            for entry in _follow(reader, query, limit):
                _print_line(entry, as_json=as_json)
        else:
            _print_entries(reader.newest(query, limit), as_json=as_json)


@command.command("show")
@click.argument("number", type=click.IntRange(min=1, max=2**62), metavar="ID")
@common_options
def show(number: int, roots: tuple[Path, ...], as_json: bool) -> None:  # noqa: ARG001
    """Show one call, whole."""
    with _reader() as reader:
        entry = reader.get(number)
    click.echo(safe_json(json.dumps(as_dict(entry), indent=2)) if as_json else describe(entry))


@command.command("export")
@filter_options
@common_options
def export(roots: tuple[Path, ...], as_json: bool, **filters: Any) -> None:  # noqa: ARG001
    """Print every call as one line of JSON, the oldest first."""
    with _reader() as reader:
        for entry in reader.after(query_of(filters)):
            click.echo(json_line(entry))


@command.command("prune")
@click.option("--days", default=30.0, type=click.FloatRange(min=0), help="Keep younger ones.")
@click.option("--megabytes", default=256.0, type=click.FloatRange(min=0), help="Keep so much.")
@common_options
def remove(days: float, megabytes: float, roots: tuple[Path, ...], as_json: bool) -> None:  # noqa: ARG001
    """Remove old calls now; by itself it is done once a day."""
    directory = state_directory()
    removed = 0
    if directory is not None:
        removed = prune(directory, Retention(days=days, megabytes=megabytes))
    if as_json:
        click.echo(json.dumps({"removed": removed}))
    else:
        click.echo(f"{removed:,} calls removed" if removed != 1 else "1 call removed")


def _reader() -> JournalReader:
    return JournalReader(state_directory(), warn=lambda said: click.echo(said, err=True))


def _print_entries(entries: list[Entry], *, as_json: bool) -> None:
    if as_json:
        calls = [as_dict(entry) for entry in entries]
        click.echo(safe_json(json.dumps({"calls": calls}, indent=2)))
    elif entries:
        print_table(HEADINGS, [as_row(entry) for entry in entries])
    else:
        click.echo(f"no such call in {state_directory()}/{FILE_NAME}", err=True)


def _print_line(entry: Entry, *, as_json: bool) -> None:
    cells = (" ".join(cell.split()) for cell in as_row(entry))
    click.echo(json_line(entry) if as_json else "\t".join(cells))


def _follow(reader: JournalReader, query: Query, limit: int) -> Iterator[Entry]:
    """Yield the latest calls, then each call once, when it is known how it ended."""
    # What runs is noted before anything is shown: a call that ends meanwhile is not missed.
    latest = reader.latest()
    anyhow = replace(query, outcome="")
    waiting = {
        entry.id for entry in reader.newest(replace(query, outcome="running"), _MOST_WAITING)
    }
    shown = reader.newest(query, limit)
    ended = {entry.id for entry in shown if entry.ended_ns is not None}
    yield from shown
    while True:
        time.sleep(_LOOK_SECONDS)
        reader.close()  # the file may have been replaced meanwhile
        news = [entry for number in sorted(waiting) for entry in reader.found(number)]
        for entry in chain(news, reader.after(anyhow, latest)):
            latest = max(latest, entry.id)
            if entry.outcome in ("running", "elsewhere"):
                waiting.add(entry.id)
                continue
            waiting.discard(entry.id)
            if entry.id not in ended and query.outcome in ("", entry.outcome):
                yield entry
