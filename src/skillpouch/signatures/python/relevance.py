"""Which lines of a script can matter to a reader that follows certain calls."""

import ast
from collections.abc import Sequence

from skillpouch.signatures.python.lines import Marks
from skillpouch.signatures.python.outline import Outline


class Relevance:
    """Lines with one of the words, a name that holds what they make, or a function that does."""

    def __init__(self, outline: Outline, words: Sequence[str]) -> None:
        self._lines = outline.lines
        self._marks = Marks()
        offsets = [offset for word in words for offset in self._lines.offsets(word)]
        receivers = self._lines.receivers(offsets)
        offsets += [offset for name in receivers for offset in self._lines.offsets(name)]
        self._known = {*words, *receivers}
        self._marks.add(self._lines.at(offsets))
        self._add_callers(outline)

    def add(self, name: str) -> None:
        """Make every line with the name matter from now on."""
        if name not in self._known:
            self._known.add(name)
            self._marks.add(self._lines.of(name))

    def covers(self, node: ast.AST) -> bool:
        return self._marks.within_node(node)

    def is_called_in(self, node: ast.AST) -> bool:
        """Tell whether a name that matters is called inside: a line may only mention it."""
        called = (part.func for part in ast.walk(node) if isinstance(part, ast.Call))
        return any(
            isinstance(name, ast.Name | ast.Attribute)
            and (name.id if isinstance(name, ast.Name) else name.attr) in self._known
            for name in called
        )

    def _add_callers(self, outline: Outline) -> None:
        """Whoever calls a function that matters, matters: until nothing new is found."""
        waiting = list(outline.definitions)
        found = True
        while found:
            relevant = [node for node in waiting if self.covers(node)]
            waiting = [node for node in waiting if node not in relevant]
            found = bool(relevant)
            for node in relevant:
                self._known.add(node.name)
                # Only where it is called: `main` is also a word of prose.
                self._marks.add(self._lines.of(f"{node.name}("))
                self._marks.add(self._lines.of(f"@{node.name}"))
