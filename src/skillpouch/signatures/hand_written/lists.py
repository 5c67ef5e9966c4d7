"""What a program makes of the list of its words: parts, places, and selections of it."""

import ast
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from skillpouch.signatures.hand_written.expressions import Expressions
from skillpouch.signatures.hand_written.tracking import LoopState, Tested
from skillpouch.signatures.hand_written.values import (
    UNKNOWN,
    Given,
    Joined,
    Known,
    Length,
    Maybe,
    Place,
    Ref,
    Routine,
    UnclearError,
    Word,
    Words,
    as_word,
    is_flag,
)
from skillpouch.signatures.javascript.expressions import FunctionExpression

_PARTS_OF_TEXT = (
    ast.Constant,
    ast.Name,
    ast.JoinedStr,
    ast.FormattedValue,
    ast.BinOp,
    ast.operator,
    ast.expr_context,
)
_ON_WORDS: dict[str, str] = {
    "slice": "_words_slice",
    "copy": "_words_slice",
    "includes": "_words_include",
    "indexOf": "_words_index",
    "index": "_words_index",
    "shift": "_words_shift",
    "pop": "_words_shift",
    "join": "_words_join",
    "find": "_words_find",
    "filter": "_words_filter",
    "some": "_words_some",
    "forEach": "_words_each",
    "map": "_words_rest",
    "at": "_words_at",
}


