"""ShellEngine: the interface of what runs scripts, and how a script is cancelled."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from skillpouch.errors import PortableError
from skillpouch.shell.worker.protocol import Done, OnCommand, OnText, ScriptRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptJob:
    """A script to run, the function that answers its commands, and the one that gets its output.

    Both functions may be called on any thread.
    """

    order: ScriptRequest
    on_command: OnCommand
    on_text: OnText
    immediate: frozenset[str] = frozenset()  # commands whose answer never waits for anything


class ShellEngine(Protocol):
    """Runs a script in a shell of its own. Cancelling `run` ends the script, whatever it does.

    `analyze` tells what a script names without running it. Both raise EngineCrashedError when
    the engine ended early; by then `on_text` has received all that was printed.
    """

    async def run(self, job: ScriptJob) -> Done: ...

    async def analyze(self, script: str) -> Mapping[str, Any]: ...

    @property
    def protections(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """How an engine ended before its script did."""

    reason: str
    signal: int | None = None


class EngineCrashedError(PortableError):
    """The engine ended before its script did. The next script gets a new engine."""

    def __init__(self, crash: Crash) -> None:
        super().__init__(crash.reason)
        self.crash = crash


class Cancellation:
    """Pass it to `execute`; `cancel`, from any thread, ends the script with status `cancelled`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self._cancelled = False

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    @contextmanager
    def heard(self, end: Callable[[], None]) -> Iterator[None]:
        """Call `end` on the running loop when it is cancelled, or at once when it already is."""
        loop = asyncio.get_running_loop()

        def listen() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(end)

        with self._lock:
            self._listeners.append(listen)
            cancelled = self._cancelled
        if cancelled:
            listen()
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listen)
