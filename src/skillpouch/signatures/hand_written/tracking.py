"""The words of a command line, and what is known of them while a program is followed."""

import ast
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

from skillpouch.signatures.hand_written.values import (
    UNKNOWN,
    Flag,
    Given,
    Joined,
    Known,
    Maybe,
    Place,
    Reading,
    Ref,
    UnclearError,
    Word,
    Words,
    is_flag,
)

Fact = tuple[Any, ...]
Env = dict[Any, Any]
_MOST_STEPS = 40_000


class Tested(NamedTuple):
    """Whether a test holds, None if that depends; the facts if it does, and if it does not."""

    truth: bool | None = None
    yes: tuple[Fact, ...] = ()
    no: tuple[Fact, ...] = ()

    def negated(self) -> "Tested":
        return Tested(None if self.truth is None else not self.truth, self.no, self.yes)


OPEN = Tested()


@dataclass(slots=True, kw_only=True)
class HandWrittenProgram:
    """A program in one of the languages, as far as they differ."""

    body: list[ast.stmt]
    is_python: bool
    argv: dict[str, int]  # "sys.argv" → the number of its first word, counted from the caller's
    origins: dict[str, str] = field(default_factory=dict)  # of imported names
    exits: frozenset[str] = frozenset()

    def dotted(self, node: ast.AST) -> str:
        if isinstance(node, ast.Name):
            return self.origins.get(node.id, node.id)
        if isinstance(node, ast.Attribute):
            owner = self.dotted(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return ""


@dataclass(slots=True)
class LoopState:
    """One pass of a loop over words: what its word is, and which flag that is."""

    words: Words
    current: Any
    flag: str = ""
    conditional: int = -1


class Tracker:
    """Where a program is, what its names hold, and what was read of its words.

    Subclasses follow tests, expressions, calls, statements and loops, in this order.
    """

    VALUES: ClassVar[dict[type, str]] = {}  # the method for each type of expressions

    def __init__(self, program: HandWrittenProgram) -> None:
        self.program = program
        self.reading = Reading()
        self.env: dict[Any, Any] = {}
        self.scope = 0
        self.parents: dict[int, int | None] = {0: None}
        self.facts: list[Fact] = []
        self.conditional = 0
        self.left = False  # the program ended
        self.loop: LoopState | None = None
        self.peeking = False
        self.touched = False
        self.effects: list[Any] = []
        self.refs = 0
        self.depth = 0  # of calls
        self.steps = 0
        self.heat: dict[int, bool] = {}  # by id of a routine: it has to do with the words

    def value(self, node: ast.AST | None, hint: str = "") -> Any:
        """Return the value of an expression; `hint` is the name it would give to a word."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise UnclearError("there is too much to follow")
        method = self.VALUES.get(type(node))
        if method is not None:
            return getattr(self, method)(node, hint)
        if node is not None:
            for child in ast.iter_child_nodes(node):
                self.use(self.value(child), child)
        return UNKNOWN

    def use(self, value: Any, node: ast.AST, hint: str = "") -> None:
        """A value goes where it is not followed."""
        if isinstance(value, Maybe):
            value = value.value
        if isinstance(value, Words):
            self.rest(value, node, hint)
        elif isinstance(value, Word | Joined):
            self.refuse_after(value, node)
            self.touch(value)
            self.effects.append(("used", value))
            self.name(value if isinstance(value, Word) else UNKNOWN, hint)
        elif isinstance(value, Ref):
            self._use_ref(value, node, hint)
        elif type(value) is tuple:
            for item in value:
                self.use(item, node)

    def _use_ref(self, ref: Ref, node: ast.AST, hint: str) -> None:
        if ref.kind == "list":
            items = self.items(ref)
            self.use(items if isinstance(items, Words) else tuple(items), node, hint)
            return
        for key in [key for key in self.env if key[0] == ref]:
            self.use(self.env[key], node, str(key[1]))

    def refuse_after(self, word: Word | Joined, node: ast.AST) -> None:
        """Refuse to follow what depends on the word after one that is no flag."""
        if isinstance(word, Word) and word.kind == "after":
            raise UnclearError("what it does with a word depends on the word after it", node)

    def rest(self, words: Words, node: ast.AST, hint: str = "") -> None:
        """All words from one on go somewhere together."""
        if words.base == "loop" or (not words.base and words.start < 1):
            raise UnclearError("it passes its words on as a whole", node)
        name = self.reading.lists.get((words.base, words.start), hint)
        self.reading.rest.setdefault(words.base, (words.start, name))

    def name(self, value: Any, hint: str) -> None:
        """Remember the name that the program gives to a word."""
        if isinstance(value, Maybe):
            value = value.value
        if isinstance(value, Joined):
            value = value.tail
        if isinstance(value, Word) and hint and not self.is_current(value):
            about = self.reading.of(value)
            about.name = about.name or hint

    def touch(self, value: Any) -> None:
        if self.is_current(value):
            self.touched = True

    def is_current(self, value: Any) -> bool:
        """Tell whether a value is the word that a loop is at."""
        return self.loop is not None and value == self.loop.current

    def new(self, kind: str) -> Ref:
        self.refs += 1
        return Ref(self.refs, kind)

    def items(self, ref: Ref) -> Any:
        """Return the items of a list: known ones, or the words that it holds."""
        return self.env.get((ref, "items"), ())

    def keys(self, ref: Ref) -> Any:
        if ref.kind == "list":
            return self.items(ref)
        if (ref, "...") in self.env:
            return UNKNOWN
        return tuple(Known(key[1]) for key in self.env if type(key) is tuple and key[0] == ref)

    # Names

    def find(self, name: str) -> Any:
        scope: int | None = self.scope
        while scope is not None:
            if (scope, name) in self.env:
                return self.env[scope, name]
            scope = self.parents[scope]
        return UNKNOWN

    def store(self, name: str, value: Any, *, anywhere: bool = False) -> None:
        """Set a name here or, with `anywhere`, where it was declared."""
        scope: int | None = self.scope
        while anywhere and scope is not None and (scope, name) not in self.env:
            scope = self.parents[scope]
        self.env[self.scope if scope is None else scope, name] = value

    # Words

    def word(self, words: Words, number: int, node: ast.AST) -> Any:
        """Return the word at a number of a list of words."""
        number += words.start
        if words.base == "loop":
            return self.loop_word(number, node)
        if number < 0:
            return UNKNOWN  # the program itself
        word = Word("plain" if words.base else "at", number)
        if not self.peeking:
            self._note_read(word, words.base, node)
        return word

    def loop_word(self, number: int, node: ast.AST) -> Any:
        """Return the word that a loop is at, or one after it."""
        assert self.loop is not None
        if number == 0:
            self.touched = True
            return self.loop.current
        if number < 0:
            raise UnclearError("what it does with a word depends on the words before it", node)
        return Word("value" if self.loop.flag else "after", number, self.loop.flag)

    def _note_read(self, word: Word, base: str, node: ast.AST) -> None:
        for fact in self.facts:
            is_other = fact[0] in ("is", "isnt") and fact[1].kind == word.kind and fact[1] != word
            if is_other and self.reading.fixed.get(fact[1].number) != fact[2]:
                reason = f"the meaning of a word depends on whether another is {fact[2]!r}"
                raise UnclearError(reason, node)
        about = self.reading.of(word)
        absent = {fact[1] for fact in self.facts if fact[0] == "no flag"}
        about.without = absent if about.without is None else about.without & absent
        sure = self.sure(base)
        about.guards.append(sure)
        unguarded = self.program.is_python and not base and sure <= word.number
        if unguarded and not self.conditional:
            about.required = True

    def sure(self, base: str) -> int:
        """Return how many words there surely are."""
        counts: list[int] = [
            fact[2] for fact in self.facts if fact[0] == "count" and fact[1] == base
        ]
        return max([*counts, self.reading.fewest.get(base, 0)])

    def flag(self, word: str, node: ast.AST) -> Flag:
        """Return the flag that the program looks for anywhere among its words."""
        if not is_flag(word):
            raise UnclearError(f"it looks for the word {word!r} anywhere", node)
        self.reading.special[word] = None
        flag = self.reading.flags.setdefault(word, Flag(word))
        flag.lookups += 1
        return flag

    def found(self, place: Place, node: ast.AST) -> Any:
        """Return the word after a flag whose place was looked up."""
        if place.plus != 1:
            raise UnclearError("it computes which of its words it reads", node)
        flag = self.flag(place.flag, node)
        flag.takes, flag.inspected = "value", True
        is_sure = ("flag", place.flag) in self.facts
        if not is_sure and not self.program.is_python:
            # indexOf() gives -1, so that the first word would be the value.
            raise UnclearError(f"it reads a value for {place.flag} also without it", node)
        if not is_sure and not self.conditional:
            flag.required = True
        word = Word("value", 1, place.flag)
        return word if is_sure or self.program.is_python else Maybe(word)

    def refuse(self, word: Word, pattern: str) -> None:
        """Note that the program takes no value of this form as this word."""
        if self.is_current(word):
            self.reading.plain_refuses[pattern] = None
        else:
            self.reading.of(word).refuses[pattern] = None

    # Values that depend

    def merged(self, one: Any, other: Any) -> Any:
        """Return what is known of a value that is one or the other."""
        if one == other:
            return one
        for value, default in ((one, other), (other, one)):
            if isinstance(value, Maybe) and value.default == Known(None):
                value = value.value  # noqa: PLW2901 - with a better default
            if isinstance(value, Word | Joined | Given) and isinstance(default, Known):
                self.note_default(value, default)
                return Maybe(value, default)
        if isinstance(one, Words) and isinstance(other, Words):
            raise UnclearError("it keeps different words under one name")
        return next((value for value in (one, other) if isinstance(value, Words)), UNKNOWN)

    def note_default(self, value: Any, default: Known) -> None:
        word = value.tail if isinstance(value, Joined) else value
        plain = type(default.value) in (str, int, float) and default.value != ""
        if isinstance(word, Word) and plain:
            about = self.reading.of(word)
            about.default = default.value if about.default is None else about.default
