"""What runs scripts: the seam behind which an engine, and where it lives, can be replaced."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from skillpouch.errors import PortableError
from skillpouch.shell.worker.order import Done, OnCommand, OnText, Order


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """An order, who answers its commands, and who hears what it prints, on whatever thread."""

    order: Order
    on_command: OnCommand
    on_text: OnText
    immediate: frozenset[str] = frozenset()  # commands whose answer never waits for anything


class ShellEngine(Protocol):
    """Runs a script in a shell of its own. Cancelling `run` ends the script, whatever it does.

    `analyze` tells what a script names without running it. Both raise EngineCrashedError when
    the engine is gone: what it printed before has been heard.
    """

    async def run(self, job: Job) -> Done: ...

    async def analyze(self, script: str) -> Mapping[str, Any]: ...

    @property
    def protections(self) -> Mapping[str, str]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """How an engine ended before its script did."""

    reason: str
    signal: int | None = None


class EngineCrashedError(PortableError):
    """The engine ended before the script did; the host is well, and the next script has another."""

    def __init__(self, crash: Crash) -> None:
        super().__init__(crash.reason)
        self.crash = crash
