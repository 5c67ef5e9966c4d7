"""`skillpouch jobs`: calls that were started and left, their output and their results."""

import sys
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import click

from skillpouch.cli.approvals_command import short_id
from skillpouch.cli.call_command import print_result
from skillpouch.cli.options import EXIT_FAILED, common_options
from skillpouch.cli.output import (
    print_json,
    print_table,
    refusal_as_dict,
    result_as_dict,
    size_text,
)
from skillpouch.errors import SkillpouchError
from skillpouch.jobs.job import STATES, Job, JobState, JobTimeoutError
from skillpouch.jobs.job_store import JobStore
from skillpouch.policy.loading import read_job_bounds
from skillpouch.runtime.loop_thread import run_blocking
from skillpouch.text import clean

_LOOK_SECONDS = 0.5
_EXIT_NOT_ENDED = 124  # as timeout(1)
_HEADINGS = ("id", "queued", "tool", "state", "took", "progress")
_NO_OUTPUT = 2**62  # an offset after everything


@click.group("jobs", invoke_without_command=True)
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES),
    metavar="STATE",
    help=f"Only jobs in this state: {', '.join(STATES)}. Repeatable.",
)
@click.option("--session", metavar="ID", help="Only jobs of this session.")
@click.option("--limit", default=20, type=click.IntRange(min=1), help="How many; 20 unless told.")
@click.option("--watch", is_flag=True, help="Keep running, and show what changes.")
@common_options
@click.pass_context
def command(  # noqa: PLR0913, PLR0917 - one parameter per option
    context: click.Context,
    /,
    states: tuple[JobState, ...],
    session: str | None,
    limit: int,
    watch: bool,
    roots: tuple[Path, ...],  # noqa: ARG001 - every command has them
    as_json: bool,
) -> None:
    """List jobs, the newest first: calls that were started and left.

    `skillpouch call --background` starts one. ID is that of a job, or its first characters.
    """
    if context.invoked_subcommand is not None:
        return
    store = JobStore()

    def look() -> list[Job]:
        return store.jobs(state=states or None, session=session, limit=limit)

    if watch:
        _watch(look, as_json=as_json)
    elif as_json:
        print_json({"jobs": [job_as_dict(job) for job in look()]})
    elif found := look():
        print_table(_HEADINGS, [_row(job) for job in found])
    else:
        click.echo("there are no such jobs", err=True)


def _watch(look: Any, *, as_json: bool) -> None:
    if sys.stdout.isatty() and not as_json:
        _watch_table(look)
        return
    for job in _changes(look):
        if as_json:
            click.echo(_json_line(job_as_dict(job)))
        else:
            click.echo("\t".join(" ".join(cell.split()) for cell in _row(job)))


def _changes(look: Any) -> Iterator[Job]:
    """Yield every job that is there, then each whose state or progress has changed."""
    seen: dict[str, object] = {}
    while True:
        for job in reversed(look()):
            told = job.state, job.progress
            if seen.get(job.id) != told:
                seen[job.id] = told
                yield job
        time.sleep(_LOOK_SECONDS)


def _watch_table(look: Any) -> None:
    from rich.live import Live
    from rich.table import Table
    from rich.text import Text

    with Live(auto_refresh=False) as live:
        while True:
            table = Table(*_HEADINGS, box=None, header_style="bold", padding=(0, 2, 0, 0))
            for job in look():
                table.add_row(*(Text(" ".join(cell.split())) for cell in _row(job)))
            live.update(table, refresh=True)
            time.sleep(_LOOK_SECONDS)


@command.command("show")
@click.argument("job", metavar="ID")
@common_options
def show(job: str, roots: tuple[Path, ...], as_json: bool) -> None:  # noqa: ARG001
    """Show one job: its state, what it waits for, how it ended."""
    store = JobStore()
    found = store.job(store.find(job))
    facts = job_as_dict(found)
    facts |= {"owner": found.owner, "output_bytes": _output_bytes(found), **_ending(found)}
    if as_json:
        print_json(facts)
        return
    for name, value in facts.items():
        if value not in (None, "", {}):
            click.echo(f"  {name.replace('_', ' ') + ':':<16}{clean(str(value))}")
    step = {
        "waiting_for_approval": f"`skillpouch approvals show {found.id}`",
        "running": f"`skillpouch jobs output -f {found.id}`",
    }.get(found.state, f"`skillpouch jobs wait {found.id}`")
    click.echo(f"next: {step}", err=True)


def _output_bytes(job: Job) -> int:
    end = job.output(_NO_OUTPUT, most_bytes=1).next_offset
    return 0 if end == _NO_OUTPUT else end  # it has written nothing so far


def _ending(job: Job) -> dict[str, Any]:
    if not job.is_final:
        return {}
    try:
        result = job.result(0)
    except SkillpouchError as error:
        return {"code": error.code, "error": str(error), "hint": error.hint}
    return {"outcome": result.outcome, "code": result.code, "exit_code": result.exit_code}


@command.command("wait")
@click.argument("job", metavar="ID")
@click.option("--timeout", type=click.FloatRange(min=0), metavar="SECONDS", help="At most so long.")
@common_options
def wait(job: str, timeout: float | None, roots: tuple[Path, ...], as_json: bool) -> None:  # noqa: ARG001
    """Wait until a job has ended, and print its result as `skillpouch call` does.

    The exit code is that of `skillpouch call`: 1 if it failed, was cancelled or is lost, 3 if it
    was denied, 4 if it could not be started; 124 if it has not ended in time.
    """
    store = JobStore()
    found = store.job(store.find(job))
    try:
        run_blocking(_told(found, timeout))
        result = found.result(0)
    except JobTimeoutError as error:
        if as_json:
            print_json(job_as_dict(found))
        click.echo(f"{error}", err=True)
        raise click.exceptions.Exit(_EXIT_NOT_ENDED) from None
    except SkillpouchError as error:
        if as_json:
            print_json(refusal_as_dict(found.tool, error))
        raise
    if as_json:
        print_json(result_as_dict(result) | {"job": found.id})
    else:
        print_result(result)
    if result.is_error:
        raise click.exceptions.Exit(EXIT_FAILED)


