"""`skillpouch call`: runs one tool, shows its progress, and prints its result."""

import json
import os
import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import click

from skillpouch.arguments import arguments_from_text, call_of_line, line_arguments
from skillpouch.cli.options import DEFINE_TOOLS, EXIT_FAILED, common_options, mcp_servers_for
from skillpouch.cli.output import print_json, refusal_as_dict, result_as_dict
from skillpouch.errors import SkillpouchError, UnknownToolError
from skillpouch.manager import SkillManager
from skillpouch.policy.approval import Approver, Reply
from skillpouch.policy.limit_rules import OwnersTimeout
from skillpouch.policy.terminal import terminal_approver
from skillpouch.registry.registry import AUTHORING_NAMES
from skillpouch.results import Stopwatch, Timings, ToolResult
from skillpouch.tools import Tool

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from skillpouch.jobs.job import Job
    from skillpouch.limits import Writes
    from skillpouch.policy.approval import Question
    from skillpouch.results import Progress as Step


def progress_of(what: str) -> "PlainProgress | TerminalProgress":
    """Return what shows the progress of a call."""
    return TerminalProgress(what) if sys.stderr.isatty() else PlainProgress()


class PlainProgress:
    """One line after the other."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def __call__(self, line: str) -> None:
        click.echo(line, err=True)

    def step(self, progress: "Step") -> None:
        """Show nothing: reports come often, and are for somebody who watches."""

    @property
    def approver(self) -> Approver:
        return terminal_approver()


class TerminalProgress:
    """The name of the tool and the time so far; below it a bar while a program is fetched.

    It is hidden while somebody is asked: both would write to the same lines.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._live: Progress | None = None
        self._task: TaskID | None = None
        self._bar: TaskID | None = None

    def __enter__(self) -> Self:
        self._live = _rich_progress()
        self._task = self._live.add_task(self._what, total=None, is_download=False)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None

    def __call__(self, line: str) -> None:
        if self._live is None:
            click.echo(line, err=True)
        else:
            self._live.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def step(self, progress: "Step") -> None:
        """Show how far the tool says that it is, in the line with its name."""
        if self._live is not None and self._task is not None:
            self._live.update(self._task, description=f"{self._what}  {progress}")

    def measure(self, name: str, done: int, total: int | None) -> None:
        """Show how much of a file is there."""
        if self._live is None:
            return
        if self._bar is None:
            self._bar = self._live.add_task(name, total=total, is_download=True)
        self._live.update(self._bar, description=name, completed=done, total=total)

    @property
    def approver(self) -> Approver:
        ask = terminal_approver()

        async def approve(question: "Question") -> Reply:
            with self._paused():
                reply = ask(question)
                return (
                    reply
                    if isinstance(reply, bool) or not hasattr(reply, "__await__")
                    else await reply
                )

        return approve

    @contextmanager
    def _paused(self) -> Iterator[None]:
        live = self._live
        if live is not None:
            live.stop()
        try:
            yield
        finally:
            if live is not None and live is self._live:
                live.start()


def _rich_progress() -> "Progress":
    from rich.console import Console, RenderableType
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        ProgressColumn,
        SpinnerColumn,
        Task,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.text import Text

    class OfDownloads(ProgressColumn):
        """Shows a column for downloads only."""

        def __init__(self, column: ProgressColumn) -> None:
            super().__init__()
            self._column = column

        def render(self, task: Task) -> RenderableType:
            return self._column(task) if task.fields["is_download"] else Text("")

    download = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        TimeElapsedColumn(),
        *map(OfDownloads, download),
        console=Console(stderr=True),
        transient=True,
    )


_AFTER_THE_PARENTHESIS = 19  # field 22 of /proc/self/stat: when the process started


class CommandWatch:
    """Times what comes before the call itself: starting Skillpouch, reading the skills."""

    def __init__(self) -> None:
        self._started_ms = _milliseconds_so_far()
        self._watch = Stopwatch()

    def lap(self, what: str) -> None:
        self._watch.lap(what)

    def timings_of(self, result: ToolResult) -> Timings:
        start = () if self._started_ms is None else (("start Skillpouch", self._started_ms),)
        return (*start, *self._watch.timings, *result.timings)


