"""The body of an answer on its way in: unpacked, counted, redacted, kept and shown."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, Protocol

import httpcore2

from skillpouch.json_values import NO_VALUE, json_value
from skillpouch.net.http.decoding import Recoder, unpacker_for
from skillpouch.net.http.errors import ExchangeError
from skillpouch.net.http.pieces import Cutter, cutter_for
from skillpouch.net.http.shapes import MOST_EVENTS, Shape

_LARGEST_VALUE = 1024 * 1024


class Filter(Protocol):
    """What text goes through before anybody sees or keeps it."""

    def feed(self, data: bytes) -> bytes: ...
    def close(self) -> bytes: ...


class Keep(Protocol):
    """What keeps text, as much of it as is wanted."""

    def add(self, piece: bytes) -> None: ...


@dataclass(slots=True, kw_only=True)
class Received:
    """What there is of a body so far. `whole` is all of it, until that is too much for a value."""

    total_bytes: int = 0
    whole: bytearray = field(default_factory=bytearray)
    is_whole: bool = True
    values: list[Any] = field(default_factory=list)
    events: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sink:
    """Where a body goes: `keep` for the result, `show` piece by piece while it comes."""

    keep: Keep
    shape: Shape
    most_bytes: int
    new_filter: Callable[[], Filter] | None = None
    show: Callable[[bytes], None] | None = None


class Receiver:
    """Takes the bytes of one answer; `done` when its declaration says that it has seen enough."""

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
                raise ExchangeError("output_limit", f"it answered more than {most} bytes")
            self._clear(self._recoder.feed(piece))
            if self.done:
                return

    def close(self) -> None:
        """Take what was held back; raise ExchangeError when the end is missing."""
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
            raise ExchangeError("output_limit", f"it sent more than {MOST_EVENTS:,} pieces")

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
    """Read a body to its end, or until it is enough; raise ExchangeError when it breaks off."""
    try:
        # Watching the clock at every piece costs time: only where somebody declared it.
        stream = response.aiter_stream()
        async with aclosing(stream if idle is None else _watched(stream, idle)) as pieces:
            async for piece in pieces:
                receiver.feed(piece)
                if receiver.done:
                    return
    except (httpcore2.NetworkError, httpcore2.ProtocolError) as error:
        how = str(error) or type(error).__name__
        raise ExchangeError("cut_off", f"the answer broke off: {how}") from None
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
            raise ExchangeError("idle_timeout", f"nothing came for {idle:g} s") from None
        yield piece
