"""Receives an answer in bounded pieces, and decompresses it in small steps."""

import asyncio
import codecs
import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpcore2

from skillpouch.json_values import NO_VALUE, json_value
from skillpouch.net.http.guard import ExchangeError
from skillpouch.net.http.plan import MOST_EVENTS, Shape

# Compressed data may expand a thousand times: at most this many bytes are unpacked at once.
_PIECE_BYTES = 64 * 1024
_EITHER = 32 + zlib.MAX_WBITS  # gzip or zlib, detected by the first bytes
_CHARSET = re.compile(r"charset\s*=\s*\"?([A-Za-z0-9_.:-]+)", re.IGNORECASE)
# Text encodings only: `codecs` also has compressors, and encodings that take quadratic time.
_TEXT = (
    "iso8859",
    "cp",
    "utf-16",
    "utf-32",
    "shift",
    "euc",
    "gb",
    "big5",
    "koi8",
    "mac",
    "iso2022",
)


class Unpacker(Protocol):
    """Takes compressed bytes and yields decompressed pieces of bounded size."""

    def feed(self, data: bytes) -> Iterator[bytes]: ...

    def close(self) -> None:
        """Raise ExchangeError when the data is incomplete."""


class _Plain:
    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data

    def close(self) -> None:
        return


class _Inflating:
    """gzip, also of several members, and deflate with or without its header."""

    def __init__(self, *, may_be_raw: bool) -> None:
        self._inflate = zlib.decompressobj(_EITHER)
        self._may_be_raw = may_be_raw
        self._is_new = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            piece = self._step(data)
            self._is_new = False
            if piece:
                yield piece
            data = self._inflate.unconsumed_tail
            if self._inflate.eof:
                # Some servers pad the end with zeros.
                data = self._inflate.unused_data.lstrip(b"\0")
                if data:
                    self._inflate, self._is_new = zlib.decompressobj(_EITHER), True

    def _step(self, data: bytes) -> bytes:
        try:
            return self._inflate.decompress(data, _PIECE_BYTES)
        except zlib.error as error:
            if not (self._may_be_raw and self._is_new):
                raise ExchangeError("encoding", f"it cannot be unpacked: {error}") from None
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        self._may_be_raw = False
        return self._step(data)

    def close(self) -> None:
        if not self._inflate.eof and not self._is_new:
            raise ExchangeError("encoding", "it was cut off: the compressed data has no end")


def unpacker_for(encoding: str) -> Unpacker:
    """Return the unpacker of an encoding; raise ExchangeError for one that was not asked for."""
    match encoding.strip().lower():
        case "" | "identity":
            return _Plain()
        case "gzip" | "x-gzip":
            return _Inflating(may_be_raw=False)
        case "deflate":
            return _Inflating(may_be_raw=True)
        case _:
            raise ExchangeError(
                "encoding", f"it is compressed as {encoding!r:.60}, which was not asked for"
            )


class Recoder:
    """Converts text in another encoding to UTF-8, in pieces of any size."""

    def __init__(self, content_type: str) -> None:
        self._decoder = _decoder(content_type)

    def feed(self, data: bytes, *, final: bool = False) -> bytes:
        if self._decoder is None:
            return data
        return self._decoder.decode(data, final).encode("utf-8", "replace")


def _decoder(content_type: str) -> codecs.IncrementalDecoder | None:
    match = _CHARSET.search(content_type)
    try:
        name = codecs.lookup(match[1]).name if match else "utf-8"
    except LookupError:
        return None
    return codecs.getincrementaldecoder(name)("replace") if name.startswith(_TEXT) else None


_LONGEST = 1024 * 1024


class Cutter(Protocol):
    """Cuts a stream, which comes in pieces of any size, into lines or events."""

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
        self._rest += first  # only new bytes are searched for line ends: pieces may be tiny
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
        return iter(())  # an event without its empty line at the end does not count


def cutter_for(shape: Shape) -> Cutter:
    """Return the cutter for an answer of this shape."""
    if shape.mode == "sse":
        return _Events(shape.event)
    return _Full() if shape.mode == "ndjson" else _Lines()


_LARGEST_VALUE = 1024 * 1024


class TextFilter(Protocol):
    """Filters text before it is shown or kept."""

    def feed(self, data: bytes) -> bytes: ...
    def close(self) -> bytes: ...


