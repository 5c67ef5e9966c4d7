"""Standard input and output as a line of messages, which nothing else can write on or read from."""

import asyncio
import os
import selectors
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

_CHUNK = 65_536


@contextmanager
def own_streams() -> Iterator[tuple[int, int]]:
    """Return descriptors of standard input and output that are ours alone, while inside.

    Meanwhile 0 is empty and 1 is standard error: what anything else in this process prints, or a
    program that it starts, never gets between the messages.
    """
    ours = (os.dup(0), os.dup(1))
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        yield ours
    finally:
        for number, descriptor in enumerate(ours):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(nothing)


@asynccontextmanager
async def reader_of(descriptor: int) -> AsyncIterator[asyncio.StreamReader]:
    """Read a pipe, socket or terminal as it comes, or a file (also /dev/null) as it is."""
    reader = asyncio.StreamReader()
    if not _can_be_waited_for(descriptor):
        with os.fdopen(os.dup(descriptor), "rb") as file:
            reader.feed_data(await asyncio.to_thread(file.read))
        reader.feed_eof()
        yield reader
        return
    loop = asyncio.get_running_loop()
    pipe = os.fdopen(os.dup(descriptor), "rb", buffering=0)
    transport, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), pipe)
    try:
        yield reader
    finally:
        transport.close()
        _block(descriptor)


def _can_be_waited_for(descriptor: int) -> bool:
    """Tell whether a descriptor ever has to be waited for: epoll_ctl(2) refuses others."""
    with selectors.DefaultSelector() as selector:
        try:
            selector.register(descriptor, selectors.EVENT_READ)
        except PermissionError:
            return False
    return not stat.S_ISREG(os.fstat(descriptor).st_mode)


async def lines_of(reader: asyncio.StreamReader, most_bytes: int) -> AsyncIterator[bytes | None]:
    """Yield lines without their ends; None stands for one of more than `most_bytes`."""
    pending, skipping = bytearray(), False
    while chunk := await reader.read(_CHUNK):
        # Only what is new is looked through: a long line comes in hundreds of pieces.
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            pending += end
            yield None if skipping or len(pending) > most_bytes else bytes(pending)
            pending, skipping = bytearray(), False
        pending += rest
        skipping = skipping or len(pending) > most_bytes
        if skipping:
            pending = bytearray()
    if pending:
        yield bytes(pending)


class Writer:
    """Writes lines to a pipe, socket or file. `gone` is set when nobody reads any more."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._file = os.fdopen(os.dup(descriptor), "wb", buffering=0)
        self._stream: asyncio.StreamWriter | None = None
        self.gone = asyncio.Event()

    async def open(self) -> None:
        if stat.S_ISREG(os.fstat(self._descriptor).st_mode):
            return
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        transport, protocol = await loop.connect_write_pipe(
            lambda: _Protocol(reader, self.gone), self._file
        )
        self._stream = asyncio.StreamWriter(transport, protocol, reader, loop)

    async def write(self, line: bytes) -> None:
        """Write a line, and wait while the reader is slow; do nothing once it has gone."""
        if self._stream is None:
            self._file.write(line + b"\n")
        elif not self.gone.is_set():
            self._stream.write(line + b"\n")
            try:
                await self._stream.drain()
            except ConnectionError:
                self.gone.set()

    async def close(self) -> None:
        """Wait until what was written has been read, and let go."""
        if self._stream is None:
            self._file.close()
        else:
            self._stream.close()
        _block(self._descriptor)


class _Protocol(asyncio.StreamReaderProtocol):
    def __init__(self, reader: asyncio.StreamReader, gone: asyncio.Event) -> None:
        super().__init__(reader)
        self._gone = gone

    def connection_lost(self, exc: Exception | None) -> None:
        self._gone.set()
        super().connection_lost(exc)


def _block(descriptor: int) -> None:
    """Give the stream back as it was: others may hold it, such as a shell its terminal."""
    os.set_blocking(descriptor, True)
