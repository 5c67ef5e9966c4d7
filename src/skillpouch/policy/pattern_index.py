"""Values under patterns, found by the text that the patterns begin or end with."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Generic, TypeVar

from skillpouch.policy.patterns import literal_ends

Value = TypeVar("Value")


class PatternIndex(Generic[Value]):
    """Most patterns are a name, or a beginning and `*`: few of many can match one text."""

    def __init__(self) -> None:
        self._exact: defaultdict[str, list[Value]] = defaultdict(list)
        self._beginning: defaultdict[str, list[Value]] = defaultdict(list)
        self._ending: defaultdict[str, list[Value]] = defaultdict(list)
        self._beginnings: set[int] = set()  # lengths that there are
        self._endings: set[int] = set()

    def add(self, pattern: str, value: Value) -> None:
        """Put a value under a pattern."""
        prefix, suffix, exact = literal_ends(pattern)
        if exact:
            self._exact[prefix].append(value)
        elif len(prefix) >= len(suffix):
            self._beginning[prefix].append(value)
            self._beginnings.add(len(prefix))
        else:
            self._ending[suffix].append(value)
            self._endings.add(len(suffix))

    def near(self, text: str) -> Iterator[Value]:
        """Yield the values whose pattern may match: all that do, and some that do not."""
        yield from self._exact.get(text, ())
        for length in self._beginnings:
            if length <= len(text):
                yield from self._beginning.get(text[:length], ())
        for length in self._endings:
            if length <= len(text):
                yield from self._ending.get(text[len(text) - length :], ())
