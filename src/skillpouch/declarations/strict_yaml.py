"""YAML read strictly: no aliases, no duplicate keys, line numbers, plain scalars."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)

from skillpouch.declarations.plain_yaml import plain_scalar
from skillpouch.errors import PortableError

try:
    from yaml import CSafeLoader as _Parser
except ImportError:  # PyYAML built without libyaml: ten times slower, same events
    from yaml import SafeLoader as _Parser  # type: ignore[assignment]  # the same interface

_MAX_DEPTH = 64
_NOTED_DEPTH = 8  # no message names a line of a value deeper than this

YamlPath = tuple[str | int, ...]


class YamlError(PortableError, ValueError):
    """The text is not YAML, or uses a feature that this reader refuses (`refused`)."""

    def __init__(self, message: str, line: int, *, refused: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.refused = refused


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The value of one YAML text.

    `lines` has the line of each top-level key. If a key is repeated, its first value counts; the
    second is in `repeated`, with its line.
    """

    value: Any
    lines: dict[str, int]
    repeated: tuple[tuple[str, int], ...] = ()


def load(text: str, *, first_line: int = 1) -> Document:
    """Read one document; line numbers count from `first_line`."""
    builder = _Builder(first_line)
    _feed(text, builder.handlers(), first_line)
    return Document(value=builder.root, lines=builder.lines, repeated=tuple(builder.repeated))


def lines_of(text: str, *, first_line: int = 1) -> dict[YamlPath, int]:
    """Return the line where each value starts, by path. Parses again, so only for messages."""
    finder = _LineFinder(first_line)
    with suppress(YamlError):
        _feed(text, finder.handlers(), first_line)
    return finder.lines


_Handlers = dict[type, Callable[[Any], None]]


def _feed(text: str, handlers: _Handlers, first_line: int) -> None:
    parser = _Parser(text)
    try:
        event = parser.get_event()
        while type(event) is not StreamEndEvent:
            handler = handlers.get(type(event))
            if handler is not None:
                handler(event)
            event = parser.get_event()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position or 0) + first_line
        raise YamlError(f"a character that YAML forbids: {error.reason}", line) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = (mark.line if mark else 0) + first_line
        context = f" ({error.context})" if error.context else ""
        raise YamlError(f"{error.problem or 'not valid YAML'}{context}", line) from None
    finally:
        parser.dispose()


class _Builder:
    """Builds plain values from events; `_keys` holds the pending key of each open mapping."""

    def __init__(self, first_line: int) -> None:
        self.root: Any = None
        self.lines: dict[str, int] = {}
        self.repeated: list[tuple[str, int]] = []
        self._first_line = first_line
        self._open: list[tuple[Any, str | None]] = []
        self._current: Any = None
        self._key: str | None = None
        self._key_line = 0
        self._documents = 0

    def handlers(self) -> _Handlers:
        return {
            ScalarEvent: self._scalar,
            MappingStartEvent: self._mapping,
            SequenceStartEvent: self._sequence,
            MappingEndEvent: self._close,
            SequenceEndEvent: self._close,
            AliasEvent: self._alias,
            DocumentStartEvent: self._document,
        }

    def _scalar(self, event: Any) -> None:
        if event.anchor is not None or event.tag is not None:
            self._refuse_decoration(event)
        if type(self._current) is dict and self._key is None:
            self._key, self._key_line = event.value, event.start_mark.line
            if len(self._open) == 1:
                self.lines.setdefault(event.value, event.start_mark.line + self._first_line)
        else:
            self._put(plain_scalar(event.value) if event.implicit[0] else event.value)

    def _put(self, value: Any) -> None:
        current = self._current
        if type(current) is dict:
            key, self._key = self._key, None
            if key in current:
                self.repeated.append((str(key), self._key_line + self._first_line))
            else:
                current[key] = value
        elif current is None:
            self.root = value
        else:
            current.append(value)

    def _mapping(self, event: Any) -> None:
        self._enter({}, event)

    def _sequence(self, event: Any) -> None:
        self._enter([], event)

    def _enter(self, value: dict[str, Any] | list[Any], event: Any) -> None:
        if event.anchor is not None or event.tag is not None:
            self._refuse_decoration(event)
        if type(self._current) is dict and self._key is None:
            raise self._refusal("a mapping key must be plain text", event)
        if len(self._open) >= _MAX_DEPTH:
            raise self._refusal(f"nested deeper than {_MAX_DEPTH} levels", event)
        self._put(value)
        self._open.append((self._current, self._key))
        self._current, self._key = value, None

    def _close(self, _: Any) -> None:
        self._current, self._key = self._open.pop()

    def _alias(self, event: Any) -> None:
        raise self._refusal("aliases are not allowed", event)

    def _document(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            raise self._refusal("only one YAML document is allowed", event)

    def _refuse_decoration(self, event: Any) -> None:
        what = "anchors" if event.anchor is not None else f"tags ({event.tag})"
        raise self._refusal(f"{what} are not allowed", event)

    def _refusal(self, message: str, event: Any) -> YamlError:
        return YamlError(message, event.start_mark.line + self._first_line, refused=True)


class _LineFinder:
    """Follows events with the path of the value being read, and notes where each one starts."""

    def __init__(self, first_line: int) -> None:
        self.lines: dict[YamlPath, int] = {}
        self._first_line = first_line
        self._path: list[str | int | None] = []  # None: the next event is a key of a mapping

    def handlers(self) -> _Handlers:
        return {
            ScalarEvent: self._scalar,
            MappingStartEvent: lambda event: self._enter(event, None),
            SequenceStartEvent: lambda event: self._enter(event, 0),
            MappingEndEvent: self._leave,
            SequenceEndEvent: self._leave,
        }

    def _scalar(self, event: Any) -> None:
        if self._path and self._path[-1] is None:
            self._path[-1] = event.value
            self._note(event)
        else:
            self._note(event)
            self._advance()

    def _enter(self, event: Any, first: int | None) -> None:
        self._note(event)
        self._path.append(first)

    def _leave(self, _: Any) -> None:
        self._path.pop()
        self._advance()

    def _advance(self) -> None:
        if self._path:
            last = self._path[-1]
            self._path[-1] = last + 1 if isinstance(last, int) else None

    def _note(self, event: Any) -> None:
        if len(self._path) <= _NOTED_DEPTH:
            path = tuple(part for part in self._path if part is not None)
            self.lines.setdefault(path, event.start_mark.line + self._first_line)
