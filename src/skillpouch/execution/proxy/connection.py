"""ProxyConnection: reads one request and its body strictly, checks its host, and passes it on."""

import asyncio
import contextlib
import re
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass

from skillpouch.execution.proxy.allowlist import Allowlist, RefusedHostError
from skillpouch.execution.proxy.dialer import Dialer, UnreachableError
from skillpouch.net.hosts import Host, HostError, read_host

# A size in hexadecimal digits and extensions, RFC 9112, 7.1. Fifteen digits are less than 2**63: so
# no server behind this proxy can overflow and read a smaller number.
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\Z")
_LONGEST_LINE = 4_096  # of a chunk size or a trailer; real ones are a few bytes long
_MOST_TRAILERS = 64  # read and dropped, as RFC 9110, 6.5.1 allows


class ChunkError(ValueError):
    """The body is not a sequence of chunks."""


class CountedBody:
    """A body with a Content-Length."""

    def __init__(self, count: int) -> None:
        self._left = count

    @property
    def is_done(self) -> bool:
        return not self._left

    def feed(self, data: bytes) -> bytes:
        """Return the part to forward; bytes after the end of the body are dropped."""
        passed = data[: self._left]
        self._left -= len(passed)
        return passed


class ChunkedBody:
    """A body with chunked transfer encoding.

    Takes pieces of any size, returns the same chunks without extensions and trailers.
    """

    def __init__(self) -> None:
        self._line = b""
        self._left = 0  # bytes left of the current chunk, including the line end after it
        self._trailers = -1  # lines seen after the last chunk; -1 before it
        self.is_done = False

    def feed(self, data: bytes) -> bytes:
        """Return the part to forward; bytes after the end of the body are dropped."""
        passed = bytearray()
        while data and not self.is_done:
            if self._left > 2:  # noqa: PLR2004 - the line end is checked by _take_line
                piece, data = data[: self._left - 2], data[self._left - 2 :]
                self._left -= len(piece)
                passed += piece
            else:
                data = self._take_line(data, passed)
        return bytes(passed)

    def _take_line(self, data: bytes, passed: bytearray) -> bytes:
        line, ending, data = (self._line + data).partition(b"\n")
        if not ending:
            if len(line) > _LONGEST_LINE:
                raise ChunkError("a line between chunks is too long")
            self._line = line
            return b""
        self._line = b""
        if not line.endswith(b"\r"):
            # A server might accept a bare line feed as a line end where this proxy does not.
            raise ChunkError("a line between chunks ends without a return")
        self._read_line(line[:-1], passed)
        return data

    def _read_line(self, line: bytes, passed: bytearray) -> None:
        if self._trailers >= 0:
            self._read_trailer(line, passed)
        elif self._left:
            if line:
                raise ChunkError("a chunk is longer than its size says")
            self._left = 0
            passed += b"\r\n"
        else:
            self._read_size(line, passed)

    def _read_size(self, line: bytes, passed: bytearray) -> None:
        size = _SIZE.match(line)
        if size is None:
            raise ChunkError("the size of a chunk cannot be read")
        count = int(size[1], 16)
        passed += b"%x\r\n" % count
        if count:
            self._left = count + 2
        else:
            self._trailers = 0

    def _read_trailer(self, line: bytes, passed: bytearray) -> None:
        self._trailers += 1
        if self._trailers > _MOST_TRAILERS:
            raise ChunkError("there is too much after the last chunk")
        if not line:
            passed += b"\r\n"
            self.is_done = True


# Without a byte in either direction; usually the time limit of the call comes first.
_IDLE_SECONDS = 300.0
_PIECE_BYTES = 65_536  # read at once


async def pass_both_ways(client: socket.socket, server: socket.socket, first: bytes) -> None:
    """Copy bytes both ways; `first` is what the client has already sent."""
    async with asyncio.timeout(_IDLE_SECONDS) as idle, asyncio.TaskGroup() as group:
        group.create_task(_copy(server, client, idle))
        await asyncio.get_running_loop().sock_sendall(server, first)
        await _copy(client, server, idle)


async def pass_one_request(
    client: socket.socket, server: socket.socket, body: CountedBody | ChunkedBody, first: bytes
) -> None:
    """Send one body and return the server's answer, until the server closes the connection."""
    async with asyncio.timeout(_IDLE_SECONDS) as idle, asyncio.TaskGroup() as group:
        sending = group.create_task(_send_body(client, server, body, first, idle))
        await _copy(server, client, idle)
        sending.cancel()  # a server may answer before it has read the whole body


