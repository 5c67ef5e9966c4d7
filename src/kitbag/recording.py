"""Writes a call down before it starts and when it has ended, and spans it for those who trace."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from kitbag.calls import ToolCall
from kitbag.errors import KitbagError
from kitbag.journal.endings import ending_of_error, ending_of_result
from kitbag.journal.journal import Journal
from kitbag.journal.records import Started
from kitbag.permit import Permit
from kitbag.redaction import Redactor
from kitbag.results import ToolResult
from kitbag.tape import current_tape
from kitbag.telemetry import SpanFacts, Telemetry, tool_span
from kitbag.tools import Tool

# The call that this code runs for; the calls that it makes are made by that one.
_running: ContextVar[int | None] = ContextVar("kitbag_running_call", default=None)


@dataclass(slots=True)
class Outcome:
    """Where a call that is being recorded leaves its result."""

    result: ToolResult | None = None


class Recorder:
    """Records the calls of one executor; without a journal it only traces, or does nothing."""

    def __init__(self, journal: Journal | None, telemetry: Telemetry, session: str | None) -> None:
        self._journal = journal
        self._telemetry = telemetry
        self._session = session or ""

    @asynccontextmanager
    async def recorded(self, call: ToolCall, permit: Permit) -> AsyncIterator[Outcome]:
        """Record what happens inside; leaving it means that the end is on record."""
        shown = permit.redactor.value(call.said)
        number = self._start(call.tool, shown, permit)
        facts = SpanFacts(
            name=call.tool.name,
            description=call.tool.description,
            call_id=str(number or ""),
            arguments=shown,
        )
        outcome = Outcome()
        above = _running.get()
        _running.set(above if number is None else max(number, 0) or None)
        try:
            with tool_span(self._telemetry, facts) as span:
                yield outcome
                if outcome.result is not None:
                    span.end_with(outcome.result)
        except BaseException as error:
            self._end_with_error(number, error, permit.redactor)
            _keep(call, error, permit)
            raise
        finally:
            _running.set(above)
        if self._journal is not None and number is not None and outcome.result is not None:
            self._journal.ended(number, ending_of_result(outcome.result))
        _keep(call, outcome.result, permit)

    def refused(self, call: ToolCall, permit: Permit, error: BaseException) -> None:
        """Record a call that was not allowed to start, or could not be."""
        number = self._start(call.tool, permit.redactor.value(call.said), permit)
        self._end_with_error(number, error, permit.redactor)
        _keep(call, error, permit)

    def _start(self, tool: Tool, arguments: object, permit: Permit) -> int | None:
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

    def _end_with_error(self, number: int | None, error: BaseException, redactor: Redactor) -> None:
        if self._journal is not None and number is not None:
            self._journal.ended(number, ending_of_error(error, redactor))


def _keep(call: ToolCall, ended: object, permit: Permit) -> None:
    """Tell the tape of a test, if one is playing, what a call ended with."""
    tape = current_tape()
    if tape is not None and isinstance(ended, ToolResult | KitbagError):
        tape.keep(call, ended, permit.redactor)
