"""Reads TOML in limited time, key by key, and reports all problems."""

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from skillpouch.errors import PortableError, nearest
from skillpouch.problems import Problem

_PLACE = re.compile(r"^(?P<what>.*?) \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")
# tomllib takes quadratic time for a key of very many dotted parts: one line could hang a host.
_MOST_DOTS = 100
_DEEPEST = 16


class TomlError(PortableError, ValueError):
    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def parse_toml(data: bytes) -> tuple[dict[str, Any], str]:
    """Return the values and the text they were read from.

    Raises:
        TomlError: the bytes are not TOML, or exceed a limit.
    """
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise TomlError("it is not UTF-8 text", line) from None
    _refuse_dots(text)
    try:
        values = tomllib.loads(text)
    except RecursionError:
        raise TomlError("its lists or tables are nested too deeply") from None
    except ValueError as error:  # also numbers that Python refuses to read
        raise _syntax(error, text) from None
    if _is_deep(values):
        raise TomlError("its lists or tables are nested too deeply")
    return values, text


def header_lines(text: str, name: str) -> Iterator[int]:
    """Yield the numbers of the lines with `[[name]]`."""
    header = re.compile(rf"\s*\[\[\s*{re.escape(name)}\s*\]\]")
    for number, line in enumerate(text.split("\n"), 1):
        if header.match(line):
            yield number


def key_line(text: str, name: str) -> int | None:
    """Return the line on which a top-level key is set, or its table begins."""
    key = re.compile(rf"\s*(?:\[+\s*)?{re.escape(name)}\s*[\].=]")
    return next((n for n, line in enumerate(text.split("\n"), 1) if key.match(line)), None)


def _refuse_dots(text: str) -> None:
    for number, line in enumerate(text.split("\n"), 1):
        if line.count(".") > _MOST_DOTS:
            message = f"a line with more than {_MOST_DOTS} dots: split it, with a text in quotes"
            raise TomlError(message, number)


def _syntax(error: ValueError, text: str) -> TomlError:
    place = _PLACE.match(str(error))
    if place is None:
        return TomlError(f"it is not TOML: {error}")
    line = int(place["line"] or text.count("\n") + 1)
    return TomlError(f"it is not TOML: {place['what'].lower()}", line)


def _is_deep(values: dict[str, Any]) -> bool:
    level: list[Any] = [values]
    for _ in range(_DEEPEST):
        level = [inner for value in level for inner in _inside(value)]
        if not level:
            return False
    return True


def _inside(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return list(value.values())
    return value if isinstance(value, list) else []


LineOf = Callable[[str], int | None]
_LONGEST_SHOWN = 60
_MOST_TOLD = 50


class FileProblems:
    """Everything that is wrong with one file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.found: list[Problem] = []

    @property
    def is_full(self) -> bool:
        """Whether there are enough problems: the rest of the file is not checked."""
        return len(self.found) >= _MOST_TOLD

    def add(self, code: str, message: str, line: int | None = None) -> None:
        """Add a problem; a file with any problem cannot be used."""
        self.found.append(
            Problem(path=self.path, code=code, severity="error", message=message, line=line)
        )


class Table:
    """The keys of one table. A `take_…` returns the value, or a default and reports a problem."""

    def __init__(
        self, values: Mapping[str, Any], problems: FileProblems, line_of: LineOf, name: str = ""
    ) -> None:
        self._left = dict(values)
        self._known: list[str] = []
        self._problems = problems
        self._line_of = line_of
        self._name = name

    def take(self, key: str) -> Any:
        """Take a value unchanged, None if the key is missing."""
        self._known.append(key)
        return self._left.pop(key, None)

    def is_taken(self, key: str) -> bool:
        """Tell whether a key was there and was taken."""
        return key in self._known

    def peek(self, key: str) -> Any:
        """Return a value without taking it."""
        return self._left.get(key)

    def take_text(self, key: str) -> str:
        value = self.take(key)
        if value is None or isinstance(value, str):
            return value or ""
        self.wrong(key, f"must be text, not {shown(value)}")
        return ""

    def take_texts(self, key: str) -> tuple[str, ...]:
        """Take a list of texts; a single text is a list of one."""
        value = self.take(key)
        if value is None:
            return ()
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
            self.wrong(key, f"must be a list of texts, not {shown(value)}")
            return ()
        if not texts:
            self.wrong(key, "is an empty list: leave the key out, which means all")
        return tuple(texts)

    def take_choice(self, key: str, choices: Sequence[str], default: str) -> str:
        value = self.take(key)
        if value is None or (isinstance(value, str) and value in choices):
            return default if value is None else value
        self.wrong(key, f"is {shown(value)}: use {' or '.join(map(repr, choices))}")
        return default

    def take_flag(self, key: str) -> bool:
        value = self.take(key)
        if value is None or isinstance(value, bool):
            return bool(value)
        self.wrong(key, f"must be true or false, not {shown(value)}")
        return False

    def take_table(self, key: str) -> "Table":
        value = self.take(key)
        if value is not None and not isinstance(value, dict):
            self.wrong(key, f"must be a table, not {shown(value)}")
            value = None
        line_of = _always(self._line_of(key))
        return Table(value or {}, self._problems, line_of, self._named(key))

    def take_tables(self, key: str, lines: Sequence[int] = ()) -> list["Table"]:
        """Take a list of tables; `lines` are their first lines, if all are known."""
        value = self.take(key)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            self.wrong(key, f"must be a list of tables, not {shown(value)}")
            return []
        exact = len(lines) == len(value)
        places = list(lines) if exact else [self._line_of(key)] * len(value)
        return [
            Table(item, self._problems, _always(line), f"{self._named(key)} {number}")
            for number, (item, line) in enumerate(zip(value, places, strict=True), 1)
        ]

    def call_it(self, name: str) -> None:
        """Add a name to the table's number in problems."""
        self._name += f" ({shown(name)})" if name else ""

    def take_rest(self) -> dict[str, Any]:
        """Take all keys that were not taken yet."""
        rest, self._left = self._left, {}
        return rest

    def end(self, elsewhere: Mapping[str, str] | None = None) -> None:
        """Report every key that was not taken; `elsewhere` says where some of them belong."""
        for key in self.take_rest():
            if self._problems.is_full:
                return
            if elsewhere and key in elsewhere:
                self.misplaced(key, elsewhere[key])
                continue
            near = nearest(key, self._known, most=1)
            fix = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(self._known)}"
            self._report(key, f"is not a key here: {fix}", code="policy-key")

    def wrong(self, key: str | None, message: str) -> None:
        """Report what is wrong with the value of a key, or with the whole table."""
        self._report(key, message, code="policy-value")

    def misplaced(self, key: str, message: str) -> None:
        """Report a key that is allowed in another file, but not in this one."""
        self._report(key, message, code="policy-place")

    def contradictory(self, message: str) -> None:
        """Report that the rule in this table is invalid, or contradicts its examples."""
        self._report(None, message, code="policy-rule")

    def _report(self, key: str | None, message: str, *, code: str) -> None:
        if self._problems.is_full:
            return
        where = self._name if key is None else self._named(key)
        self._problems.add(code, f"{where}: {message}", self._line_of(key or ""))

    def _named(self, key: str) -> str:
        plain = key if key.isascii() and key.isprintable() and key else shown(key)
        return f"{self._name}: {plain}" if self._name else plain


def _always(line: int | None) -> LineOf:
    return lambda _: line


def shown(value: Any) -> str:
    """Return a value for a message: short, and without control characters."""
    try:
        text = ascii(value)
    except ValueError:  # an integer of more than 4,300 digits
        return "a huge number"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}…"