async def _copy(source: socket.socket, sink: socket.socket, idle: asyncio.Timeout) -> None:
    """Copy until the end, then close the other side for writing."""
    loop = asyncio.get_running_loop()
    buffer = bytearray(_PIECE_BYTES)
    view = memoryview(buffer)
    while count := await loop.sock_recv_into(source, buffer):
        await loop.sock_sendall(sink, view[:count])
        idle.reschedule(loop.time() + _IDLE_SECONDS)
        # If both sides are fast, nothing above suspends: let other tasks of the loop run.
        await asyncio.sleep(0)
    sink.shutdown(socket.SHUT_WR)


async def _send_body(
    client: socket.socket,
    server: socket.socket,
    body: CountedBody | ChunkedBody,
    piece: bytes,
    idle: asyncio.Timeout,
) -> None:
    """Send the one body; bytes after it are ignored."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(server, body.feed(piece))
    while not body.is_done:
        piece = await loop.sock_recv(client, _PIECE_BYTES)
        if not piece:
            raise ConnectionResetError
        await loop.sock_sendall(server, body.feed(piece))
        idle.reschedule(loop.time() + _IDLE_SECONDS)
        await asyncio.sleep(0)


# Stricter than RFC 9112 on purpose: a request that two programs could read differently is refused,
# so that no second request can be hidden in it (11.2, request smuggling).
_LINE = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]{1,32}) ([!-~]+) HTTP/1\.([01])\Z")
_ABSOLUTE = re.compile(r"http://([^/?#\\@]+)(/[^#]*|\?[^#]*)?\Z", re.IGNORECASE)
_HEADER = re.compile(rb"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([\t\x20-\x7e\x80-\xff]*)\Z")
_LENGTH = re.compile(rb"[0-9]{1,18}\Z")  # less than 2**63
_HTTP_PORT = 80
# Headers for one connection only, RFC 9110, 7.6.1, and those that this proxy writes itself: the
# host and the length of the body.
_NOT_PASSED_ON = frozenset(
    {
        *(b"connection", b"proxy-connection", b"keep-alive", b"te", b"trailer", b"upgrade"),
        *(b"proxy-authenticate", b"proxy-authorization", b"host"),
        *(b"content-length", b"transfer-encoding"),
    }
)

Headers = list[tuple[bytes, bytes]]


class BadRequestError(ValueError):
    """A request is not valid, or ambiguous."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tunnel:
    """A CONNECT request: bytes both ways, to a host and port."""

    host: Host


@dataclass(frozen=True, slots=True, kw_only=True)
class Forward:
    """One request, as it is forwarded; `body_bytes` is None for a chunked body."""

    host: Host
    head: bytes
    body_bytes: int | None


def read_request(head: bytes) -> Tunnel | Forward:
    """Parse the head of a request, without the empty line at its end.

    Raises:
        BadRequestError: it is not a valid request, or ambiguous.
    """
    first, *lines = head.split(b"\r\n")
    line = _LINE.match(first)
    if line is None:
        raise BadRequestError("this is not a request of HTTP/1.1")
    method, target = line[1], line[2].decode()
    headers = [_read_header(text) for text in lines]
    if method == b"CONNECT":
        host = _read_host(target)
        if host.port is None:
            raise BadRequestError("CONNECT needs a port")
        return Tunnel(host=host)
    host, path = _read_target(target)
    start = b"%b %b HTTP/1.%b" % (method, path.encode(), line[3])
    if line[3] == b"0" and _values(headers, b"transfer-encoding"):
        # HTTP/1.0 has no chunks, so the end of the body would be unclear, RFC 9112, 6.1.
        raise BadRequestError("HTTP/1.0 has no Transfer-Encoding")
    return _forward(host, start, headers)


def _read_header(text: bytes) -> tuple[bytes, bytes]:
    header = _HEADER.match(text)
    if header is None:
        raise BadRequestError("a header cannot be read")
    return header[1], header[2].rstrip(b" \t")


def _read_host(text: str) -> Host:
    try:
        host = read_host(text)
    except HostError as error:
        raise BadRequestError(str(error)) from None
    if "*" in host.name:
        raise BadRequestError(f"{text!r:.80} is not one host")
    return host


