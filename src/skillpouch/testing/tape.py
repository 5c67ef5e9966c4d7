"""Recorded calls: who answers in the place of tools, or listens to them, while a test says so."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from skillpouch.calls import ToolCall
from skillpouch.errors import SkillpouchError
from skillpouch.results import ToolResult
from skillpouch.secrets.redaction import Redactor


class Interceptor(Protocol):
    """Answers calls that it knows; hears of those that were made."""

    def answer(self, call: ToolCall) -> ToolResult | None: ...
    def keep(
        self, call: ToolCall, ended: ToolResult | SkillpouchError, redactor: Redactor
    ) -> None: ...


# Of the whole process, as whatever tests put in the place of something else: an agent makes its
# calls from threads and tasks that know nothing of the one in which the test began.
_playing: list[Interceptor] = []


@contextmanager
def playing(tape: Interceptor) -> Iterator[None]:
    """Let a tape answer, or hear of, every call of this process inside the block."""
    _playing.append(tape)
    try:
        yield
    finally:
        _playing.remove(tape)


def current_tape() -> Interceptor | None:
    """Return the tape that was put in last, if any."""
    return _playing[-1] if _playing else None