def _milliseconds_so_far() -> float | None:
    """Return how long ago this process was started, where the system tells."""
    try:
        fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        started = int(fields[_AFTER_THE_PARENTHESIS]) / os.sysconf("SC_CLK_TCK")
        return round((time.clock_gettime(time.CLOCK_BOOTTIME) - started) * 1000, 3)
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def timings_as_text(result: ToolResult, timings: Timings) -> str:
    """Return one line for each step, the whole, and how the tool was started."""
    lines = [f"{what:<20} {milliseconds:>9.1f} ms" for what, milliseconds in timings]
    total = sum(milliseconds for _, milliseconds in timings)
    return "\n".join([*lines, f"{'in all':<20} {total:>9.1f} ms   {_how(result)}", ""])


def _how(result: ToolResult) -> str:
    if result.warm:
        return "served by a prestarted process, or one is started for the next call"
    return f"started afresh: {result.cold_because}" if result.cold_because else "started afresh"


_MOST_NAMED = 20  # files, on standard error
_PREVIEW = "Change nothing yet: show what the call would change, and keep it for `apply`."
_BACKGROUND = "Start it and leave: print the id of a job, which goes on. See `skillpouch jobs`."
_TIMEOUT = "Time limit, instead of the tool's own: 30 seconds unless it declares another."


_WORDS = "skillpouch.words"  # in the context: the words after `--`


class _CallCommand(click.Command):
    """Keeps the words after `--` apart, and shows usage errors as JSON if that is asked for.

    `--json` may not be read by the time that an option is found to be wrong.
    """

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        options = list(takewhile(lambda word: word != "--", args))
        words = args[len(options) + 1 :] if len(options) < len(args) else None
        try:
            context = super().make_context(info_name, list(options), parent, **extra)
        except click.UsageError as error:
            if "--json" in options:
                tool = error.ctx.params.get("tool") if error.ctx else ""
                print_json(refusal_as_dict(tool or "", error))
            raise
        context.meta[_WORDS] = words
        return context


@click.command("call", cls=_CallCommand)
@click.argument("tool")
@click.argument("pairs", nargs=-1, metavar="[KEY=VALUE]... [-- WORD...]")
@click.option("--args", "text", metavar="JSON", help="All arguments as JSON; - reads stdin.")
@click.option("--stdin", "pass_stdin", is_flag=True, help="Give the tool this standard input.")
@click.option("--timeout", type=click.FloatRange(min=0.001), metavar="SECONDS", help=_TIMEOUT)
@click.option(
    "--workspace",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="Folder in which the tool works and may write; by default the current one.",
)
@click.option("--define-tools", is_flag=True, help=DEFINE_TOOLS)
@click.option("--preview", is_flag=True, help=_PREVIEW)
@click.option("--background", is_flag=True, help=_BACKGROUND)
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
    preview: bool,
    background: bool,
    timings: bool,
    roots: tuple[Path, ...],
    as_json: bool,
) -> None:
    """Run TOOL with arguments, confined: no network, and it writes only the workspace.

    The words after -- are read as the tool's script reads its command line; if TOOL is a skill,
    they are a whole usage line: `skillpouch call pdf -- python scripts/fill.py --in a.pdf`. No
    shell is run. Exits with 1 when the tool ran and failed.
    """
    try:
        _call(
            tool,
            _Given(pairs, text, click.get_current_context().meta[_WORDS]),
            stdin=pass_stdin,
            timeout=timeout,
            workspace=workspace,
            define_tools=define_tools,
            preview=preview,
            background=background,
            timings=timings,
            roots=roots,
            as_json=as_json,
        )
    except (SkillpouchError, click.UsageError) as error:
        if as_json:
            print_json(refusal_as_dict(tool, error))
        raise


class _Given(NamedTuple):
    """The arguments of a call in one of three forms."""

    pairs: tuple[str, ...]
    text: str | None
    words: list[str] | None

    @property
    def is_line(self) -> bool:
        if self.words is None:
            return False
        if self.pairs or self.text is not None:
            raise click.UsageError("give KEY=VALUE words, --args, or words after --: one of them")
        return True


