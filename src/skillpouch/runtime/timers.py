"""Timers that pause while a person is asked for approval."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol


class Patient(Protocol):
    """A clock that stops while a person is asked."""

    def stop(self) -> None: ...
    def go_on(self) -> None: ...


_running: ContextVar[tuple[Patient, ...]] = ContextVar("skillpouch_clocks", default=())


class _Time:
    """Runs out after `seconds`, not counting the time in which a person is asked."""

    def __init__(self, seconds: float) -> None:
        self._left = seconds
        self._since = time.monotonic()
        self._stops = 0
        self._lock = threading.Lock()

    def stop(self) -> None:
        with self._lock:
            if not self._stops:
                self._left -= time.monotonic() - self._since
            self._stops += 1

    def go_on(self) -> None:
        with self._lock:
            self._stops -= 1
            self._since = time.monotonic()

    @property
    def is_stopped(self) -> bool:
        with self._lock:
            return self._stops > 0

    def remaining(self) -> float:
        return self._left - (time.monotonic() - self._since)


class PausableTimer:
    """Calls `ring` once on its loop after `seconds`, not counting the time spent asking.

    Inside the `heard` block, every question to a person stops it, from whichever thread.
    """

    def __init__(self, seconds: float, ring: Callable[[], None]) -> None:
        self._seconds = seconds
        self._time = _Time(seconds)
        self._ring = ring
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._ended = False

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Run until the end of this block, and stop for each question in it."""
        token = _running.set((*_running.get(), self))
        self._time = _Time(self._seconds)
        self._arm()
        try:
            yield
        finally:
            self._ended = True
            if self._handle is not None:
                self._handle.cancel()
            _running.reset(token)

    def stop(self) -> None:
        """Stop until `go_on` was called as often as this."""
        self._time.stop()

    def go_on(self) -> None:
        """Run again, unless another question is still open."""
        self._time.go_on()
        if not self._time.is_stopped and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._arm)

    def _arm(self) -> None:
        if self._ended:
            return
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_later(max(0.0, self._time.remaining()), self._look)

    def _look(self) -> None:
        if self._time.is_stopped:
            return  # `go_on` arms it again
        if self._time.remaining() > 0:
            self._arm()
        elif not self._ended:
            self._ended = True
            self._ring()


@contextmanager
def clocks_stopped() -> Iterator[None]:
    """Stop the clocks of the calling code while a person is asked."""
    clocks = _running.get()
    for clock in clocks:
        clock.stop()
    try:
        yield
    finally:
        for clock in clocks:
            clock.go_on()
