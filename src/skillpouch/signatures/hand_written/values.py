"""What the words of a command line become while a program that reads them by hand is followed."""

import ast
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class UnclearError(Exception):
    """The words are used in a way that is not followed; `line` is the `lineno` of a node."""

    def __init__(self, reason: str, node: ast.AST | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line: int | None = getattr(node, "lineno", None)


class Known(NamedTuple):
    """A plain value: text, a number, a truth value or None."""

    value: Any


class Words(NamedTuple):
    """Words from `start` on: of all, of those a loop is at ("loop"), or without flags ("plain")."""

    start: int
    base: str = ""


class Word(NamedTuple):
    """One word that a caller gives.

    It is at a `number` of the command line ("at"), of the words that are no flags ("plain"), or it
    is the value of a flag: after it ("value"), or behind its equals sign ("tail"). What follows a
    word of which it is not known whether it is a flag is "after".
    """

    kind: str
    number: int = 0
    flag: str = ""


class Joined(NamedTuple):
    """A flag, its equals sign and a value, in one word."""

    prefix: str
    tail: Word


class Length(NamedTuple):
    """The number of words and a constant."""

    plus: int
    base: str = ""


class Place(NamedTuple):
    """Where a flag stands and a constant."""

    flag: str
    plus: int = 0


class LoopIndex(NamedTuple):
    """Where a loop is and a constant."""

    plus: int = 0


class Given(NamedTuple):
    """Whether one of these flags is among the words."""

    flags: tuple[str, ...]


class Maybe(NamedTuple):
    """A value that is there only if the caller gave a word, and what is there otherwise."""

    value: Any
    default: Any = Known(None)


class Ref(NamedTuple):
    """An object ("object"), a list ("list") or an iterator ("stream") of the program."""

    number: int
    kind: str = "object"


UNKNOWN = Known(...)

# What must not leave this module's care: a list or a place, with which any word could be read.
Handle = Words | Length | Place | LoopIndex


@dataclass(slots=True, eq=False)
class Routine:
    """A function of the program."""

    parameters: list[ast.expr]  # a name, or a pattern; with a default, a NamedExpr
    body: Callable[[], list[ast.stmt]]
    names: frozenset[str]  # all names in it
    scope: int
    size: int = 0  # roughly, in tokens


@dataclass(slots=True)
class About:
    """What the program shows of one word."""

    name: str = ""
    kind: str = "string"
    default: str | float | None = None
    required: bool = False
    choices: tuple[str, ...] = ()
    refuses: dict[str, None] = field(default_factory=dict)  # patterns
    guards: list[int] = field(default_factory=list)  # how many words are sure where it is read
    skippable: bool = False
    compared: dict[str, None] = field(default_factory=dict)
    without: set[str] | None = None  # it is read only if none of these flags was given


@dataclass(slots=True)
class Flag:
    """A flag of the program: without a value, with one behind it, or with one joined to it."""

    word: str
    takes: str = ""  # "", "value" or "tail"
    repeats: bool = False
    aliases: tuple[str, ...] = ()
    effect: Any = None  # equal for flags that do the same
    inspected: bool = False  # its value is looked at like any other word
    required: bool = False
    lookups: int = 0


@dataclass(slots=True)
class Reading:
    """Everything that was seen while the program was followed."""

    about: dict[Word, About] = field(default_factory=dict)
    flags: dict[str, Flag] = field(default_factory=dict)
    fewest: dict[str, int] = field(default_factory=dict)  # by base: the program refuses fewer words
    rest: dict[str, tuple[int, str]] = field(default_factory=dict)  # by base: from where, its name
    lists: dict[tuple[str, int], str] = field(default_factory=dict)  # names of lists of words
    fixed: dict[int, str] = field(default_factory=dict)
    special: dict[str, None] = field(default_factory=dict)  # words with a meaning anywhere
    plain_refuses: dict[str, None] = field(default_factory=dict)
    alike: list[tuple[str, ...]] = field(default_factory=list)  # flags of which any does
    loop_start: int | None = None
    plain: str = ""  # what a loop does with other words: "", "refused", "ignored", "taken"
    most_plain: int | None = None
    plain_list: str = ""  # the name of the list that a loop collects other words in

    def of(self, word: Word) -> About:
        return self.about.setdefault(word, About())


def words_in(values: Iterable[Any]) -> list[Word]:
    """Return the words in these values, also in lists."""
    found: list[Word] = []
    for value in values:
        if isinstance(value, Maybe):
            value = value.value  # noqa: PLW2901 - what may be there
        if isinstance(value, Word):
            found.append(value)
        elif type(value) is tuple:
            found += words_in(value)
    return found


def as_word(flag: str) -> Known | Joined:
    """Return the word that a flag is; behind an equals sign stands a value of the caller."""
    return Joined(flag, Word("tail", 1, flag[:-1])) if flag.endswith("=") else Known(flag)


def starts(prefix: str) -> str:
    """Return the pattern of words that start so."""
    return re.escape(prefix) + ".*"


_FLAG = re.compile(r"--?[A-Za-z0-9?][\w.-]*=?")


def is_flag(text: Any) -> bool:
    """Tell whether text has the shape of a flag: `-x`, `--long`, `--long=`."""
    return isinstance(text, str) and _FLAG.fullmatch(text) is not None


HELP = frozenset({"-h", "--help", "help", "-?", "--version", "-V"})


def call_on_text(text: str, method: str, arguments: list[Any]) -> Any:
    """Return what a method of a known text gives, or UNKNOWN."""
    if not all(isinstance(each, Known) and each is not UNKNOWN for each in arguments):
        return UNKNOWN
    plain = [each.value for each in arguments]
    operation = _ON_TEXT.get(method)
    try:
        made = operation(text, *plain) if operation else ...
    except (TypeError, ValueError, IndexError):
        return UNKNOWN
    if isinstance(made, list | tuple):
        return tuple(Known(each) for each in made)
    return Known(made)


def _slice(text: str, start: int = 0, end: int | None = None) -> str:
    return text[start:end]


def _split(text: str, separator: str | None = None, *_: int) -> list[str]:
    return text.split(separator)


def _find(text: str, part: str) -> int:
    return text.find(part)


_ON_TEXT: dict[str, Callable[..., Any]] = {
    "startsWith": lambda text, *prefixes: text.startswith(*prefixes),
    "startswith": lambda text, *prefixes: text.startswith(*prefixes),
    "endsWith": lambda text, suffix: text.endswith(suffix),
    "endswith": lambda text, suffix: text.endswith(suffix),
    "includes": lambda text, part: part in text,
    "indexOf": _find,
    "find": _find,
    "slice": _slice,
    "substring": _slice,
    "split": _split,
    "partition": lambda text, separator: text.partition(separator),
    "replace": lambda text, old, new: text.replace(old, new, 1),
    "removeprefix": lambda text, prefix: text.removeprefix(prefix),
    "lstrip": lambda text, *characters: text.lstrip(*characters),
    "strip": lambda text, *characters: text.strip(*characters),
    "trim": lambda text: text.strip(),
    "lower": lambda text: text.lower(),
    "toLowerCase": lambda text: text.lower(),
    "toString": lambda text: text,
    "charAt": lambda text, at: text[at : at + 1],
}