async def _told(job: Job, timeout: float | None) -> None:
    """Wait until a job has ended, and tell whoever waits what it waits for."""
    import asyncio

    async def follow() -> None:
        last = ""
        async for update in job.follow(_NO_OUTPUT):
            if update.state != last and update.state == "waiting_for_approval":
                click.echo(f"it waits: `skillpouch approvals show {job.id}`", err=True)
            last = update.state

    try:
        async with asyncio.timeout(timeout):
            await follow()
    except TimeoutError:
        state = await asyncio.to_thread(lambda: job.state)
        raise JobTimeoutError(job.id, timeout or 0.0, state) from None


@command.command("output")
@click.argument("job", metavar="ID")
@click.option("-f", "--follow", is_flag=True, help="Go on until the job has ended.")
@click.option("--offset", default=0, type=click.IntRange(min=0), help="Leave out so many bytes.")
@common_options
def output(job: str, follow: bool, offset: int, roots: tuple[Path, ...], as_json: bool) -> None:  # noqa: ARG001
    """Print what a job has written to stdout and stderr so far, as it came.

    Granted secrets are not in it. On a terminal, control characters are left out.
    """
    store = JobStore()
    found = store.job(store.find(job))
    if as_json:
        print_json(_output_as_dict(found, offset))
        return
    offset = _print_output(found, offset)
    if follow:
        run_blocking(_follow(found, offset))


def _output_as_dict(job: Job, offset: int) -> dict[str, Any]:
    read = job.output(offset)
    return {
        "id": job.id,
        "text": clean(read.data.decode(errors="replace")),
        "offset": read.offset,
        "next_offset": read.next_offset,
        "left_out": read.left_out,
        "is_final": read.is_final,
    }


def _print_output(job: Job, offset: int) -> int:
    while True:
        read = job.output(offset)
        if read.left_out:
            click.echo(f"… {size_text(read.left_out)} were not kept …", err=True)
        _write(read.data)
        if not read.data:
            return read.next_offset
        offset = read.next_offset


async def _follow(job: Job, offset: int) -> None:
    async for update in job.follow(offset):
        _write(update.output)


def _write(data: bytes) -> None:
    if sys.stdout.isatty():
        click.echo(clean(data.decode(errors="replace")), nl=False)
    else:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


@command.command("cancel")
@click.argument("job", metavar="ID")
@common_options
def cancel(job: str, roots: tuple[Path, ...], as_json: bool) -> None:  # noqa: ARG001
    """End a job, with everything that it started; one that has ended stays as it is."""
    store = JobStore()
    found = store.job(store.find(job))
    was_final = found.is_final
    state = found.state if was_final else found.cancel()
    if as_json:
        print_json({"id": found.id, "state": state})
    else:
        click.echo(state)
    if state != "cancelled":
        click.echo(f"it had ended already: {state}", err=True)
        raise click.exceptions.Exit(EXIT_FAILED)


@command.command("prune")
@click.option("--days", type=click.FloatRange(min=0), help="Keep younger ones; 7 unless told.")
@click.option("--megabytes", type=click.FloatRange(min=0), help="Keep so much; 1024 unless told.")
@common_options
def prune(
    days: float | None,
    megabytes: float | None,
    roots: tuple[Path, ...],  # noqa: ARG001 - every command has them
    as_json: bool,
) -> None:
    """Remove jobs that have ended, with their results and output; a job host does it by itself."""
    bounds = read_job_bounds()
    days = bounds.keep_days if days is None else days
    megabytes = bounds.keep_megabytes if megabytes is None else megabytes
    removed = JobStore().prune(seconds=days * 86_400.0, most_bytes=int(megabytes * 1024 * 1024))
    if as_json:
        print_json({"removed": removed})
    else:
        click.echo(f"{removed:,} jobs removed" if removed != 1 else "1 job removed")


def job_as_dict(job: Job) -> dict[str, Any]:
    """Return a job as JSON has it."""
    progress, question = job.progress, job.question
    return {
        "id": job.id,
        "tool": job.tool,
        "state": job.state,
        "session": job.session,
        "queued_at": job.created_at.isoformat(),
        "started_at": _iso(job.started_at),
        "ended_at": _iso(job.ended_at),
        **({} if progress is None else {"progress": _progress(job)}),
        **({} if question is None else {"question": question.id}),
    }


def _json_line(facts: dict[str, Any]) -> str:
    import json

    return json.dumps(facts)


def _iso(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _row(job: Job) -> tuple[str, ...]:
    waits = job.question
    told = f"asks: skillpouch approvals show {short_id(waits.id)}" if waits else _progress(job)
    return (
        short_id(job.id),
        f"{job.created_at.astimezone():%Y-%m-%d %H:%M:%S}",
        clean(job.tool),
        job.state,
        _took(job),
        clean(told),
    )


def _progress(job: Job) -> str:
    progress = job.progress
    if progress is None:
        return ""
    of = "" if progress.total is None else f" of {progress.total:g}"
    return f"{progress.done:g}{of} {progress.message}".strip()


def _took(job: Job) -> str:
    started, ended = job.started_at, job.ended_at
    if started is None or job.state == "waiting_for_approval":
        return ""
    seconds = ((ended or datetime.now(started.tzinfo)) - started).total_seconds()
    return f"{max(seconds, 0.0):.1f} s"
