"""Clocks that stop while somebody is asked: the time of people is not the time of tools."""

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_running: ContextVar[tuple["PatientClock", ...]] = ContextVar("kitbag_clocks", default=())


class PatientClock:
    """Rings once on its loop after `seconds` in which nobody was asked.

    While it is `heard`, whatever that code asks somebody, in whatever thread, stops it.
    """

    def __init__(self, seconds: float, ring: Callable[[], None]) -> None:
        self._left = seconds
        self._ring = ring
        self._since = time.monotonic()
        self._stops = 0
        self._lock = threading.Lock()
        self._loop = asyncio.get_running_loop()
        self._handle: asyncio.TimerHandle | None = None
        self._ended = False

    @contextmanager
    def heard(self) -> Iterator[None]:
        """Run, and stop for those who ask, until the end of this block."""
        token = _running.set((*_running.get(), self))
        self._since = time.monotonic()
        self._arm()
        try:
            yield
        finally:
            self._ended = True
            if self._handle is not None:
                self._handle.cancel()
            _running.reset(token)

    def stop(self) -> None:
        """Stop until as many `go_on` have come."""
        with self._lock:
            if not self._stops:
                self._left -= time.monotonic() - self._since
            self._stops += 1

    def go_on(self) -> None:
        """Run again, unless somebody else is still being asked."""
        with self._lock:
            self._stops -= 1
            self._since = time.monotonic()
        if not self._stops and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._arm)

    def _arm(self) -> None:
        if self._ended:
            return
        if self._handle is not None:
            self._handle.cancel()
        self._handle = self._loop.call_later(max(0.0, self._remaining()), self._look)

    def _look(self) -> None:
        with self._lock:
            if self._stops:
                return  # who goes on sets it again
        if self._remaining() > 0:
            self._arm()
        elif not self._ended:
            self._ended = True
            self._ring()

    def _remaining(self) -> float:
        return self._left - (time.monotonic() - self._since)


@contextmanager
def clocks_stopped() -> Iterator[None]:
    """Stop the clocks that this code runs under while somebody is asked."""
    clocks = _running.get()
    for clock in clocks:
        clock.stop()
    try:
        yield
    finally:
        for clock in clocks:
            clock.go_on()
