"""Passes bytes between a tool and a server until either is done or both are silent."""

import asyncio
import socket

from skillpouch.execution.proxy.body import ChunkedBody, CountedBody

_IDLE_SECONDS = 300.0  # without a byte either way; the timeout of a call is mostly earlier
_PIECE_BYTES = 65_536


async def pass_both_ways(client: socket.socket, server: socket.socket, first: bytes) -> None:
    """Be a tunnel; `first` is what the client has sent already."""
    async with asyncio.timeout(_IDLE_SECONDS) as idle, asyncio.TaskGroup() as group:
        group.create_task(_copy(server, client, idle))
        await asyncio.get_running_loop().sock_sendall(server, first)
        await _copy(client, server, idle)


async def pass_one_request(
    client: socket.socket, server: socket.socket, body: CountedBody | ChunkedBody, first: bytes
) -> None:
    """Send one body and give back what the server answers, until it closes the connection."""
    async with asyncio.timeout(_IDLE_SECONDS) as idle, asyncio.TaskGroup() as group:
        sending = group.create_task(_send_body(client, server, body, first, idle))
        await _copy(server, client, idle)
        sending.cancel()  # a server may answer before it has heard all


async def _copy(source: socket.socket, sink: socket.socket, idle: asyncio.Timeout) -> None:
    """Copy until the end, and pass that on too."""
    loop = asyncio.get_running_loop()
    buffer = bytearray(_PIECE_BYTES)
    view = memoryview(buffer)
    while count := await loop.sock_recv_into(source, buffer):
        await loop.sock_sendall(sink, view[:count])
        idle.reschedule(loop.time() + _IDLE_SECONDS)
        # Where both sides are quick nothing above waits, and everybody else would.
        await asyncio.sleep(0)
    sink.shutdown(socket.SHUT_WR)


async def _send_body(
    client: socket.socket,
    server: socket.socket,
    body: CountedBody | ChunkedBody,
    piece: bytes,
    idle: asyncio.Timeout,
) -> None:
    """Send the one body; whatever comes behind it is left unread."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(server, body.feed(piece))
    while not body.is_done:
        piece = await loop.sock_recv(client, _PIECE_BYTES)
        if not piece:
            raise ConnectionResetError
        await loop.sock_sendall(server, body.feed(piece))
        idle.reschedule(loop.time() + _IDLE_SECONDS)
        await asyncio.sleep(0)
