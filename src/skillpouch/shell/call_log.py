"""CallLog: counts and times the calls of one script, and reports them to watchers."""

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from skillpouch.results import milliseconds
from skillpouch.shell.limits import ExecutionLimits
from skillpouch.shell.responses import CallOutcome, ScriptCall, Status

EventKind = Literal["started", "call_started", "call_ended", "output", "ended"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEvent:
    """One thing that happened; which fields are filled depends on `kind`.

    `call` belongs to `call_started` and `call_ended`, `stdout` and `stderr` to `output`, and
    `status` to `ended`.
    """

    kind: EventKind
    call: ScriptCall | None = None
    stdout: str = ""
    stderr: str = ""
    status: Status | None = None


OnStatus = Callable[[ScriptEvent], None]


class Watchers:
    """Tells those who watch, on their loop, in the order in which things happened.

    What one of them raises is logged: it is not the script's fault.
    """

    def __init__(self, *watchers: OnStatus | None) -> None:
        self._watchers = [watcher for watcher in watchers if watcher is not None]
        self._loop = asyncio.get_running_loop() if self._watchers else None
        self._thread = threading.get_ident()

    def __bool__(self) -> bool:
        return bool(self._watchers)

    def tell(self, event: ScriptEvent) -> None:
        if self._loop is None:
            return
        if threading.get_ident() == self._thread:
            self._tell(event)
        else:
            self._loop.call_soon_threadsafe(self._tell, event)

    def _tell(self, event: ScriptEvent) -> None:
        for watcher in self._watchers:
            try:
                watcher(event)
            except Exception:  # noqa: BLE001 - whatever the watcher raises
                _log.exception("a watcher of a script failed")


class _Begun(NamedTuple):
    """A call as it began; `at` is of the monotonic clock."""

    tool: str
    params: Mapping[str, Any]
    effects: tuple[str, ...]
    at: float


class _Ended(NamedTuple):
    """How a call ended."""

    outcome: CallOutcome
    exit_code: int | None
    output_bytes: int
    error: str
    at: float


class CallLog:
    """Every call in the order in which they began; one that never ended was cancelled.

    While a script runs only facts are written down; what people read is made of them at its end.
    """

    def __init__(self, limits: ExecutionLimits, watchers: Watchers) -> None:
        self._limits = limits
        self._watchers = watchers
        self._is_watched = bool(watchers)
        self._began = time.monotonic()
        self._begun: list[_Begun] = []
        self._ended: dict[int, _Ended] = {}
        self._per_tool: dict[str, int] = {}
        self._asked = 0
        self.was_denied = False
        self._lock = threading.Lock()  # in the host's own process, commands come from threads
        self.refusals: list[str] = []  # what a limit said no to, for people

    def begin(self, tool: str, effects: tuple[str, ...], params: Mapping[str, Any]) -> int:
        """Write a call down and return its number."""
        begun = _Begun(tool, params, effects, time.monotonic())
        with self._lock:
            self._begun.append(begun)
            seq = len(self._begun)
        if self._is_watched:
            self._watchers.tell(ScriptEvent(kind="call_started", call=self._call(seq)))
        return seq

    def end(
        self,
        seq: int,
        outcome: CallOutcome,
        *,
        exit_code: int | None = None,
        output_bytes: int = 0,
        error: str = "",
    ) -> None:
        """Write down how a call ended."""
        self._ended[seq] = _Ended(outcome, exit_code, output_bytes, error, time.monotonic())
        if outcome == "denied":
            self.was_denied = True
        if self._is_watched:
            self._watchers.tell(ScriptEvent(kind="call_ended", call=self._call(seq)))

    def refusal(self, tool: str) -> str:
        """Count one more call of a tool; return why it may not be made, or nothing."""
        with self._lock:
            count = self._per_tool[tool] = self._per_tool.get(tool, 0) + 1
            self._asked += 1
        most, budget = self._limits.max_tool_calls, self._limits.budgets.get(tool)
        if self._asked > most:
            reason = f"this script may make {most:,} calls"
        elif budget is not None and count > budget:
            reason = f"this script may call {tool} {budget:,} times"
        else:
            return ""
        if reason not in self.refusals:
            self.refusals.append(reason)
        return reason

    @property
    def calls(self) -> tuple[ScriptCall, ...]:
        return tuple([self._call(seq) for seq in range(1, len(self._begun) + 1)])

    def _call(self, seq: int) -> ScriptCall:
        begun, ended = self._begun[seq - 1], self._ended.get(seq)
        started_ms = milliseconds(begun.at - self._began)
        if ended is None:
            return ScriptCall(
                seq=seq,
                tool=begun.tool,
                params=begun.params,
                effects=begun.effects,
                started_ms=started_ms,
            )
        return ScriptCall(
            seq=seq,
            tool=begun.tool,
            params=begun.params,
            effects=begun.effects,
            started_ms=started_ms,
            outcome=ended.outcome,
            duration_ms=milliseconds(ended.at - begun.at),
            exit_code=ended.exit_code,
            output_bytes=ended.output_bytes,
            error=ended.error,
        )