class Keep(Protocol):
    """Keeps text up to a limit of its own."""

    def add(self, piece: bytes) -> None: ...


@dataclass(slots=True, kw_only=True)
class Received:
    """The body so far. `whole` is all of it, while it is small enough to be parsed as a value."""

    total_bytes: int = 0
    whole: bytearray = field(default_factory=bytearray)
    is_whole: bool = True
    values: list[Any] = field(default_factory=list)
    events: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Where a body goes: `keep` collects the result, `show` gets each piece as it arrives."""

    keep: Keep
    shape: Shape
    most_bytes: int
    new_filter: Callable[[], TextFilter] | None = None
    show: Callable[[bytes], None] | None = None


class Receiver:
    """Takes the bytes of one answer; `done` when the declared end was reached."""

    def __init__(self, sink: Sink, *, encoding: str, content_type: str) -> None:
        self.received = Received()
        self.done = False
        self._sink = sink
        self._unpacker = unpacker_for(encoding)
        self._recoder = Recoder(content_type)
        self._filter = sink.new_filter() if sink.new_filter else None
        self._cutter: Cutter | None = None
        if sink.shape.mode != "buffered":
            self._cutter = cutter_for(sink.shape)

    def feed(self, data: bytes) -> None:
        for piece in self._unpacker.feed(data):
            self.received.total_bytes += len(piece)
            if self.received.total_bytes > self._sink.most_bytes:
                most = f"{self._sink.most_bytes:,}"
                raise ExchangeError("output_limit", f"the answer has more than {most} bytes")
            self._clear(self._recoder.feed(piece))
            if self.done:
                return

    def close(self) -> None:
        """Process what was held back; raise ExchangeError when the end is missing."""
        if self.done:
            return
        self._clear(self._recoder.feed(b"", final=True))
        if self._filter is not None:
            self._take(self._filter.close())
        if self._cutter is not None:
            for piece in self._cutter.close():
                self._event(piece)
        self._unpacker.close()

    def _clear(self, data: bytes) -> None:
        self._take(self._filter.feed(data) if self._filter is not None else data)

    def _take(self, data: bytes) -> None:
        if self._cutter is None:
            self._keep(data)
            return
        for piece in self._cutter.feed(data):
            self._event(piece)
            if self.done:
                return

    def _event(self, piece: str) -> None:
        shape = self._sink.shape
        if shape.until and piece.strip() == shape.until:
            self.done = True
            return
        self._keep(f"{piece}\n".encode())
        if shape.mode != "lines":
            value = json_value(piece)
            self.received.values.append(piece if value is NO_VALUE else value)
        self.received.events += 1
        self.done = self.received.events == shape.max_events
        if self.received.events > MOST_EVENTS:
            raise ExchangeError("output_limit", f"it sent more than {MOST_EVENTS:,} events")

    def _keep(self, data: bytes) -> None:
        if not data:
            return
        self._sink.keep.add(data)
        if self._sink.show is not None:
            self._sink.show(data)
        received = self.received
        if received.is_whole and len(received.whole) + len(data) <= _LARGEST_VALUE:
            received.whole += data
        else:
            received.is_whole = False
            received.whole.clear()
            received.values.clear()


async def receive(response: httpcore2.Response, receiver: Receiver, idle: float | None) -> None:
    """Read a body to its end, or until `receiver.done`; raise ExchangeError when it is cut off."""
    try:
        # A timeout for each piece costs time, so it is set only when one is declared.
        stream = response.aiter_stream()
        async with aclosing(stream if idle is None else _watched(stream, idle)) as pieces:
            async for piece in pieces:
                receiver.feed(piece)
                if receiver.done:
                    return
    except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
        how = str(error) or type(error).__name__
        raise ExchangeError("cut_off", f"the answer was cut off: {how}") from None
    receiver.close()


async def _watched(stream: AsyncIterator[bytes], idle: float) -> AsyncGenerator[bytes]:
    while True:
        clock = asyncio.timeout(idle)
        try:
            async with clock:
                piece = await anext(stream)
        except StopAsyncIteration:
            return
        except TimeoutError:
            if not clock.expired():
                raise
            raise ExchangeError("idle_timeout", f"no data arrived for {idle:g} s") from None
        yield piece
