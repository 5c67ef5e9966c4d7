"""MCP over standard streams: one message per line, and nothing else."""

import asyncio
import os
import selectors
import stat
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage
from mcp_types import (
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCRequest,
    JSONRPCResponse,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

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
        """Wait until all that was written has been read, then close."""
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


# A client that closed its end waits about this long before it ends the server.
_GRACE_SECONDS = 1.5

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


class StdioLine:
    """The client at the other end. Its open requests are answered even after it closed its end."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._open: set[str | int | None] = set()  # requests that were not answered yet
        self._idle = asyncio.Event()
        self._idle.set()

    @asynccontextmanager
    async def streams(self) -> AsyncIterator[tuple[Incoming, Outgoing]]:
        """Serve the standard streams of this process while inside."""
        arriving, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, leaving = anyio.create_memory_object_stream[SessionMessage](0)
        with own_streams() as (stdin, stdout):
            writer = Writer(stdout)
            await writer.open()
            async with reader_of(stdin) as reader:
                tasks = (
                    asyncio.create_task(self._read(reader, arriving, writer)),
                    asyncio.create_task(self._write(leaving, writer)),
                )
                try:
                    yield read, write
                finally:
                    await _end(*tasks)
                    await writer.close()
                    for stream in (arriving, read, write, leaving):
                        stream.close()

    async def _read(
        self,
        reader: asyncio.StreamReader,
        arriving: MemoryObjectSendStream[SessionMessage | Exception],
        writer: Writer,
    ) -> None:
        async with arriving:
            try:
                async for line in lines_of(reader, self._most_bytes):
                    if line is None or line.strip():
                        await self._take(line, arriving, writer)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                return
            await self._finish(writer)

    async def _take(
        self,
        line: bytes | None,
        arriving: MemoryObjectSendStream[SessionMessage | Exception],
        writer: Writer,
    ) -> None:
        if line is None:
            await writer.write(_complaint(f"a message has more than {self._most_bytes:,} bytes"))
            return
        try:
            message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        except (ValidationError, ValueError, RecursionError):
            await writer.write(_complaint("that is not a JSON-RPC message"))
            return
        if isinstance(message, JSONRPCRequest):
            self._open.add(message.id)
            self._idle.clear()
        await arriving.send(SessionMessage(message))

    async def _write(
        self, leaving: MemoryObjectReceiveStream[SessionMessage], writer: Writer
    ) -> None:
        async with leaving:
            async for sent in leaving:
                message = sent.message
                text = message.model_dump_json(by_alias=True, exclude_unset=True)
                await writer.write(text.encode("utf-8", "replace"))
                if isinstance(message, JSONRPCResponse | JSONRPCError):
                    self._open.discard(message.id)
                    if not self._open:
                        self._idle.set()

    async def answered(self) -> None:
        """Wait until every request has its answer, for a moment at most."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_GRACE_SECONDS):
                await self._idle.wait()

    async def _finish(self, writer: Writer) -> None:
        """Answer the requests that are open, unless nobody reads the answers any more."""
        waiting = [asyncio.create_task(each) for each in (self.answered(), _set(writer.gone))]
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        await _end(*waiting)


def _complaint(reason: str) -> bytes:
    error = ErrorData(code=PARSE_ERROR, message=reason)
    return JSONRPCError(jsonrpc="2.0", id=None, error=error).model_dump_json(by_alias=True).encode()


async def _set(event: asyncio.Event) -> None:
    await event.wait()


async def _end(*tasks: "asyncio.Task[Any]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
