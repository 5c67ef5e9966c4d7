"""What is shown while a call takes long: a line that lives on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

import click

from skillpouch.policy.approval import Approver, Reply
from skillpouch.policy.terminal import terminal_approver

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from skillpouch.policy.approval import Question


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

    @property
    def approver(self) -> Approver:
        return terminal_approver()


class TerminalProgress:
    """The name of the tool and the time so far; below it a bar while a program is fetched.

    It makes room while somebody is asked: two that write to one terminal read as neither.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._live: Progress | None = None
        self._bar: TaskID | None = None

    def __enter__(self) -> Self:
        self._live = _rich_progress()
        self._live.add_task(self._what, total=None, is_download=False)
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
