"""Which lines of a text hold a word, so that readers can skip most of a script."""

import ast
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from itertools import accumulate


class Lines:
    """The lines of one text; a `word` is found only where no longer name contains it."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = list(accumulate([len(line) + 1 for line in text.split("\n")], initial=0))

    def offsets(self, word: str) -> list[int]:
        text, length, found = self._text, len(word), []
        open_ended = not _in_name(word[-1])
        position = text.find(word)
        while position >= 0:
            end = position + length
            if not _in_name(text[position - 1 : position]) and (
                open_ended or not _in_name(text[end : end + 1])
            ):
                found.append(position)
            position = text.find(word, end)
        return found

    def of(self, word: str) -> list[int]:
        return self.at(self.offsets(word))

    def at(self, offsets: Iterable[int]) -> list[int]:
        return [bisect_right(self._starts, offset) for offset in offsets]

    def receivers(self, offsets: Iterable[int]) -> set[str]:
        """Return the names before the dots that stand right before these places."""
        names = set()
        for offset in offsets:
            start = end = offset - 1
            if self._text[end : end + 1] == ".":
                while start > 0 and _in_name(self._text[start - 1]):
                    start -= 1
                names.add(self._text[start:end])
        return names - {""}


class Marks:
    """A growing set of line numbers that can be asked about a range."""

    def __init__(self) -> None:
        self._lines: list[int] = []

    def add(self, lines: Iterable[int]) -> None:
        self._lines = sorted({*self._lines, *lines})

    def __bool__(self) -> bool:
        return bool(self._lines)

    def within_node(self, node: ast.AST) -> bool:
        """Tell whether a node of a tree, decorators included, covers a line of the set."""
        fields = node.__dict__  # faster than `getattr`: this is asked of every statement
        last: int | None = fields.get("end_lineno")
        if last is None:  # a case of a match has no lines of its own
            return bool(self._lines)
        decorators = fields.get("decorator_list")
        first: int = decorators[0].lineno if decorators else fields["lineno"]
        position = bisect_left(self._lines, first)
        return position < len(self._lines) and self._lines[position] <= last


def _in_name(character: str) -> bool:
    return character.isalnum() or character == "_"
