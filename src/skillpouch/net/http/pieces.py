"""Lines, JSON lines and server-sent events, cut out of a stream as they come."""

from collections.abc import Iterator
from typing import Protocol

from skillpouch.net.http.errors import ExchangeError
from skillpouch.net.http.shapes import Shape

_LONGEST = 1024 * 1024


class Cutter(Protocol):
    """Takes a stream in any pieces and gives its own."""

    def feed(self, data: bytes) -> Iterator[str]: ...
    def close(self) -> Iterator[str]: ...


class _Lines:
    r"""Lines that end with `\n`, `\r\n` or, for events, `\r`; empty ones count."""

    def __init__(self, *, old_ends: bool = False) -> None:
        self._rest = bytearray()
        self._old_ends = old_ends
        self._after_return = False

    def feed(self, data: bytes) -> Iterator[str]:
        data = self._with_new_ends(data) if self._old_ends else data
        first, *more = data.split(b"\n")
        self._rest += first  # what is already there is not looked at again: pieces may be tiny
        for line in more:
            yield self._line()
            self._rest += line
        if len(self._rest) > _LONGEST:
            raise ExchangeError("line_limit", f"a line is longer than {_LONGEST:,} bytes")

    def _with_new_ends(self, data: bytes) -> bytes:
        if self._after_return and data:
            data = data.removeprefix(b"\n")
            self._after_return = False
        self._after_return = self._after_return or data.endswith(b"\r")
        return data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")

    def _line(self) -> str:
        line = bytes(self._rest).removesuffix(b"\r").decode("utf-8", "replace")
        self._rest.clear()
        return line

    def close(self) -> Iterator[str]:
        if self._rest:
            yield self._line()


class _Full:
    """Lines without the empty ones."""

    def __init__(self) -> None:
        self._lines = _Lines()

    def feed(self, data: bytes) -> Iterator[str]:
        return filter(str.strip, self._lines.feed(data))

    def close(self) -> Iterator[str]:
        return filter(str.strip, self._lines.close())


class _Events:
    """The data of server-sent events, as the HTML standard reads them."""

    def __init__(self, wanted: str) -> None:
        self._lines = _Lines(old_ends=True)
        self._wanted = wanted
        self._is_first = True
        self._forget()

    def _forget(self) -> None:
        self._name, self._data, self._size = "", list[str](), 0

    def feed(self, data: bytes) -> Iterator[str]:
        for line in self._lines.feed(data):
            if self._is_first:
                line = line.removeprefix("\ufeff")  # noqa: PLW2901
                self._is_first = False
            if line:
                self._take(line)
            elif self._data and self._wanted in ("", self._name or "message"):
                whole = "\n".join(self._data)
                self._forget()
                yield whole
            else:
                self._forget()

    def _take(self, line: str) -> None:
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            self._data.append(value)
            self._size += len(value)
        elif field == "event":
            self._name = value
        if self._size > _LONGEST:
            raise ExchangeError("line_limit", f"an event is longer than {_LONGEST:,} characters")

    def close(self) -> Iterator[str]:
        return iter(())  # an event that was not ended does not count


def cutter_for(shape: Shape) -> Cutter:
    """Return what cuts a stream of this shape."""
    if shape.mode == "sse":
        return _Events(shape.event)
    return _Full() if shape.mode == "ndjson" else _Lines()
