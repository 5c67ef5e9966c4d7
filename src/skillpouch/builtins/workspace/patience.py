"""How long, and over how many entries, a walk may go on."""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from skillpouch.errors import ToolFaultError

_MOST_ENTRIES = 500_000

Value = TypeVar("Value")


class Patience:
    """Ends a walk that takes too long with words that say what to do."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._deadline = time.monotonic() + seconds

    def over(self, values: Iterable[Value]) -> Iterator[Value]:
        hint = "name a folder further down"
        for count, value in enumerate(values):
            if count == _MOST_ENTRIES:
                raise ToolFaultError("too_much", f"more than {_MOST_ENTRIES:,} entries", hint=hint)
            if not count % 64 and time.monotonic() > self._deadline:
                raise ToolFaultError("timeout", f"not done after {self._seconds:g} s", hint=hint)
            yield value