class WordLists(Expressions, ABC):
    """Follows methods of the list of words."""

    @abstractmethod
    def each_word(self, words: Words, routine: Routine, node: ast.AST) -> None:
        """Follow a function that is called with every word."""

    def _on_words(self, words: Words, name: str, node: ast.Call, hint: str) -> Any:
        handler = _ON_WORDS.get(name)
        if handler is None:
            reason = f"it uses its words with {name}(), which is not followed"
            raise UnclearError(reason, node)
        return getattr(self, handler)(words, node, hint)

    def _words_slice(self, words: Words, node: ast.Call, _: str) -> Any:
        arguments = [self.value(each) for each in node.args] or [Known(0)]
        return self.cut(words, arguments[0], arguments[1:], node)

    def _words_include(self, words: Words, node: ast.Call, _: str) -> Any:
        item = self.value(node.args[0]) if node.args else UNKNOWN
        decision = self.contains(words, item, node)
        return Given((item.value,)) if decision.truth is None else decision

    def _words_index(self, words: Words, node: ast.Call, _: str) -> Any:
        item = self.value(node.args[0]) if len(node.args) == 1 else UNKNOWN
        if not isinstance(item, Known) or not isinstance(item.value, str) or words.base:
            raise UnclearError("it looks for a word that is not known", node)
        self.flag(item.value, node)
        return Place(item.value)

    def _words_shift(self, words: Words, node: ast.Call, _: str) -> Any:
        key = self._variable(node.func.value)  # type: ignore[attr-defined]  # a method
        is_first = not node.args or self.value(node.args[0]) == Known(0)
        if key is None or not is_first or (self.program.is_python and not node.args):
            raise UnclearError("it takes words away in a way that is not followed", node)
        return self.shifted(key, words, node)

    def _variable(self, node: ast.AST) -> Any:
        if not isinstance(node, ast.Name):
            return None
        scope: int | None = self.scope
        while scope is not None and (scope, node.id) not in self.env:
            scope = self.parents[scope]
        return None if scope is None else (scope, node.id)

    def shifted(self, key: Any, words: Words, node: ast.AST) -> Any:
        """Take the first word away from a list that a variable holds."""
        if words.base != "loop" and self.conditional:
            raise UnclearError("it takes a word away only sometimes", node)
        word = self.word(words, 0, node)
        self.env[key] = Words(words.start + 1, words.base)
        return word

    def _words_join(self, words: Words, node: ast.Call, hint: str) -> Any:
        """Joined by spaces, many words are the same as one that holds spaces."""
        separator = self.value(node.args[0]) if node.args else Known(",")
        return self.joined(words, separator, node, hint)

    def joined(self, words: Words, separator: Any, node: ast.AST, hint: str) -> Any:
        if separator != Known(" ") or words.base == "loop":
            raise UnclearError("it joins its words", node)
        word = self.word(words, 0, node)
        self.reading.rest.setdefault(words.base, (words.start + 1, "..."))
        self.name(word, hint)
        return word

    def _words_find(self, words: Words, node: ast.Call, hint: str) -> Any:
        found = self._filtered(words, node)
        if isinstance(found, Words):
            word = self.word(found, 0, node)
            self.name(word, hint)
            return Maybe(word)
        return found

    def _words_filter(self, words: Words, node: ast.Call, _: str) -> Any:
        found = self._filtered(words, node)
        if not isinstance(found, Words):
            raise UnclearError("it collects the values of a flag", node)
        return found

    def _words_some(self, words: Words, node: ast.Call, _: str) -> Any:
        return self.some(self._filtered(words, node), node)

    def _words_each(self, words: Words, node: ast.Call, _: str) -> Any:
        routine = self.value(node.args[0]) if node.args else UNKNOWN
        if not isinstance(routine, Routine):
            raise UnclearError("it passes its words on as a whole", node)
        self.each_word(words, routine, node)
        return UNKNOWN

    def _words_at(self, words: Words, node: ast.Call, _: str) -> Any:
        return self.word_by(words, self.value(node.args[0]) if node.args else UNKNOWN, node)

    def _words_rest(self, words: Words, node: ast.Call, hint: str) -> Any:
        self.rest(words, node, hint)
        return UNKNOWN

    def some(self, found: Any, node: ast.AST) -> Any:
        if isinstance(found, Words):
            return self.compare_length(Length(-found.start, found.base), ast.Gt(), 0)
        if isinstance(found, Maybe) and isinstance(found.value, Given):
            return found.value
        raise UnclearError("it asks whether a flag has a value", node)

    def _filtered(self, words: Words, node: ast.Call) -> Any:
        routine = self.value(node.args[0]) if len(node.args) == 1 else UNKNOWN
        if not isinstance(routine, Routine) or not routine.parameters:
            raise UnclearError("it selects words in a way that is not followed", node)
        statements = routine.body()
        single = statements[0] if len(statements) == 1 else None
        if not isinstance(single, ast.Return) or single.value is None:
            raise UnclearError("it selects words in a way that is not followed", node)
        if len(routine.parameters) > 1 and not words.base:
            raise UnclearError("it selects words by the words before them", node)
        return self.selected(words, [single.value], routine.parameters[0], node)

    def selected(
        self, words: Words, tests: Iterable[ast.expr], target: ast.AST, node: ast.AST
    ) -> Any:
        """Return the words for which all tests hold: those that are no flags, or one flag."""
        if words.base or words.start < 0 or not isinstance(target, ast.Name):
            raise UnclearError("it selects words in a way that is not followed", node)
        conditions = list(tests)
        if self._holds(conditions, target.id, Word("plain", -1), words):
            self._set_start(words.start, node)
            return Words(0, "plain")
        values = [as_word(text) for text in self.texts(conditions)]
        found = [one for one in values if self._holds(conditions, target.id, one, words)]
        joined = [one for one in found if isinstance(one, Joined)]
        if len(joined) == len(found) == 1:
            return self._selected_flag(joined[0], node)
        flags = [one.value for one in found if isinstance(one, Known)]
        if not flags or joined:
            raise UnclearError("it selects words in a way that is not followed", node)
        for flag in flags:
            self.flag(flag, node)
        return Maybe(Given(tuple(flags)))

    def _selected_flag(self, value: Joined, node: ast.AST) -> Any:
        flag = self.flag(value.tail.flag, node)
        flag.takes = "tail"
        self.reading.special[value.prefix] = None
        return Maybe(value)

    def _set_start(self, start: int, node: ast.AST) -> None:
        if self.reading.loop_start not in (None, start):
            raise UnclearError("it goes over its words more than once", node)
        self.reading.loop_start = start

    def _holds(self, tests: list[ast.expr], name: str, value: Any, words: Words) -> bool:
        """Decide tests for one word; a word that is no flag must be decided."""
        outer, self.loop = self.loop, LoopState(words, value)
        before, scope = self.env, self.scope
        refused = dict(self.reading.plain_refuses)
        self.env = {**before, (scope, name): value}
        try:
            decision = Tested(True)
            for test in tests:
                decision = self.decided(test)
                if not decision.truth:
                    break
        finally:
            self.loop, self.env = outer, before
        if not decision.truth and isinstance(value, Word):
            self.reading.plain_refuses = refused
        return bool(decision.truth)

    def texts(self, nodes: Iterable[ast.AST]) -> list[str]:
        """Return the texts in a piece of program that have the shape of flags."""
        found: dict[str, None] = {}
        for node in parts(nodes):
            if isinstance(node, ast.Name):
                found |= dict.fromkeys(self._texts_of(self.find(node.id)))
            elif isinstance(node, ast.Constant | ast.JoinedStr) or _is_sum(node):
                found |= dict.fromkeys(self._texts_of(self.quietly(node)))
        return [text for text in found if is_flag(text)]

    def quietly(self, node: ast.AST) -> Any:
        """Return the value of a text that is put together from known parts."""
        parts = list(ast.walk(node))
        names = [part.id for part in parts if isinstance(part, ast.Name)]
        plain = all(isinstance(part, _PARTS_OF_TEXT) for part in parts)
        if plain and all(isinstance(self.find(name), Known) for name in names):
            return self.value(node)
        return UNKNOWN

    def _texts_of(self, value: Any) -> list[str]:
        if isinstance(value, Ref) and value.kind in ("object", "list"):
            value = self.keys(value)
        values = value if type(value) is tuple else (value,)
        texts = [each.value for each in values if isinstance(each, Known)]
        return [text for text in texts if isinstance(text, str)]


def parts(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield all parts of a piece of program, also of the functions in it."""
    for node in nodes:
        for part in ast.walk(node):
            yield part
            if isinstance(part, FunctionExpression):
                yield from parts(part.body)


def _is_sum(node: ast.AST) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add)