def _read_target(target: str) -> tuple[Host, str]:
    absolute = _ABSOLUTE.match(target)
    if absolute is None:
        raise BadRequestError("this is a proxy: ask for http://HOST/PATH or CONNECT HOST:PORT")
    host = _read_host(absolute[1])
    path = absolute[2] or "/"
    port = host.port or _HTTP_PORT
    return Host(host.name, port, is_address=host.is_address), path if path[0] == "/" else f"/{path}"


def _forward(host: Host, start: bytes, headers: Headers) -> Forward:
    body_bytes = _body_bytes(headers)
    named = {
        word.strip().lower() for word in b",".join(_values(headers, b"connection")).split(b",")
    }
    kept = [
        b"%b: %b" % (name, value)
        for name, value in headers
        if name.lower() not in _NOT_PASSED_ON | named
    ]
    shown = str(host).removesuffix(":80").encode()
    if body_bytes is None:
        kept.append(b"Transfer-Encoding: chunked")
    elif _values(headers, b"content-length"):
        kept.append(b"Content-Length: %d" % body_bytes)
    lines = [start, b"Host: %b" % shown, *kept, b"Connection: close", b"", b""]
    return Forward(host=host, head=b"\r\n".join(lines), body_bytes=body_bytes)


def _body_bytes(headers: Headers) -> int | None:
    lengths = _values(headers, b"content-length")
    codings = _values(headers, b"transfer-encoding")
    if codings:
        if lengths or [coding.lower() for coding in codings] != [b"chunked"]:
            raise BadRequestError("the length of the body is ambiguous")
        return None
    if not lengths:
        return 0
    if len(lengths) > 1 or not _LENGTH.match(lengths[0]):
        raise BadRequestError("the length of the body is ambiguous")
    return int(lengths[0])


def _values(headers: Headers, wanted: bytes) -> list[bytes]:
    return [value for name, value in headers if name.lower() == wanted]


_LONGEST_HEAD = 65_536  # bytes; servers commonly accept 8 to 64 KiB
# For the whole head: a slow client occupies a connection of the limit meanwhile.
_HEAD_SECONDS = 20.0

# How long, and up to how many bytes, the proxy reads on after an error answer (see `_drop_rest`).
_LINGER_SECONDS = 1.0
_LINGER_BYTES = 1 << 20
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"


class ProxyConnection:
    """Serves one request, or one tunnel; with `relays`, bytes both ways to that host.

    `refuse` is called with each host that was not granted; `turn` limits name lookups at a time.
    """

    def __init__(
        self,
        client: socket.socket,
        granted: Allowlist,
        dialer: Dialer,
        refuse: Callable[[str], None],
        turn: asyncio.Semaphore | None = None,
        relays: Host | None = None,
    ) -> None:
        self._relays = relays
        self._loop = asyncio.get_running_loop()
        self._client = client
        self._server: socket.socket | None = None
        self._granted = granted
        self._dialer = dialer
        self._refuse = refuse
        self._turn = turn

    async def serve(self) -> None:
        """Serve until the connection is closed, whatever either side does."""
        try:
            await (self._answer() if self._relays is None else self._relay(self._relays))
        except* (OSError, ChunkError):
            # Either side is gone, was silent for too long, or sent an invalid body.
            self.close()
        finally:
            self.close()

    def hang_up(self) -> None:
        """Shut down both sides at once; the task of `serve` closes them."""
        for side in (self._client, self._server):
            if side is not None:
                with contextlib.suppress(OSError):
                    side.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._client.close()
        if self._server is not None:
            self._server.close()

    async def _relay(self, host: Host) -> None:
        try:
            self._server = await self._dialer.dial(host, self._granted, self._turn)
        except (RefusedHostError, UnreachableError):
            # Reset, socket(7): there is no other way to say that nobody is there.
            self._client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            return
        await pass_both_ways(self._client, self._server, b"")

    async def _answer(self) -> None:
        try:
            async with asyncio.timeout(_HEAD_SECONDS):
                head, rest = await self._read_head()
            request = read_request(head)
            self._server = await self._dialer.dial(request.host, self._granted, self._turn)
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
        """Return the head up to the empty line, and the bytes after it."""
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
        """Answer with a text, also as the reason phrase, which programs show when CONNECT fails."""
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
        """Read and drop what the client is still sending.

        Closing a socket with unread data resets the connection, and the answer may be lost with it,
        RFC 9112, 9.6.
        """
        dropped = 0
        while dropped < _LINGER_BYTES:
            piece = await self._loop.sock_recv(self._client, _PIECE_BYTES)
            if not piece:
                return
            dropped += len(piece)
            await asyncio.sleep(0)
