"""SkillWatcher: a thread that reloads skills when their files change."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

from skillpouch.discovery.skill_copies import SkillCopies
from skillpouch.discovery.tool_reading import ToolReader
from skillpouch.discovery.watching.listening import Changes, Listeners, OnChange
from skillpouch.discovery.watching.reading import Stamps, VersionReader, look
from skillpouch.discovery.watching.reloading import Reloading, Serving
from skillpouch.errors import SkillpouchError
from skillpouch.runtime.extras import has_extra, require_extra

_log = logging.getLogger(__name__)
_WORK = 0.25  # the largest share of time that polling may take
_LONGEST_SECONDS = 5.0  # between two polls
# Polls even with events: network file systems do not report what other machines write, and the
# queue of events can overflow, inotify(7).
_ANYWAY_SECONDS = 10.0
_ROOTS_MS = 250  # between checks of the roots themselves: one may appear or be replaced
_BURST_MS = 50
_STEP_MS = 10


def wake_by_polling(stop: threading.Event, pause: Callable[[], float]) -> Iterator[None]:
    """Yield after every `pause`, which may return another time each time, until `stop` is set."""
    while not stop.wait(pause()):
        yield


def pause_after(look_seconds: float, least: float) -> float:
    """Return the pause after a poll that took `look_seconds`, so that polling stays cheap."""
    return max(least, min(_LONGEST_SECONDS, look_seconds / _WORK))


def wake_by_events(
    roots: Sequence[str], stop: threading.Event, pause: Callable[[], float]
) -> Iterator[None]:
    """Yield when something below the roots may have changed, until `stop` is set."""
    while not stop.is_set():
        try:
            yield from _while_the_same(roots, stop)
        # OSError: no watches left, or the file system has none. RuntimeError, from watchfiles: no
        # inotify instances left, of which a user has 128 by default, inotify(7).
        except (OSError, RuntimeError) as error:
            _log.warning("cannot be notified of changes, polling instead: %s", error)
            yield from wake_by_polling(stop, pause)


def _while_the_same(roots: Sequence[str], stop: threading.Event) -> Iterator[None]:
    """Watch the folders that the roots lead to, until they lead elsewhere."""
    from watchfiles import watch

    folders = _folders(roots)
    looked = -_ANYWAY_SECONDS  # poll at once: files may have changed before the watch began
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
    """Return the real path of each root, with its current device and inode."""
    return {os.path.realpath(root): _identity(root) for root in roots}


def _identity(root: str) -> tuple[int, int] | None:
    try:
        status = os.stat(root)
    except OSError:
        return None
    return status.st_dev, status.st_ino


_LONGEST_BURST = 10  # polls, before skills are read although files of others still change


class AlreadyWatchedError(SkillpouchError):
    """A manager has one watcher, which can have many listeners."""

    code = "already_watched"

    def __init__(self) -> None:
        super().__init__(
            "these skills are already being watched",
            hint="add a listener to the watcher that runs: watcher.listen(on_change)",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How long to wait: between polls, for quiet after a change, for a removed file to return."""

    poll_seconds: float = 0.2
    settle_seconds: float = 0.05
    missing_seconds: float = 0.5


class Served(Serving, Protocol):
    """The library whose skills are watched."""

    @property
    def reader(self) -> ToolReader: ...

    def watched_by(self, watcher: "SkillWatcher | None") -> None:
        """Set or clear the watcher; raise AlreadyWatchedError if there is another."""


class SkillWatcher:
    """Reloads changed skills inside `with` or `async with`.

    Listeners are called with one batch after the other: with `async with` on its event loop, where
    they may be coroutine functions; otherwise on the thread of the watcher. If one raises, this is
    logged, and the others are still called. `async for changes in watcher` waits for a batch.
    """

    def __init__(
        self,
        served: Served,
        *,
        polling: bool | None = None,
        timing: Timing | None = None,
    ) -> None:
        if polling is False:
            require_extra("watch", instead="leave polling=False out")
        self._served = served
        self._polls = not has_extra("watch") if polling is None else polling
        self._timing = timing or Timing()
        self._listeners = Listeners()
        self._stop = threading.Event()
        self._turn = threading.RLock()  # reentrant: a listener may call `refresh`
        self._look_seconds = 0.0
        self._copies: SkillCopies | None = None
        self._reloading: Reloading | None = None
        self._thread: threading.Thread | None = None

    def listen(self, on_change: OnChange) -> None:
        """Call a function with the `Changes` of every batch from now on."""
        self._listeners.add(on_change)

    def refresh(self) -> None:
        """Poll now, and return when the current files are served."""
        with self._turn:
            if self._reloading is not None:
                self._catch_up(self._reloading, self._look())

    def run(self) -> None:
        """Watch until interrupted, for a program that does nothing else."""
        with self:
            self._stop.wait()

    def __enter__(self) -> Self:
        self._stop.clear()
        with self._turn:
            self._served.watched_by(self)
            try:
                self._begin()
            except BaseException:
                self._leave()
                raise
        self._thread = threading.Thread(target=self._watch, name="skillpouch-watch", daemon=True)
        self._thread.start()
        return self

    def _begin(self) -> None:
        self._copies = SkillCopies()
        reader = VersionReader(self._served.reader, self._copies)
        seconds = self._timing.missing_seconds
        self._reloading = Reloading(self._served, reader, missing_seconds=seconds)
        self._reloading.reload(self._settled(self._look()))  # not reported to listeners

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        with self._turn:
            self._leave()
        self._listeners.close()

    def _leave(self) -> None:
        self._reloading = self._thread = None
        self._served.watched_by(None)
        if self._copies is not None:
            self._copies.close()
            self._copies = None

    async def __aenter__(self) -> Self:
        self._listeners.use(asyncio.get_running_loop())
        try:
            return await asyncio.to_thread(self.__enter__)
        except BaseException:
            self._listeners.close()
            raise

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, trace)
        await self._listeners.finish()

    def __aiter__(self) -> AsyncIterator[Changes]:
        return self._listeners.batches()

    def _watch(self) -> None:
        reloading = self._reloading
        assert reloading is not None
        if self._polls:
            wakes = wake_by_polling(self._stop, self._pause)
        else:
            wakes = wake_by_events(self._served.roots, self._stop, self._pause)
        for _ in wakes:
            try:
                self._look_once(reloading)
            except Exception:  # noqa: BLE001 - the next edit must be noticed all the same
                _log.exception("changes below %s are not served", self._served.roots)

    def _look_once(self, reloading: Reloading) -> None:
        with self._turn:
            stamps = self._look()
            if reloading.is_waiting or not reloading.is_current(stamps):
                self._catch_up(reloading, stamps)

    def _look(self) -> Stamps:
        started = time.monotonic()
        found = look(self._served.roots)
        self._look_seconds = time.monotonic() - started
        return found

    def _pause(self) -> float:
        return pause_after(self._look_seconds, self._timing.poll_seconds)

    def _catch_up(self, reloading: Reloading, stamps: Stamps) -> None:
        """Reload until the current files are served; report each batch to the listeners."""
        while True:
            changes = reloading.reload(self._settled(stamps))
            if changes is not None:
                self._listeners.tell(changes)
            if not reloading.is_waiting or self._stop.wait(self._timing.settle_seconds):
                return
            stamps = self._look()

    def _settled(self, before: Stamps) -> Stamps:
        """Wait until two polls are equal: half of a `git checkout` must not be served."""
        for _ in range(_LONGEST_BURST):
            if self._stop.wait(self._timing.settle_seconds):
                break
            after = self._look()
            if after == before:
                break
            before = after
        return before
