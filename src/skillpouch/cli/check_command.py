"""`skillpouch check`: shows everything that is wrong with skills, or worth knowing."""

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from skillpouch.cli.options import EXIT_FAILED, common_options
from skillpouch.cli.output import as_dict, print_json, print_problems
from skillpouch.environment import default_roots

if TYPE_CHECKING:
    from skillpouch.checks.report import Checked

_PATIENCE_SECONDS = 1.0


@click.command("check")
@click.argument("paths", nargs=-1, type=click.Path(exists=True, path_type=Path))
@click.option("--strict", is_flag=True, help="Also report what other runtimes would reject.")
@common_options
def command(paths: tuple[Path, ...], strict: bool, roots: tuple[Path, ...], as_json: bool) -> None:
    """Check the skills below PATHS, or in the usual folders. Runs nothing.

    Exits with 1 when a skill had to be skipped; with --strict, on any problem to mend.
    """
    # Here, so that `skillpouch --help` does not load what reads scripts.
    from skillpouch.checks.report import check_skills

    with _progress() as advance:
        checked = check_skills(list(paths or roots or default_roots()), strict, advance)
    if as_json:
        print_json(
            {
                "found": checked.found,
                "loaded": checked.loaded,
                "skipped": checked.skipped,
                "tools": checked.tools,
                "problems": [as_dict(problem) for problem in checked.problems],
            }
        )
    else:
        _print_text(checked)
    if checked.skipped or (strict and not checked.is_clean):
        raise click.exceptions.Exit(EXIT_FAILED)


def _print_text(checked: "Checked") -> None:
    print_problems(checked.problems, err=False)
    click.echo(
        f"{checked.found} found, {checked.loaded} loaded, {checked.skipped} skipped, "
        f"{checked.tools} tools, {len(checked.problems)} problems",
        err=True,
    )


def _progress() -> AbstractContextManager[Callable[[int, int], None]]:
    """Show a bar on a terminal, once the check has taken longer than a moment."""
    return _Bar() if sys.stderr.isatty() else nullcontext(lambda _done, _total: None)


class _Bar:
    def __init__(self) -> None:
        self._started = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Callable[[int, int], None]:
        return self._advance

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _advance(self, done: int, total: int) -> None:
        if self._bar is None:
            if time.monotonic() - self._started < _PATIENCE_SECONDS:
                return
            from rich.console import Console
            from rich.progress import Progress

            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task("checking skills", total=total)
            self._bar.start()
        self._bar.update(self._task, completed=done, total=total)
