"""What calls make of the words of a command line."""

import ast
import re
from abc import abstractmethod
from typing import Any, ClassVar

from skillpouch.signatures.hand_written.expressions import Expressions
from skillpouch.signatures.hand_written.lists import WordLists
from skillpouch.signatures.hand_written.tracking import OPEN, Tested
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
    call_on_text,
)
from skillpouch.signatures.javascript.expressions import RegexLiteral

_KEEPING_NAME = frozenset(
    ["Path", "abspath", "expanduser", "realpath", "resolve", "normalize", "fspath"]
)
_NUMBERS = {
    "int": "integer",
    "parseInt": "integer",
    "Number.parseInt": "integer",
    "float": "number",
    "parseFloat": "number",
    "Number.parseFloat": "number",
    "Number": "number",
}
_SAME_TEXT = frozenset(
    ["strip", "trim", "toString", "lower", "toLowerCase", "upper", "toUpperCase", "rstrip"]
)
_SAME_LIST = frozenset({"list", "tuple", "Array.from", "copy", "slice"})
_FUNCTIONS: dict[str, str] = {
    **dict.fromkeys(_NUMBERS, "_number"),
    **dict.fromkeys(("str", "String", *_SAME_LIST), "_text"),
    "len": "_len",
    "iter": "_iter",
    "next": "_next",
    "any": "_any",
}

_BY_TYPE = {Words: "_on_words", Known: "_on_known", Joined: "_on_joined", Word: "_on_word"}


