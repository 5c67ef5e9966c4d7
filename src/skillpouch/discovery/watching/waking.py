"""When to look for changes: told by the operating system through watchfiles, or now and then."""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec

from skillpouch.errors import SkillpouchError

_log = logging.getLogger(__name__)
_WORK = 0.25  # of the time may be spent on looking
_LONGEST_SECONDS = 5.0  # between two looks
# Network file systems tell nothing of what others write, and a queue of events can overflow.
_ANYWAY_SECONDS = 10.0
_ROOTS_MS = 250  # between looks at the roots themselves: one may appear, or be another folder
_BURST_MS = 50
_STEP_MS = 10


class WatchfilesMissingError(SkillpouchError):
    """Polling was ruled out, and there is nothing else."""

    code = "watchfiles_missing"

    def __init__(self) -> None:
        super().__init__(
            "watching without polling needs the package watchfiles",
            hint="pip install 'skillpouch[watch]', or leave polling=False out",
        )


def has_watchfiles() -> bool:
    """Tell whether the operating system can be asked."""
    return find_spec("watchfiles") is not None


def wake_by_polling(stop: threading.Event, pause: Callable[[], float]) -> Iterator[None]:
    """Yield after every `pause`, which may change from one to the next, until `stop` is set."""
    while not stop.wait(pause()):
        yield


def pause_after(look_seconds: float, least: float) -> float:
    """Return how long to pause after a look that took so long: most of the time nothing is done."""
    return max(least, min(_LONGEST_SECONDS, look_seconds / _WORK))


def wake_by_events(
    roots: Sequence[str], stop: threading.Event, pause: Callable[[], float]
) -> Iterator[None]:
    """Yield when something below the roots may have changed, until `stop` is set."""
    while not stop.is_set():
        try:
            yield from _while_the_same(roots, stop)
        # No more watches, or none on this file system; or no more instances of inotify, of which
        # a user has 128 (inotify(7)), and which watchfiles calls an internal RuntimeError.
        except (OSError, RuntimeError) as error:
            _log.warning("cannot be told of changes, looking for them instead: %s", error)
            yield from wake_by_polling(stop, pause)


def _while_the_same(roots: Sequence[str], stop: threading.Event) -> Iterator[None]:
    """Watch the folders that the roots lead to, until they lead elsewhere."""
    from watchfiles import watch

    folders = _folders(roots)
    looked = -_ANYWAY_SECONDS  # at once: who knows what happened before there was a watch
    for changes in watch(
        *[path for path, identity in folders.items() if identity],
        watch_filter=None,
        debounce=_BURST_MS,
        step=_STEP_MS,
        stop_event=stop,
        rust_timeout=_ROOTS_MS,
        yield_on_timeout=True,
        raise_interrupt=False,
        ignore_permission_denied=True,
    ):
        are_others = _folders(roots) != folders
        if changes or are_others or time.monotonic() - looked > _ANYWAY_SECONDS:
            looked = time.monotonic()
            yield
        if are_others:
            return


def _folders(roots: Sequence[str]) -> dict[str, tuple[int, int] | None]:
    """Return which folder each root leads to now."""
    return {os.path.realpath(root): _identity(root) for root in roots}


def _identity(root: str) -> tuple[int, int] | None:
    try:
        status = os.stat(root)
    except OSError:
        return None
    return status.st_dev, status.st_ino
