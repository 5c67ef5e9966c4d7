"""MCP over standard input and output: one client, one message a line."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
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

from skillpouch.servers.mcp.lines import Writer, lines_of, own_streams, reader_of

# A client that closed its end waits about this long before it ends the server.
_GRACE_SECONDS = 1.5

Incoming = MemoryObjectReceiveStream[SessionMessage | Exception]
Outgoing = MemoryObjectSendStream[SessionMessage]


class StdioLine:
    """The client at the other end. What it has asked is answered before its end is an end."""

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
            await writer.write(_complaint("that is no JSON-RPC message"))
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
        """Answer what was asked before the end, unless nobody is there to hear it."""
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
