"""Recorder: records a call before it starts and when it has ended, and traces it if wanted."""

import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import replace
from types import TracebackType
from typing import Self

from skillpouch.calls import Settled, ToolCall, interceptors
from skillpouch.errors import CallDeniedError, SkillpouchError
from skillpouch.journal.journal import Journal
from skillpouch.journal.records import CallEnd, Started
from skillpouch.journal.telemetry import SpanFacts, Telemetry, ToolSpan, tool_span
from skillpouch.limits import Writes
from skillpouch.policy.authorize import Permit
from skillpouch.results import Captured, Stream, ToolResult
from skillpouch.secrets.redaction import Redactor, redact_changes
from skillpouch.tools import Tool


def ending_of_result(result: ToolResult, *, output_bytes: int | None = None) -> CallEnd:
    """Return the record of the end of a call that ran; `result` is already redacted.

    `output_bytes` is how much it wrote, if known; else the length of the kept output counts.
    """
    if output_bytes is None:
        kept = result.stdout + result.stderr
        output_bytes = len(kept.encode(errors="replace"))
    return CallEnd(
        outcome=result.outcome,
        content=result.content,
        stderr=result.stderr,
        exit_code=result.exit_code,
        output_bytes=output_bytes,
        duration_ms=result.duration_ms,
        protections=result.protections,
        code=result.code,
        writes=result.writes,
        changes=result.changes,
        call_id=result.call_id,
    )


def ending_of_error(
    error: BaseException, redactor: Redactor, *, duration_ms: float = 0.0
) -> CallEnd:
    """Return the record of a call without a result: denied, not started, or cancelled."""
    from asyncio import CancelledError

    if isinstance(error, CallDeniedError):
        outcome = "denied"
    elif isinstance(error, CancelledError | KeyboardInterrupt | GeneratorExit):
        outcome = "cancelled"
    else:
        outcome = "not_started"
    return CallEnd(
        outcome=outcome,  # type: ignore[arg-type]  # one of the three above
        content=redactor.text(str(error)),
        duration_ms=duration_ms,
        code=error.code if isinstance(error, SkillpouchError) else type(error).__name__,
    )


# The call that this code runs for: the parent of the calls that it makes.
_running: ContextVar[int | None] = ContextVar("skillpouch_running_call", default=None)

SpanOfCall = AbstractContextManager[ToolSpan] | None


class Recorder:
    """Records the calls of one executor; without a journal it only traces, or does nothing."""

    def __init__(self, journal: Journal | None, telemetry: Telemetry, session: str | None) -> None:
        self._journal = journal
        self._telemetry = telemetry
        self._session = session or ""

    def recording(self, call: ToolCall, permit: Permit) -> "Recording | Unrecorded":
        """Return a context that records a call: after leaving it, the end is recorded."""
        if self._journal is None and not self._telemetry.enabled:
            return Unrecorded(call, permit)
        return Recording(self, call, permit)

    def refused(self, call: ToolCall, permit: Permit, error: BaseException) -> None:
        """Record a call that was denied, or could not be started."""
        number = self.start(call.tool, permit.redactor.value(call.said), permit)
        self.end_with_error(number, error, permit.redactor)
        if interceptors:
            _keep(call, error, permit)

    def span(self, call: ToolCall, number: int | None, arguments: object) -> SpanOfCall:
        """Return the span that a call runs in, None when tracing is off."""
        if not self._telemetry.enabled:
            return None
        facts = SpanFacts(
            name=call.tool.name,
            description=call.tool.description,
            call_id=str(number or ""),
            arguments=arguments,
        )
        return tool_span(self._telemetry, facts)

    def start(self, tool: Tool, arguments: object, permit: Permit) -> int | None:
        if self._journal is None:
            return None
        return self._journal.started(
            Started(
                tool=tool.id,
                skill=tool.skill,
                digest=permit.digest,
                session=self._session,
                arguments=arguments,
                decision=permit.decision,
                approved_by=permit.approved_by,
                parent=_running.get(),
            )
        )

    def end_with_result(self, number: int | None, result: ToolResult) -> None:
        """Record the result of a call."""
        if self._journal is not None and number is not None:
            self._journal.ended(number, ending_of_result(result))

    def end_with_error(
        self,
        number: int | None,
        error: BaseException,
        redactor: Redactor,
        *,
        duration_ms: float = 0.0,
        written: Mapping[Stream, Captured] | None = None,
        settled: tuple[Writes, Settled] | None = None,
    ) -> None:
        """Record a call without a result: what it wrote so far, and what it changed."""
        if self._journal is None or number is None:
            return
        ending = ending_of_error(error, redactor, duration_ms=duration_ms)
        if settled is not None:
            writes, kept = settled
            changes = redact_changes(kept.changes, redactor)
            ending = replace(ending, writes=writes, changes=changes, call_id=kept.call_id)
        if written:
            stdout, stderr = (redactor.text(written[name].text) for name in ("stdout", "stderr"))
            total = sum(captured.total_bytes for captured in written.values())
            content = stdout or ending.content
            ending = replace(ending, content=content, stderr=stderr, output_bytes=total)
        self._journal.ended(number, ending)


