"""Which lines of a script can matter to a reader that follows certain calls."""

import ast
from collections.abc import Iterable

from kitbag.signatures.lines import Marks
from kitbag.signatures.outline import Outline


class Relevance:
    """Lines with one of the words, a name that holds what they make, or a function that does."""

    def __init__(self, outline: Outline, words: Iterable[str]) -> None:
        self._lines = outline.lines
        self._marks = Marks()
        self._known: set[str] = set()
        for word in words:
            self.add(word)
            for receiver in outline.lines.receivers(word):
                self.add(receiver)
        self._add_callers(outline)

    def add(self, name: str) -> None:
        """Make every line with the name matter from now on."""
        if name not in self._known:
            self._known.add(name)
            self._marks.add(self._lines.of(name))

    def covers(self, node: ast.AST) -> bool:
        return self._marks.within_node(node)

    def _add_callers(self, outline: Outline) -> None:
        """Whoever calls a function that matters, matters: until nothing new is found."""
        waiting = list(outline.definitions)
        found = True
        while found:
            relevant = [node for node in waiting if self.covers(node)]
            waiting = [node for node in waiting if not self.covers(node)]
            found = bool(relevant)
            for node in relevant:
                self.add(node.name)
                if node.name == "__init__":
                    self.add("super")