class Calls(WordLists):
    """Follows calls."""

    VALUES: ClassVar[dict[type, str]] = {
        **Expressions.VALUES,
        ast.Call: "_call",
        ast.GeneratorExp: "_comprehension",
        ast.ListComp: "_comprehension",
    }

    @abstractmethod
    def invoke(self, routine: Routine, arguments: list[Any], node: ast.Call) -> Any:
        """Follow a call of a function of the script, and return its value."""

    def _call(self, node: ast.Call, hint: str) -> Any:
        dotted = self.program.dotted(node.func)
        if dotted in self.program.exits and not isinstance(self.find(dotted), Routine):
            for argument in node.args:
                self.use(self.value(argument), argument)
            self.left = True
            return UNKNOWN
        function = _FUNCTIONS.get(dotted)
        if function is not None and node.args and not isinstance(self.find(dotted), Routine):
            return getattr(self, function)(node, hint)
        if isinstance(node.func, ast.Attribute):
            made = self._method(node, node.func, hint)
            if made is not None:
                return made
        else:
            routine = self.value(node.func)
            if isinstance(routine, Routine):
                return self.invoke(routine, [self.value(each) for each in node.args], node)
        return self.unknown_call(node, dotted, hint)

    def unknown_call(self, node: ast.Call, dotted: str, hint: str) -> Any:
        """Evaluate what is given to a function of another module."""
        keeps = dotted.rpartition(".")[2] in _KEEPING_NAME
        for at, argument in enumerate(node.args):
            given = hint if keeps and at == 0 else ""
            self.give(self.value(argument, given), argument, given)
        for keyword in node.keywords:
            self.give(
                self.value(keyword.value, keyword.arg or ""), keyword.value, keyword.arg or ""
            )
        self.effects.append(("called", getattr(node, "lineno", 0), dotted))
        return UNKNOWN

    def give(self, value: Any, node: ast.AST, hint: str = "") -> None:
        """A value goes to a function that is not followed; it may call a routine."""
        if not isinstance(value, Routine):
            self.use(value, node, hint)
        elif self.is_hot(value):
            self.conditional += 1
            left = self.left
            self.invoke(value, [], ast.Call(func=node, args=[], keywords=[]))  # type: ignore[arg-type]  # an expression
            self.left = left
            self.conditional -= 1

    def is_hot(self, routine: Routine) -> bool:
        """Tell whether a routine mentions the words, or what was made of them."""
        if "argv" in routine.names or ("Deno" in routine.names and "args" in routine.names):
            return True
        kinds = (Words, Word, Length, Place, Maybe, Joined, Given)
        for name in routine.names:
            value = self.find(name)
            if isinstance(value, kinds) or (isinstance(value, Ref) and value.kind == "stream"):
                return True
            if isinstance(value, Ref) and isinstance(self.items(value), Words):
                return True
            if isinstance(value, Routine) and value is not routine and self._is_deep(value):
                return True
        return False

    def _is_deep(self, routine: Routine) -> bool:
        known = self.heat.get(id(routine))
        if known is None:
            self.heat[id(routine)] = False  # for cycles
            known = self.heat[id(routine)] = self.is_hot(routine)
        return known

    def _number(self, node: ast.Call, hint: str) -> Any:
        value = self.value(node.args[0], hint)
        word = value.value if isinstance(value, Maybe) else value
        if isinstance(word, Word):
            self.reading.of(word).kind = _NUMBERS[self.program.dotted(node.func)]
            self.name(word, hint)
            return value
        if isinstance(word, Known) and word is not UNKNOWN and isinstance(word.value, str):
            return UNKNOWN
        self.use(value, node)
        return UNKNOWN

    def _text(self, node: ast.Call, hint: str) -> Any:
        return self.value(node.args[0], hint)

    def _len(self, node: ast.Call, _: str) -> Any:
        return self.length(self.value(node.args[0]))

    def _iter(self, node: ast.Call, _: str) -> Any:
        value = self.value(node.args[0])
        if not isinstance(value, Words):
            return UNKNOWN
        ref = self.new("stream")
        self.env[ref, "items"] = value
        return ref

    def _next(self, node: ast.Call, hint: str) -> Any:
        value = self.value(node.args[0])
        if isinstance(value, Ref) and value.kind == "stream":
            return self.shifted((value, "items"), self.items(value), node)
        if isinstance(value, Words):
            word = self.word(value, 0, node)
        elif isinstance(value, Maybe):
            word = value.value
        else:
            return UNKNOWN
        self.name(word, hint)
        default = self.value(node.args[1]) if node.args[1:] else Known(None)
        return self.merged(word, default) if node.args[1:] else word

    def _any(self, node: ast.Call, _: str) -> Any:
        argument = node.args[0]
        if not isinstance(argument, ast.GeneratorExp | ast.ListComp):
            self.use(self.value(argument), node)
            return OPEN
        generator = argument.generators[0]
        words = self.value(generator.iter)
        if not isinstance(words, Words) or len(argument.generators) > 1 or generator.ifs:
            self.use(words, node)
            return OPEN
        return self.some(self.selected(words, [argument.elt], generator.target, node), node)

    def _comprehension(self, node: ast.GeneratorExp | ast.ListComp, hint: str) -> Any:
        generator = node.generators[0]
        words = self.value(generator.iter)
        if not isinstance(words, Words):
            self.use(words, node)
            for child in (*generator.ifs, node.elt):
                self.use(self.value(child), child)
            return UNKNOWN
        same = isinstance(node.elt, ast.Name) and isinstance(generator.target, ast.Name)
        if not same or node.elt.id != generator.target.id or len(node.generators) > 1:  # type: ignore[attr-defined]  # same
            self.rest(words, node, hint)
            return UNKNOWN
        return (
            self.selected(words, generator.ifs, generator.target, node) if generator.ifs else words
        )

    def _method(self, node: ast.Call, function: ast.Attribute, hint: str) -> Any:
        """Return what a method gives; None if it is not one of a value that is followed."""
        if isinstance(function.value, RegexLiteral):
            return self._matches(function.value, node)
        dotted = self.program.dotted(function.value)
        if function.attr == "call" and dotted.endswith("hasOwnProperty"):
            return OPEN
        owner = self.value(function.value, hint if function.attr in _SAME_TEXT else "")
        return self.method(owner, function.attr, node, hint)

    def method(self, owner: Any, name: str, node: ast.Call, hint: str) -> Any:
        if isinstance(owner, Maybe):
            made = self.method(owner.value, name, node, hint)
            return Maybe(made, owner.default) if isinstance(made, Word | Joined) else made
        if isinstance(owner, Ref):
            held = self.items(owner) if owner.kind == "list" else None
            if not isinstance(held, Words) or name in ("push", "append"):
                return self._on_ref(owner, name, node)
            owner = held
        if type(owner) is tuple and name in ("join", "slice", "includes", "pop"):
            return self._on_tuple(owner, name, node)
        method = _BY_TYPE.get(type(owner))
        return getattr(self, method)(owner, name, node, hint) if method else None

    def _on_object(self, owner: Ref, name: str, node: ast.Call) -> Any:
        if name == "get" and node.args:
            return self.element(owner, self.value(node.args[0]), node)
        if name == "hasOwnProperty" and node.args:
            return self.contains(owner, self.value(node.args[0]), node)
        value = self.member(owner, name)
        if isinstance(value, Routine):
            return self.invoke(value, [self.value(each) for each in node.args], node)
        return None

    def _on_ref(self, owner: Ref, name: str, node: ast.Call) -> Any:
        if owner.kind == "object":
            return self._on_object(owner, name, node)
        if name in ("push", "append", "add") and len(node.args) == 1:
            self._append(owner, self.value(node.args[0]), node)
            return UNKNOWN
        if name == "includes" and node.args:
            return self.contains(owner, self.value(node.args[0]), node)
        if name in ("some", "find", "filter", "map", "forEach", "join", "indexOf"):
            return self._on_list(owner, name, node)
        return None

    def _append(self, owner: Ref, value: Any, node: ast.AST) -> None:
        held = self.items(owner)
        if isinstance(value, Words) or isinstance(held, Words):
            self.use(value, node)
        else:
            self.env[owner, "items"] = (*held, value)

    def _on_list(self, owner: Ref, name: str, node: ast.Call) -> Any:
        items = self.items(owner)
        if name == "join":
            self.use(items, node)
            return UNKNOWN
        arguments = [self.value(each) for each in node.args]
        if name == "indexOf" and items and all(isinstance(each, Known) for each in items):
            return Known(items.index(arguments[0])) if arguments[0] in items else UNKNOWN
        for argument in arguments:
            self.give(argument, node)
        return UNKNOWN

    def _on_tuple(self, owner: tuple[Any, ...], name: str, node: ast.Call) -> Any:
        arguments = [self.value(each) for each in node.args]
        if name == "includes" and arguments:
            return self.contains(owner, arguments[0], node)
        if name == "slice" and arguments:
            return self.cut(owner, arguments[0], arguments[1:], node)
        if name == "pop" and not arguments and owner:
            return owner[-1]
        if name == "join" and len(owner) == 1:
            return owner[0]
        self.use(owner, node)
        return UNKNOWN

    def _on_known(self, known: Known, name: str, node: ast.Call, hint: str) -> Any:
        if not isinstance(known.value, str):
            return None
        text = known.value
        arguments = [self.value(each) for each in node.args]
        if name == "join" and len(arguments) == 1:
            if isinstance(arguments[0], Words):
                return self.joined(arguments[0], Known(text), node, hint)
            self.use(arguments[0], node)
            return UNKNOWN
        plain = [_plain_tuple(each) for each in arguments]
        if self.loop is not None and Known(text) == self.loop.current:
            self.touched = True
        made = call_on_text(text, name, plain)
        for each in arguments:
            self.use(each, node)
        return made

    def _on_word(self, word: Word, name: str, node: ast.Call, hint: str) -> Any:
        arguments = [self.value(each) for each in node.args]
        self.touch(word)
        if name in ("startsWith", "startswith") and arguments:
            plain = _plain_tuple(arguments[0])
            prefixes = plain.value if isinstance(plain, Known) else None
            return self.word_starts(word, prefixes if type(prefixes) is tuple else [prefixes])
        if name == "includes" and arguments == [Known("=")] and self.is_current(word):
            self.refuse(word, ".*=.*")
            return Tested(False)
        if (
            name in ("split", "partition")
            and arguments[:1] == [Known("=")]
            and self.is_current(word)
        ):
            self.refuse(word, ".*=.*")
            return (word,) if name == "split" else (word, Known(""), Known(""))
        self.name(word, hint)
        if name in _SAME_TEXT:
            return word
        self.effects.append(("used", word))
        return UNKNOWN

    def _on_joined(self, joined: Joined, name: str, node: ast.Call, _: str) -> Any:
        arguments = [self.value(each) for each in node.args]
        self.touch(joined)
        text = arguments[0].value if arguments and isinstance(arguments[0], Known) else None
        if name in ("startsWith", "startswith"):
            return _prefix_starts(joined.prefix, _plain_tuple(arguments[0]) if arguments else None)
        if name in ("split", "partition") and text == "=":
            return self._split(joined, name, arguments)
        if name in ("slice", "substring", "substr") and type(text) is int and not arguments[1:]:
            return _without(joined, text)
        if name in ("replace", "removeprefix") and isinstance(text, str) and text:
            return _without(joined, len(text)) if joined.prefix.startswith(text) else UNKNOWN
        if name == "includes" and text == "=":
            return Tested(True)
        if name in ("indexOf", "index", "find") and text == "=":
            return Known(len(joined.prefix) - 1)
        raise UnclearError("it takes a flag and its value apart in a way not followed", node)

    def _split(self, joined: Joined, name: str, arguments: list[Any]) -> Any:
        flag = Known(joined.prefix[:-1])
        if name == "partition":
            return (flag, Known("="), joined.tail)
        if not (self.program.is_python and arguments[1:] == [Known(1)]):
            self.reading.of(joined.tail).refuses[".*=.*"] = None
        return (flag, joined.tail)

    def _matches(self, regex: RegexLiteral, node: ast.Call) -> Any:
        value = self.value(node.args[0]) if node.args else UNKNOWN
        word = value.value if isinstance(value, Maybe) else value
        dashes = re.fullmatch(r"/\^(--?)(\??)/[a-z]*", regex.text)
        if isinstance(word, Word) and dashes:
            prefix = dashes[1][:-1] if dashes[2] else dashes[1]
            return self.word_starts(word, [prefix]) if prefix else OPEN
        self.touch(value)
        if isinstance(word, Joined):
            word = Known(word.prefix + "x")
        if isinstance(word, Known) and isinstance(word.value, str):
            return _search(regex.text, word.value)
        return OPEN


def _plain_tuple(value: Any) -> Any:
    """Return a tuple of known texts as one known value, as `startswith()` takes it."""
    if type(value) is tuple and all(isinstance(each, Known) for each in value):
        return Known(tuple(each.value for each in value))
    return value


def _prefix_starts(prefix: str, value: Any) -> Tested:
    texts = value.value if isinstance(value, Known) else None
    texts = texts if type(texts) is tuple else (texts,)
    if not all(isinstance(text, str) for text in texts):
        return OPEN
    if any(prefix.startswith(text) for text in texts):
        return Tested(True)
    return OPEN if any(text.startswith(prefix) for text in texts) else Tested(False)


def _without(joined: Joined, count: int) -> Any:
    if count == len(joined.prefix):
        return joined.tail
    return Joined(joined.prefix[count:], joined.tail) if count < len(joined.prefix) else UNKNOWN


def _search(regex: str, text: str) -> Tested:
    body, _, flags = regex[1:].rpartition("/")
    try:
        found = re.search(body, text, re.IGNORECASE if "i" in flags else 0)
    except re.error:
        return OPEN
    return Tested(found is not None)