class Recording:
    """One call while it is recorded; the executor sets `result`."""

    # A class instead of a generator, which would cost more in every call.
    __slots__ = (
        "_above",
        "_began",
        "_call",
        "_number",
        "_permit",
        "_recorder",
        "_span",
        "_told",
        "result",
    )

    def __init__(self, recorder: Recorder, call: ToolCall, permit: Permit) -> None:
        self._recorder = recorder
        self._call = call
        self._permit = permit
        self._span: SpanOfCall = None
        self._told: ToolSpan | None = None
        self.result: ToolResult | None = None
        self._began = time.perf_counter()

    def __enter__(self) -> Self:
        shown = self._permit.redactor.value(self._call.said)
        self._number = number = self._recorder.start(self._call.tool, shown, self._permit)
        if number is not None and number > 0:
            self._call.record.id = str(number)
        self._above = _running.get()
        _running.set(self._above if number is None else max(number, 0) or None)
        try:
            self._begin_span(number, shown)
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def _begin_span(self, number: int | None, arguments: object) -> None:
        span = self._recorder.span(self._call, number, arguments)
        if span is not None:
            self._told = span.__enter__()
            self._span = span

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _running.set(self._above)
        try:
            self._end_span(kind, error, trace)
        except BaseException as trouble:
            self._end(error or trouble)
            raise
        self._end(error)

    def _end_span(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._span is None:
            return
        try:
            if self._told is not None and self.result is not None:
                self._told.end_with(self.result)
        finally:
            self._span.__exit__(kind, error, trace)

    def _end(self, error: BaseException | None) -> None:
        if error is not None:
            took = (time.perf_counter() - self._began) * 1000
            call, kept = self._call, self._call.record.settled
            self._recorder.end_with_error(
                self._number,
                error,
                self._permit.redactor,
                duration_ms=took,
                written=call.unfinished,
                settled=(call.writes, kept) if kept is not None and kept.state else None,
            )
        elif self.result is not None:
            self._recorder.end_with_result(self._number, self.result)
        if interceptors:
            _keep(self._call, error or self.result, self._permit)


class Unrecorded:
    """One call without journal and tracing; a test's cassette may still record it."""

    __slots__ = ("_call", "_permit", "result")

    def __init__(self, call: ToolCall, permit: Permit) -> None:
        self._call = call
        self._permit = permit
        self.result: ToolResult | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if interceptors:
            _keep(self._call, error or self.result, self._permit)


def _keep(call: ToolCall, ended: object, permit: Permit) -> None:
    """Pass the end of this call to the cassette of a test."""
    if isinstance(ended, ToolResult | SkillpouchError):
        interceptors[-1].keep(call, ended, permit.redactor)
