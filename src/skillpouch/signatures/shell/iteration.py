"""Follows every way through a piece of a shell script that handles one word or one flag."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import eq, ge, gt, le, lt, ne
from typing import NamedTuple, TypeAlias

from skillpouch.signatures.shell.conditions import (
    Condition,
    Counts,
    Either,
    First,
    IsEmpty,
    IsEqual,
    JoinedWord,
    Matches,
    Not,
    NoWord,
    PlainWord,
    UnclearWordsError,
    condition_of,
    exit_of,
    glob_of,
    start_of,
)
from skillpouch.signatures.shell.syntax import (
    Arithmetic,
    Assigned,
    Case,
    CaseItem,
    Chain,
    If,
    Loop,
    Parameter,
    Pipeline,
    ShellFunction,
    ShellGroup,
    ShellWord,
    Simple,
    Statement,
    commands_in,
    parameters_in,
    parameters_of,
)

_MOST_WAYS = 64
ALL = 0  # the number of a read of all words


class GivenWord(NamedTuple):
    """A word by its number; `part` is "after" for the text behind `=`, "some" for a part."""

    number: int
    part: str = ""


class Constant(NamedTuple):
    text: str


class Counted(NamedTuple):
    """One more than before."""


Value: TypeAlias = GivenWord | Constant | Counted | None


class Put(NamedTuple):
    """A variable that gets a value; `append` for a further element of a list."""

    name: str
    value: Value
    append: bool = False


@dataclass(frozen=True, slots=True)
class CodePath:
    """One way through: words shifted, variables set, what is known, and how it ends."""

    shifted: int = 0
    puts: tuple[Put, ...] = ()
    empty: tuple[tuple[str, bool], ...] = ()  # variables known to be empty or not
    reads: frozenset[int] = frozenset()
    chosen: tuple[str, ...] = ()  # the texts of the value for which this way is taken
    digits: bool = False  # the value is known to be a whole number
    end: str = ""
    status: str = ""

    def value_of(self, name: str) -> Value:
        return next((put.value for put in reversed(self.puts) if put.name == name), None)


@dataclass(slots=True)
class Iteration:
    """Runs statements for one first word; `fewest` words are there at least."""

    functions: Mapping[str, ShellFunction]
    first: First = field(default_factory=PlainWord)
    fewest: int = 1
    bound: Mapping[str, GivenWord] = field(default_factory=dict)  # variables that hold a word
    numbered: bool = True  # `$1` is the first word; else only the bound variables hold words

    def run(
        self, block: Sequence[Statement], ways: Iterable[CodePath] = (CodePath(),)
    ) -> list[CodePath]:
        found = list(ways)
        for statement in block:
            found = [
                one for way in found for one in ([way] if way.end else self.step(statement, way))
            ]
            found = list(dict.fromkeys(found))
            if len(found) > _MOST_WAYS:
                raise UnclearWordsError("its flags are read in too many ways", start_of(statement))
        return found

    def step(self, statement: Statement, way: CodePath) -> list[CodePath]:
        match statement:
            case Simple():
                return self.simple(statement, way)
            case Chain(first, rest):
                return self.chain(first, rest, way)
            case If():
                return self.conditional(statement, way)
            case Case():
                return self.cases(statement, way)
            case ShellGroup(body=body, subshell=False, texts=texts):
                return self.run(
                    body, [self.reading(way, (r for t in texts for r in parameters_of(t)))]
                )
            case _:
                return [self.apart(statement, way)]

    def apart(self, statement: Statement, way: CodePath) -> CodePath:
        """Pass over a loop, a pipeline or a subshell: nothing in it may decide about words."""
        if isinstance(statement, Arithmetic):
            return self.summed(statement.text, way)
        if isinstance(statement, ShellFunction):
            raise UnclearWordsError("a function is defined among its flags", statement.start)
        is_loop = isinstance(statement, Loop)
        for command in commands_in(statement):
            if is_loop and command.name in (
                "shift",
                "set",
                "eval",
                ".",
                "source",
                "exit",
                "return",
            ):
                reason = f"{command.name!r} is called in a loop among its flags"
                raise UnclearWordsError(reason, command.start)
        reads = self.reading(way, parameters_in(statement))
        if is_loop and reads.reads != way.reads:
            raise UnclearWordsError("a loop among its flags reads words", start_of(statement))
        return reads

    def reading(self, way: CodePath, parameters: Iterable[Parameter]) -> CodePath:
        found = {self.number(way, read) for read in parameters} - {None}
        if found <= way.reads:
            return way
        return replace(way, reads=way.reads | {each for each in found if each is not None})

    def number(self, way: CodePath, read: Parameter) -> int | None:
        """Return which word a parameter holds; None for one that holds none."""
        if read.name in ("@", "*") and not read.subscript:
            return ALL
        if read.name.isdigit() and read.name != "0":
            if not self.numbered:
                raise UnclearWordsError(f"${read.name} is read in a loop over all words", 0)
            return way.shifted + int(read.name)
        given = way.value_of(read.name) or self.bound.get(read.name)
        return given.number if isinstance(given, GivenWord) else None

    def simple(self, statement: Simple, way: CodePath) -> list[CodePath]:
        name = statement.name
        if name not in _SHOW:
            way = self.reading(way, parameters_in(statement))
        if not statement.words or name in _DECLARE:
            for assigned in statement.assigned:
                way = self.assign(assigned, way, statement.start)
        if name in _HIDDEN or (name == "set" and _sets_words(statement)):
            raise UnclearWordsError(f"{name!r} is called among its flags", statement.start)
        if name == "shift":
            return [replace(way, shifted=way.shifted + _number(statement, 1))]
        return [self.ended(statement, way)]

    def ended(self, statement: Simple, way: CodePath) -> CodePath:
        name = statement.name or ""
        if name in ("exit", "return", "break", "continue"):
            return _ended(statement, name, way)
        if name == "exec" and len(statement.words) > 1:
            return replace(way, end="exit")
        status = exit_of(self.functions, name)
        return way if status is None else replace(way, end="exit", status=status)

    def assign(self, assigned: Assigned, way: CodePath, start: int) -> CodePath:
        if assigned.name in self.bound and assigned.name != "OPTARG":
            raise UnclearWordsError("the variable of the loop is set in it", start)
        if assigned.items is not None:
            values = [self.value(item, way) for item in assigned.items]
            # A list that is put together anew from itself and one more: `L=("${L[@]}" "$2")`.
            again = [item.parameter for item in assigned.items]
            keeps = bool(again and again[0] and again[0].name == assigned.name)
            values = values[1:] if keeps else values
            append = assigned.append or keeps
            value = values[0] if len(values) == 1 else None
            return replace(way, puts=(*way.puts, Put(assigned.name, value, append)))
        value = self.value(assigned.value, way, own=assigned.name)
        if assigned.append and isinstance(value, GivenWord):
            value = GivenWord(value.number, "some")
        return replace(way, puts=(*way.puts, Put(assigned.name, value)))

    def value(self, word: ShellWord, way: CodePath, own: str = "") -> Value:
        if word.literal is not None:
            return Constant(word.literal)
        only = word.parameter
        number = self.number(way, only) if only else None
        if only and number is not None:
            return self.given(only, number, way)
        numbers = {self.number(way, read) for read in parameters_of(word)} - {None}
        if len(numbers) == 1 and (number := next(iter(numbers))) is not None:
            return GivenWord(number, "some")
        if len(word.parts) == 1 and isinstance(word.parts[0], Arithmetic):
            plus = rf"\s*(?:\$?\{{?{own}\}}?\s*\+\s*1|1\s*\+\s*\$?{own}|\+\+\s*{own})\s*"
            return Counted() if own and re.fullmatch(plus, word.parts[0].text) else None
        return None

    def given(self, read: Parameter, number: int, way: CodePath) -> GivenWord:
        base = way.value_of(read.name) or self.bound.get(read.name)
        part = base.part if isinstance(base, GivenWord) else ""
        if read.operator in ("", "-", ":-", "?", ":?"):
            return GivenWord(number, part)
        operand = read.operand.literal if read.operand else None
        if read.operator == "#" and not part and self.cuts(operand, number):
            return GivenWord(number, "after")
        return GivenWord(number, "some")

    def cuts(self, operand: str | None, number: int) -> bool:
        """Tell whether `${1#operand}` leaves exactly what follows the flag in its word."""
        if number != 1 or not isinstance(self.first, JoinedWord):
            return False
        flag = self.first.text
        return operand in ("*=", flag)

    def summed(self, text: str, way: CodePath) -> CodePath:
        way = self.reading(way, parameters_of(ShellWord((Arithmetic(text),))))
        match = re.fullmatch(r"\s*(?:\+\+)?([A-Za-z_]\w*)\s*(?:\+\+|\+=\s*1|=.*)?\s*", text)
        return replace(way, puts=(*way.puts, Put(match[1], Counted()))) if match else way

    def chain(
        self, first: Statement, rest: Sequence[tuple[str, Statement]], way: CodePath
    ) -> list[CodePath]:
        branches = self.branches(first, way)
        for operator, other in rest:
            goes_on, after = operator == "&&", []
            for one, truth in branches:
                if one.end or truth is (not goes_on):
                    after.append((one, truth))
                else:
                    after += self.branches(other, one)
            branches = after
        return [one for one, _ in branches]

    def branches(self, statement: Statement, way: CodePath) -> list[tuple[CodePath, bool]]:
        """Return each way with whether the statement succeeds on it."""
        condition = condition_of((statement,))
        if isinstance(statement, Simple) and _is_test(statement):
            return self.tested(condition, way)
        if isinstance(statement, Chain) and all(map(_is_only_test, commands_in(statement))):
            return self.tested(condition, way)
        if isinstance(statement, Pipeline) and statement.negated and len(statement.commands) == 1:
            return [(one, not truth) for one, truth in self.branches(statement.commands[0], way)]
        ways = self.step(statement, way)
        if isinstance(condition, bool):
            return [(one, condition) for one in ways]
        if isinstance(statement, Simple) and (not statement.words or statement.name in _SUCCEED):
            return [(one, True) for one in ways]
        return [(one, truth) for one in ways for truth in ((True,) if one.end else (True, False))]

    def conditional(self, statement: If, way: CodePath) -> list[CodePath]:
        found: list[CodePath] = []
        waiting = [way]
        for condition, body in statement.clauses:
            before = self.run(condition[:-1], waiting)
            found += [one for one in before if one.end]
            going = [one for one in before if not one.end]
            split = [pair for one in going for pair in self.branches(condition[-1], one)]
            found += self.run(body, [one for one, truth in split if truth])
            waiting = [one for one, truth in split if not truth]
        return found + self.run(statement.otherwise, waiting)

    def tested(self, condition: Condition, way: CodePath) -> list[tuple[CodePath, bool]]:
        if isinstance(condition, Not):
            return [(one, not truth) for one, truth in self.tested(condition.inner, way)]
        if isinstance(condition, Either):
            first = self.tested(condition.first, way)
            decided = [(one, truth) for one, truth in first if truth is not condition.both]
            going = [one for one, truth in first if truth is condition.both]
            return decided + [pair for one in going for pair in self.tested(condition.second, one)]
        truth = self.truth(condition, way)
        if truth is not None:
            return [(way, truth)]
        return [(self.learned(condition, way, truth=truth), truth) for truth in (True, False)]

    def learned(self, condition: Condition, way: CodePath, *, truth: bool) -> CodePath:
        """Return a way with what follows from a condition that holds on it, or does not."""
        match condition:
            case IsEmpty(word) if name := _variable(word):
                return replace(way, empty=(*way.empty, (name, truth)))
            case Matches(word, expression) if truth and self.is_value(word, way):
                return replace(way, digits=way.digits or expression in _WHOLE_NUMBERS)
            case IsEqual(word, pattern) if truth and self.is_value(word, way):
                text = pattern.literal
                if text is not None and glob_of(pattern) == re.escape(text):
                    return replace(way, chosen=(*way.chosen, text))
                return way
            case _:
                return way

    def is_value(self, word: ShellWord, way: CodePath) -> bool:
        value = self.value(word, way)
        return value in (GivenWord(2), GivenWord(1, "after"))

    def truth(self, condition: Condition, way: CodePath) -> bool | None:
        """Tell whether a condition holds; None if both is possible."""
        match condition:
            case bool():
                return condition
            case Counts() if self.numbered:
                return self.counted(condition, way)
            case IsEmpty(word):
                return self.is_empty(word, way)
            case IsEqual(word, pattern) if self.value(word, way) == GivenWord(1):
                glob = glob_of(pattern)
                return None if glob is None else self.first.matches(glob)
            case _:
                return None

    def counted(self, test: Counts, way: CodePath) -> bool | None:
        if isinstance(self.first, NoWord):
            return bool(_COMPARE[test.operator](0, test.number))
        return _compare(max(0, self.fewest - way.shifted), test.operator, test.number)

    def is_empty(self, word: ShellWord, way: CodePath) -> bool | None:
        value = self.value(word, way)
        if isinstance(value, Constant):
            return not value.text
        if value == GivenWord(1):
            return isinstance(self.first, NoWord)
        name = _variable(word)
        return next((known for each, known in way.empty if each == name), None)

    def cases(self, statement: Case, way: CodePath) -> list[CodePath]:
        value = self.value(statement.subject, way)
        if value == GivenWord(1):
            return self.taken(statement, way)
        is_value = value in (GivenWord(2), GivenWord(1, "after"))
        found: list[CodePath] = []
        for item in statement.items:
            texts = [pattern.literal for pattern in item.patterns]
            exact = is_value and all(
                text is not None and glob_of(pattern) == re.escape(text)
                for text, pattern in zip(texts, item.patterns, strict=True)
            )
            chosen = tuple(text for text in texts if text is not None) if exact else ()
            found += self.run(item.body, [replace(way, chosen=(*way.chosen, *chosen))])
        ends = any(
            glob_of(pattern) == ".*" for item in statement.items for pattern in item.patterns
        )
        return found if ends else [*found, way]

    def taken(self, statement: Case, way: CodePath) -> list[CodePath]:
        """Run the one item whose pattern the first word matches, and those it falls into."""
        items = list(statement.items)
        while items and not self.matches(items[0]):
            items.pop(0)
        ways = [way]
        while items:
            item = items.pop(0)
            ways = self.run(item.body, ways)
            if item.end == ";;&":
                raise UnclearWordsError("';;&' goes on with other patterns", item.start)
            if item.end == ";;":
                break
        return ways

    def matches(self, item: CaseItem) -> bool:
        for pattern in item.patterns:
            glob = glob_of(pattern)
            found = self.first.matches(glob) if glob is not None else None
            if found is None:
                reason = "a pattern of its 'case' could match several flags or words"
                raise UnclearWordsError(reason, item.start)
            if found:
                return True
        return False


_DECLARE = frozenset({"local", "declare", "readonly", "export", "typeset"})
# Commands that may do anything with the words.
_HIDDEN = frozenset({"eval", ".", "source", "getopts"})
# Commands that use a word only to test or to show it.
_SHOW = frozenset({"[", "[[", "test", "echo", "printf"})
_SUCCEED = frozenset({"shift", "local", "declare", "export", "readonly", "echo", "printf"})
_WHOLE_NUMBERS = frozenset({"^[0-9]+$", "^[0-9][0-9]*$", r"^\d+$", "^[[:digit:]]+$"})


def _sets_words(statement: Simple) -> bool:
    return any(word.literal in ("--", "-") or word.literal is None for word in statement.words[1:])


def _number(statement: Simple, default: int) -> int:
    if len(statement.words) == 1:
        return default
    text = statement.words[1].literal
    if text is None or not text.isdigit():
        raise UnclearWordsError(
            "how many words it shifts is known only when it runs", statement.start
        )
    return int(text)


def _ended(statement: Simple, name: str, way: CodePath) -> CodePath:
    if name in ("break", "continue") and _number(statement, 1) != 1:
        raise UnclearWordsError(f"{name!r} leaves more than one loop", statement.start)
    status = statement.words[1].literal if len(statement.words) > 1 else ""
    return replace(way, end=name, status="?" if status is None else status)


def _is_test(statement: Simple) -> bool:
    return statement.name in ("[", "[[", "test")


def _is_only_test(statement: Simple) -> bool:
    return _is_test(statement) or statement.name in ("true", "false", ":")


def _variable(word: ShellWord) -> str:
    only = word.parameter
    plain = (
        only and only.operator in ("", ":-", "-") and not (only.operand and only.operand.literal)
    )
    return only.name if only and plain and not only.name.isdigit() and not only.subscript else ""


_COMPARE = {"<": lt, "<=": le, ">": gt, ">=": ge, "==": eq, "!=": ne}


def _compare(fewest: int, operator: str, number: int) -> bool | None:
    """Compare the number of words, of which only a lower bound is known."""
    if operator in (">", ">=", "!="):
        return True if fewest > number or (operator == ">=" and fewest == number) else None
    if operator == "<":
        return False if fewest >= number else None
    return False if fewest > number else None
