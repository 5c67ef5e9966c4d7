"""The bytes of a TOML file become plain values, in bounded time, or one problem with its line."""

import re
import tomllib
from collections.abc import Iterator
from typing import Any

from skillpouch.errors import PortableError

_PLACE = re.compile(r"^(?P<what>.*?) \(at (?:line (?P<line>\d+), column \d+|end of document)\)$")
# Python's reader takes quadratic time for a key of very many parts: one line could hang a host.
_MOST_DOTS = 100
_DEEPEST = 16


class TomlError(PortableError, ValueError):
    def __init__(self, message: str, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def parse_toml(data: bytes) -> tuple[dict[str, Any], str]:
    """Return the values and the text they were read from.

    Raises:
        TomlError: the bytes are no TOML that a person would write.
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
    """Yield the lines on which a `[[name]]` stands."""
    header = re.compile(rf"\s*\[\[\s*{re.escape(name)}\s*\]\]")
    for number, line in enumerate(text.split("\n"), 1):
        if header.match(line):
            yield number


def key_line(text: str, name: str) -> int | None:
    """Return the line on which a key of the file itself is set, or its table begins."""
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
