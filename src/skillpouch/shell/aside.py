"""Work on a thread beside the one that waits for it: there no Ctrl-C falls between two steps."""

import contextvars
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from skillpouch.runtime.idle_threads import run_in_idle_thread
from skillpouch.shell.immediate import run_blocked
from skillpouch.shell.verdicts import Stopped

Value = TypeVar("Value")
# What ends the wait for a script: its own end, said as "", or why it is to be stopped.
Words = queue.SimpleQueue[Stopped]

# Ctrl-C that comes in the moment before a thread begins to wait does not wake it.
_LOOK_SECONDS = 0.5


class Aside(Generic[Value]):
    """One piece of work that waits only by blocking its thread."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, Value]], words: Words) -> None:
        self._work = work
        self._words = words
        self._context = contextvars.copy_context()
        self._taken = threading.Lock()  # by who begins the work, or by who no longer wants it
        self._is_over = False
        self._closed = threading.Lock()  # opened at the end: half of what an Event costs
        self._closed.acquire()
        self._value: list[Value] = []
        self._error: BaseException | None = None

    def run(self) -> Value:
        """Return what the work gives. Ctrl-C cancels it, and is raised when it has ended."""
        try:
            run_in_idle_thread(lambda: self._context.run(self._do))
            self._wait()
        except BaseException:
            if not self._taken.acquire(blocking=False):
                self._words.put("cancelled")
                self._wait()
            raise
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self._error  # it must not hold what holds itself
        return self._value[0]

    def _do(self) -> None:
        if not self._taken.acquire(blocking=False):
            return
        try:
            self._value.append(run_blocked(self._work()))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
        self._is_over = True
        self._closed.release()

    def _wait(self) -> None:
        while not self._is_over:
            self._closed.acquire(timeout=_LOOK_SECONDS)
