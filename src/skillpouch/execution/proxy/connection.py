"""One connection of a tool to its proxy, from the first line to the last byte."""

import asyncio
import contextlib
import socket
from collections.abc import Callable

from skillpouch.execution.proxy.body import ChunkedBody, ChunkError, CountedBody
from skillpouch.execution.proxy.granted import Granted, RefusedHostError
from skillpouch.execution.proxy.passing import pass_both_ways, pass_one_request
from skillpouch.execution.proxy.request import BadRequestError, Forward, Tunnel, read_request
from skillpouch.execution.proxy.uplink import UnreachableError, Uplink

_LONGEST_HEAD = 65_536
_HEAD_SECONDS = 20.0  # for all of it: one that drips is not waited for
_PIECE_BYTES = 65_536
# How long, and for how much, an answer waits for a program that is still sending.
_LINGER_SECONDS = 1.0
_LINGER_BYTES = 1 << 20
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class Connection:
    """Serves one request, or one tunnel.

    `refuse` hears of each host that was not granted; a name is looked up in `turn`.
    """

    def __init__(
        self,
        client: socket.socket,
        granted: Granted,
        uplink: Uplink,
        refuse: Callable[[str], None],
        turn: asyncio.Semaphore | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._client = client
        self._server: socket.socket | None = None
        self._granted = granted
        self._uplink = uplink
        self._refuse = refuse
        self._turn = turn

    async def serve(self) -> None:
        """Return when the connection is closed, whatever either side did."""
        try:
            await self._answer()
        except* (OSError, ChunkError):
            # Either side has gone, has been silent for too long, or sends what is no chunk.
            self.close()
        finally:
            self.close()

    def hang_up(self) -> None:
        """End it at once, for both sides; its task closes it."""
        for side in (self._client, self._server):
            if side is not None:
                with contextlib.suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._client.close()
        if self._server is not None:
            self._server.close()

    async def _answer(self) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head, rest = await self._read_head()
            request = read_request(head)
            self._server = await self._uplink.dial(request.host, self._granted, self._turn)
        except BadRequestError as error:
            await self._say(400, str(error))
        except RefusedHostError as error:
            self._refuse(error.host)
            await self._say(403, str(error))
        except UnreachableError as error:
            await self._say(502, str(error))
        else:
            await self._pass_on(request, rest, self._server)

    async def _read_head(self) -> tuple[bytes, bytes]:
        """Return the lines up to the empty one, and what came behind it."""
        data = bytearray()
        while b"\r\n\r\n" not in data and len(data) <= _LONGEST_HEAD:
            piece = await self._loop.sock_recv(self._client, _PIECE_BYTES)
            if not piece:
                raise ConnectionResetError
            data += piece
        head, _, rest = bytes(data).partition(b"\r\n\r\n")
        if len(head) > _LONGEST_HEAD:
            raise BadRequestError("the head of the request is too long")
        return head, rest

    async def _pass_on(self, request: Tunnel | Forward, rest: bytes, server: socket.socket) -> None:
        if isinstance(request, Tunnel):
            await self._loop.sock_sendall(self._client, _ESTABLISHED)
            await pass_both_ways(self._client, server, rest)
            return
        await self._loop.sock_sendall(server, request.head)
        count = request.body_bytes
        body = ChunkedBody() if count is None else CountedBody(count)
        await pass_one_request(self._client, server, body, rest)

    async def _say(self, status: int, text: str) -> None:
        """Answer in words; they are the reason too, which programs show when a tunnel fails."""
        words = "".join(letter if " " <= letter <= "~" else "?" for letter in f"skillpouch: {text}")
        lines = (
            f"HTTP/1.1 {status} {words}",
            "Content-Type: text/plain",
            f"Content-Length: {len(words) + 1}",
            "Connection: close",
            "",
            f"{words}\n",
        )
        async with asyncio.timeout(_HEAD_SECONDS):
            await self._loop.sock_sendall(self._client, "\r\n".join(lines).encode())
        self._client.shutdown(socket.SHUT_WR)
        async with asyncio.timeout(_LINGER_SECONDS):
            await self._drop_rest()

    async def _drop_rest(self) -> None:
        """Read what is still being sent: closing on it would take the answer back."""
        dropped = 0
        while dropped < _LINGER_BYTES:
            piece = await self._loop.sock_recv(self._client, _PIECE_BYTES)
            if not piece:
                return
            dropped += len(piece)
            await asyncio.sleep(0)