def _call(  # noqa: PLR0913 - one parameter per option
    tool: str,
    given: _Given,
    *,
    stdin: bool,
    timeout: float | None,
    workspace: Path | None,
    define_tools: bool,
    preview: bool,
    background: bool,
    timings: bool,
    roots: tuple[Path, ...],
    as_json: bool,
) -> None:
    if background and timings:
        raise click.UsageError("give --background or --timings, not both")
    watch = CommandWatch()
    shown = progress_of(tool)
    manager = SkillManager(
        *roots,
        workspace=workspace,
        on_progress=shown,
        # A job asks by a question that is kept: this process does not wait for an answer.
        approver=None if background else shown.approver,
        builtins=True,
        define_tools=define_tools,
    )
    if tool in AUTHORING_NAMES and not define_tools:
        raise click.UsageError(f"{tool} is off by default: add --define-tools")
    with mcp_servers_for(manager, tool):
        found, arguments = _tool_and_arguments(manager, tool, given, watch)
        piped = sys.stdin.buffer.read() if stdin else None
        seconds = None if timeout is None else OwnersTimeout(timeout)
        writes: Writes | None = "staged" if preview else None
        if background:
            job = manager.start(found.id, arguments, piped, timeout=seconds, writes=writes)
            _leave(job, as_json)
            return
        with shown:
            result = manager.call(
                found.id, arguments, piped, timeout=seconds, on_step=shown.step, writes=writes
            )
    whole = watch.timings_of(result) if timings else None
    if as_json:
        diff = {"diff": manager.diff(result) if result.call_id else ""} if preview else {}
        print_json(result_as_dict(result) | diff | ({"timings": dict(whole)} if whole else {}))
    else:
        _print_text(manager, result, whole, preview=preview)
    if result.is_error:
        raise click.exceptions.Exit(EXIT_FAILED)


def _print_text(
    manager: SkillManager, result: ToolResult, timings: Timings | None, *, preview: bool
) -> None:
    print_result(result)
    if preview:
        _print_preview(manager, result)
    click.echo(timings_as_text(result, timings) if timings else "", err=True, nl=False)


def _leave(job: "Job", as_json: bool) -> None:
    """Print the id of a job; one that can only run in this process is waited for."""
    if as_json:
        print_json({"id": job.id, "state": job.state})
    else:
        click.echo(job.id)
        step = f"`skillpouch jobs wait {job.id}`"
        click.echo(f"{job.tool} goes on without this command: {step}", err=True)
    if job.runs_here:
        click.echo("it is a tool of this process, which waits for it", err=True)
        with suppress(SkillpouchError):  # `skillpouch jobs wait` tells how it ended
            job.result()


def _tool_and_arguments(
    manager: SkillManager, name: str, given: _Given, watch: CommandWatch
) -> tuple[Tool, Any]:
    is_line = given.is_line
    try:
        found = manager.get_tool(name)
    except UnknownToolError:
        if not is_line or name not in manager.list_skills(include_qualified=True):
            raise
        # The words begin with the command, as SKILL.md shows it.
        return call_of_line(name, manager.get_skill_tools(name), shlex.join(given.words or ()))
    finally:
        watch.lap("read the skills")
    if is_line:
        return found, line_arguments(found, given.words or ())
    return found, _arguments(found, given.pairs, given.text)


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


def _print_preview(manager: SkillManager, result: ToolResult) -> None:
    """Show on standard error what a staged call would change, and the next steps."""
    call = result.call_id
    if not call:
        click.echo("it changes nothing", err=True)
        return
    click.echo(manager.diff(result), err=True, nl=False)
    steps = f"`skillpouch apply {call}` or `skillpouch discard {call}`"
    click.echo(f"staged as call {call}: {steps}", err=True)


def print_result(result: ToolResult) -> None:
    """Print a result: what a tool answered on standard output, the rest on standard error."""
    if result.outcome == "ok":
        click.echo(result.content_without_notes)
        if result.stderr:
            click.echo(result.stderr, err=True, nl=False)
        for note in result.notes:  # not to the program that reads the answer from a pipe
            click.echo(note, err=True)
    else:
        click.echo(result.content, err=True)
    for path in result.saved:
        click.echo(f"all of it: {path}", err=True)
    for file in result.files[:_MOST_NAMED]:
        click.echo(f"{file.change}: {file.path}", err=True)
    if len(result.files) > _MOST_NAMED:
        click.echo(f"and {len(result.files) - _MOST_NAMED:,} more files (--json)", err=True)
