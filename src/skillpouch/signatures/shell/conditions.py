"""The conditions of a shell script, as far as they are about the words of its command line."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from skillpouch.errors import PortableError
from skillpouch.signatures.shell.syntax import (
    Arithmetic,
    Chain,
    If,
    Parameter,
    Pipeline,
    ShellFunction,
    ShellGroup,
    ShellWord,
    Simple,
    Statement,
    Text,
)


class UnclearWordsError(PortableError):
    """The words are used in a way that is not understood; `start` is where."""

    def __init__(self, reason: str, start: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.start = start


class IsEmpty(NamedTuple):
    """`[ -z "$x" ]`."""

    word: ShellWord


class IsThere(NamedTuple):
    """`[ -f "$x" ]`, which no empty word is."""

    word: ShellWord


class Counts(NamedTuple):
    """`[ $# -lt 2 ]`."""

    operator: str
    number: int


class IsEqual(NamedTuple):
    """`[ "$1" = "--help" ]`; the pattern of `[[ … ]]` may hold wildcards."""

    word: ShellWord
    pattern: ShellWord


class Matches(NamedTuple):
    """`[[ $x =~ ^[0-9]+$ ]]`."""

    word: ShellWord
    expression: str


@dataclass(frozen=True, slots=True)
class Not:
    inner: "Condition"


@dataclass(frozen=True, slots=True)
class Either:
    """One of two conditions, or both of them."""

    first: "Condition"
    second: "Condition"
    both: bool


class Other(NamedTuple):
    """A condition about something else: it may hold or not."""


Condition: TypeAlias = IsEmpty | IsThere | Counts | IsEqual | Matches | Not | Either | Other | bool

HELP_WORDS = frozenset({"help", "-h", "--help", "-help", "-?", "?", "h", "usage", "--usage"})
_COMPARED = {
    "-lt": "<",
    "-le": "<=",
    "-gt": ">",
    "-ge": ">=",
    "-eq": "==",
    "-ne": "!=",
    "=": "==",
    "==": "==",
    "!=": "!=",
}
_FILE_TESTS = [[f"-{letter}"] for letter in "bcdefghkLprSsuwxGO"]
_SUM = re.compile(r"\s*\$\{?#\}?\s*(?:(<=?|>=?|==|!=)\s*(\d+)\s*)?")


def condition_of(block: tuple[Statement, ...]) -> Condition:
    """Return what a condition tests; only its last statement decides."""
    return _condition(block[-1]) if block else Other()


def _condition(statement: Statement) -> Condition:
    match statement:
        case Simple(words=words):
            return _command(words)
        case Arithmetic(text=text):
            match = _SUM.fullmatch(text)
            return Counts(match[1] or "!=", int(match[2] or 0)) if match else Other()
        case Chain(first, rest):
            found = _condition(first)
            for operator, other in rest:
                found = Either(found, _condition(other), both=operator == "&&")
            return found
        case Pipeline(commands=(only,), negated=True):
            return Not(_condition(only))
        case ShellGroup(body=(only,), subshell=False):
            return _condition(only)
        case _:
            return Other()


def _command(words: tuple[ShellWord, ...]) -> Condition:
    name = words[0].literal if words else None
    if name in ("true", ":"):
        return True
    if name == "false":
        return False
    if name == "[" and words[-1].literal == "]":
        return _expression(words[1:-1], splits=True)
    return _expression(words[1:], splits=name == "test") if name in ("test", "[[") else Other()


def _expression(words: tuple[ShellWord, ...], *, splits: bool) -> Condition:
    """Return what a test says; where bash `splits` words, an empty one without quotes is none."""
    operators = [_operator(word) for word in words]
    if "(" in operators or ")" in operators:
        return Other()
    for names, both in ((("||", "-o"), False), (("&&", "-a"), True)):
        at = next((place for place, each in enumerate(operators) if each in names and place), 0)
        if at:
            first = _expression(words[:at], splits=splits)
            return Either(first, _expression(words[at + 1 :], splits=splits), both)
    if words and operators[0] == "!":
        return Not(_expression(words[1:], splits=splits))
    if [*operators[:-1]] in _FILE_TESTS and len(words) > 1:
        only = words[1].parameter
        return IsThere(words[1]) if only and (only.quoted or not splits) else Other()
    return _atom(words, operators)


def _operator(word: ShellWord) -> str:
    is_plain = all(isinstance(part, Text) and not part.quoted for part in word.parts)
    return word.literal or "" if is_plain else ""


def _atom(words: tuple[ShellWord, ...], operators: list[str]) -> Condition:
    match operators:
        case [only] if only and only.isdigit():
            return True  # any text is true, "0", too
        case [_] | ["-n", _]:
            return Not(IsEmpty(words[-1]))
        case ["-z", _]:
            return IsEmpty(words[1])
        case [_, "=~", _]:
            return Matches(words[0], words[2].literal or "")
        case [_, operator, _] if operator in _COMPARED:
            return _compared(words[0], _COMPARED[operator], words[2])
        case _:
            return Other()


def _compared(left: ShellWord, operator: str, right: ShellWord) -> Condition:
    only, number = left.parameter, right.literal or ""
    if only and only.name == "#" and not only.operator:
        return Counts(operator, int(number)) if number.isdigit() else Other()
    if operator not in ("==", "!="):
        return Other()
    # `[ "x$1" = "x" ]`
    if number == "x" and isinstance(left.parts[-1], Parameter) and _begins_with_x(left):
        tested: Condition = IsEmpty(ShellWord(left.parts[-1:]))
    elif right.literal == "":
        tested = IsEmpty(left)
    else:
        tested = IsEqual(left, right)
    return tested if operator == "==" else Not(tested)


def _begins_with_x(word: ShellWord) -> bool:
    return ShellWord(word.parts[:-1]).literal == "x"


def glob_of(pattern: ShellWord) -> str | None:
    """Return a pattern of `case` as a regular expression; None if it is not understood."""
    found = ""
    for part in pattern.parts:
        if not isinstance(part, Text):
            return None
        if part.quoted:
            found += re.escape(part.text)
            continue
        piece = _glob(part.text)
        if piece is None:
            return None
        found += piece
    return found


_GLOB = re.compile(
    r"\[(?P<not>[!^]?)(?P<set>[^\[\]/]+)\]|(?P<star>\*+)|(?P<one>\?)|(?P<bad>[\[\]()])|."
)


def _glob(text: str) -> str | None:
    found = ""
    for match in _GLOB.finditer(text):
        if match["bad"]:
            return None
        if match["set"]:
            inside = match["set"].replace("\\", "\\\\")
            found += f"[{'^' if match['not'] else ''}{inside}]"
        elif match["star"]:
            found += ".*"
        else:
            found += "." if match["one"] else re.escape(match.group())
    return found


class FlagWord(NamedTuple):
    """The first word is this very text."""

    text: str

    def matches(self, glob: str) -> bool | None:
        return re.fullmatch(glob, self.text, re.DOTALL) is not None


class JoinedWord(NamedTuple):
    """The first word begins with this text (`--out=`), and any text follows."""

    text: str

    def matches(self, glob: str) -> bool | None:
        if glob.endswith(".*") and re.fullmatch(glob, self.text, re.DOTALL):
            return True
        head = _head(glob)
        if ".*" not in glob and len(re.findall(r"\\.|\[[^\]]*\]|.", glob)) < len(self.text):
            return False
        if self.text.startswith(head) and head != _unescaped(glob):
            return None
        return None if head.startswith(self.text) else False


class PlainWord(NamedTuple):
    """The first word is a text that is no flag and equals no other word that is asked for."""

    def matches(self, glob: str) -> bool | None:
        if glob in (".*", "..*"):
            return True
        head = _head(glob)
        # A value equal to a word that the script asks for is refused elsewhere.
        return False if head.startswith("-") or head == _unescaped(glob) else None


class NoWord(NamedTuple):
    """There are no words."""

    def matches(self, glob: str) -> bool | None:
        return re.fullmatch(glob, "", re.DOTALL) is not None


First: TypeAlias = FlagWord | JoinedWord | PlainWord | NoWord
_HEAD = re.compile(r"(?:\\.|[^\\.\[*])*")


def _head(glob: str) -> str:
    match = _HEAD.match(glob)
    return _unescaped(match.group()) if match else ""


def _unescaped(glob: str) -> str:
    return re.sub(r"\\(.)", r"\1", glob)


_DEEPEST_CALL = 8


def start_of(statement: Statement) -> int:
    """Return where a statement begins."""
    match statement:
        case Chain(first=first):
            return start_of(first)
        case Pipeline(commands=commands):
            return start_of(commands[0])
        case ShellGroup(body=body):
            return start_of(body[0]) if body else 0
        case _:
            return statement.start


def may_succeed(command: Simple) -> bool:
    """Tell whether a command may end the script with success."""
    status = command.words[1].literal if len(command.words) > 1 else "0"
    is_refusal = bool(status and status != "0")
    return command.name == "exec" or (command.name == "exit" and not is_refusal)


def exit_of(functions: Mapping[str, ShellFunction], name: str, depth: int = 0) -> str | None:
    """Return the status with which a function always exits; None if it may return."""
    function = functions.get(name)
    if function is None or depth > _DEEPEST_CALL:
        return None
    return block_exit(functions, function.body, depth + 1)


def block_exit(
    functions: Mapping[str, ShellFunction], block: Sequence[Statement], depth: int = 0
) -> str | None:
    """Return the status with which a block always exits, "?" if it varies; None if it may not."""
    found = (_statement_exit(functions, statement, depth) for statement in block)
    return next((status for status in found if status is not None), None)


def _statement_exit(
    functions: Mapping[str, ShellFunction], statement: Statement, depth: int
) -> str | None:
    match statement:
        case Simple(words=words) if statement.name == "exit":
            return (words[1].literal or "?") if len(words) > 1 else "?"
        case Simple(words=words) if statement.name == "exec" and len(words) > 1:
            return "0"
        case Simple() if statement.name:
            return exit_of(functions, statement.name, depth)
        case ShellGroup(body=body, subshell=False):
            return block_exit(functions, body, depth)
        case If(clauses=clauses, otherwise=otherwise) if otherwise:
            ends = [block_exit(functions, body, depth) for _, body in clauses]
            ends.append(block_exit(functions, otherwise, depth))
            varies = "?" if len(set(ends)) > 1 else ends[0]
            return None if None in ends else varies
        case _:
            return None


def split_condition(
    statement: If | Chain,
) -> tuple[Condition | None, Sequence[Statement], bool]:
    """Return condition, body and whether there is more, for `if` and for `test && …`."""
    if isinstance(statement, If):
        condition, body = statement.clauses[0]
        more = len(statement.clauses) > 1 or bool(statement.otherwise)
        return condition_of(condition) if len(condition) == 1 else None, body, more
    *tests, (operator, last) = statement.rest
    first: Statement = Chain(statement.first, tuple(tests)) if tests else statement.first
    tested = condition_of((first,))
    return Not(tested) if operator == "||" else tested, (last,), False


def asks_for_help(condition: Condition) -> bool:
    """Tell whether a condition compares a word with a flag such as `--help`."""
    match condition:
        case IsEqual(pattern=pattern):
            return pattern.literal in HELP_WORDS
        case Either(first, second, both=False):
            return asks_for_help(first) or asks_for_help(second)
        case _:
            return False


def literal_of(pattern: ShellWord) -> str | None:
    """Return the only text that a pattern matches; None for one with wildcards."""
    text = pattern.literal
    return text if text is not None and glob_of(pattern) == re.escape(text) else None
