"""`skillpouch journal`: what ran, with which arguments, who allowed it, and how it ended."""

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import click

from skillpouch.cli.as_text import print_table
from skillpouch.cli.journal_filters import filter_options, query_of
from skillpouch.cli.journal_text import HEADINGS, as_dict, as_row, describe, json_line, safe_json
from skillpouch.cli.options import common_options
from skillpouch.environment import state_directory
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.journal.records import Entry
from skillpouch.journal.retention import Retention, prune
from skillpouch.journal.store import FILE_NAME

_LOOK_SECONDS = 0.25
_MOST_WAITING = 1000


@click.group("journal", invoke_without_command=True)
@click.option("--limit", default=20, type=click.IntRange(min=0), help="How many; 20 unless told.")
@click.option("--follow", is_flag=True, help="Go on, and show each call when it has ended.")
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
