"""One connection, over sockets of this process: what a tool sends, what a server gets, and back."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator

import pytest

from skillpouch.execution.proxy import connection
from skillpouch.execution.proxy import connection as connection_module
from skillpouch.execution.proxy.allowlist import Allowlist
from skillpouch.execution.proxy.connection import ProxyConnection
from skillpouch.execution.proxy.dialer import Dialer

pytestmark = pytest.mark.slow

GRANTED = Allowlist(hosts=("example.com", "10.0.0.1"), skill="weather")


class Line:
    """A tool's end, a server's end, and the connection that is served between them."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.tool, client = socket.socketpair()
        self.server, self._dialled = socket.socketpair()
        self.ours = (client, self._dialled)
        for end in (self.tool, self.server, *self.ours):
            end.setblocking(False)
        self.refused: list[str] = []
        dialer = Dialer(most=1, resolve=self._resolve, connect=self._connect)
        serving = ProxyConnection(client, GRANTED, dialer, self.refused.append).serve()
        self.task = asyncio.ensure_future(serving)

    async def _resolve(self, name: str) -> list[str]:
        return {"example.com": ["93.184.216.34"]}[name]

    async def _connect(self, address: str, port: int) -> socket.socket:
        self.dialled = (address, port)
        return self._dialled

    async def send(self, *lines: str) -> None:
        await self.loop.sock_sendall(self.tool, "\r\n".join(lines).encode())

    async def read(self, end: socket.socket) -> bytes:
        """Read all there is until the other side closes."""
        data = b""
        while piece := await self.loop.sock_recv(end, 65_536):
            data += piece
        return data

    def close(self) -> None:
        self.task.cancel()
        for end in (self.tool, self.server, *self.ours):
            end.close()


@pytest.fixture
async def line() -> AsyncIterator[Line]:
    line = Line()
    yield line
    line.close()


def is_closed(line: Line) -> bool:
    return line.ours[0].fileno() == -1


async def test_a_tunnel_carries_bytes_both_ways_until_both_are_done(line: Line) -> None:
    await line.send("CONNECT example.com:443 HTTP/1.1", "", "early")
    assert await line.loop.sock_recv(line.tool, 100) == (
        b"HTTP/1.1 200 Connection established\r\n\r\n"
    )
    await line.loop.sock_sendall(line.tool, b" late")
    line.tool.shutdown(socket.SHUT_WR)
    assert await line.read(line.server) == b"early late"
    await line.loop.sock_sendall(line.server, b"answer")
    line.server.close()

    assert await line.read(line.tool) == b"answer"
    await line.task
    assert line.dialled == ("93.184.216.34", 443)
    assert (is_closed(line), line.ours[1].fileno(), line.refused) == (True, -1, [])


async def test_a_tunnel_ends_when_the_tool_is_gone(line: Line) -> None:
    await line.send("CONNECT example.com:443 HTTP/1.1", "", "")
    await line.loop.sock_recv(line.tool, 100)

    line.tool.close()

    assert await line.read(line.server) == b""
    line.server.close()
    await line.task
    assert is_closed(line)


@pytest.mark.promise("net-7")
async def test_one_request_is_sent_on_and_nothing_behind_it(line: Line) -> None:
    await line.send(
        "POST http://example.com/a HTTP/1.1",
        "Content-Length: 4",
        "Host: evil.com",
        "",
        "bodyGET http://evil.com/ HTTP/1.1",
        "Host: evil.com",
        "",
        "",
    )
    wanted = (
        b"POST /a HTTP/1.1\r\nHost: example.com\r\nContent-Length: 4\r\n"
        b"Connection: close\r\n\r\nbody"
    )

    got = b""
    while len(got) < len(wanted):
        got += await line.loop.sock_recv(line.server, 1000)
    await line.loop.sock_sendall(line.server, b"HTTP/1.1 200 OK\r\n\r\nhi")
    line.server.shutdown(socket.SHUT_WR)

    assert await line.read(line.tool) == b"HTTP/1.1 200 OK\r\n\r\nhi"
    await line.task
    assert got + await line.read(line.server) == wanted


async def test_a_body_in_chunks_is_sent_on_to_its_end(line: Line) -> None:
    await line.send(
        "PUT http://example.com/ HTTP/1.1", "Transfer-Encoding: Chunked", "", "3", "abc", "0", ""
    )
    await line.send("", "GET / HTTP/1.1", "", "")

    wanted = (
        b"PUT / HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: chunked\r\n"
        b"Connection: close\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    )
    got = b""
    while len(got) < len(wanted):
        got += await line.loop.sock_recv(line.server, 1000)
    line.server.close()

    await line.task
    assert got == wanted


async def test_a_server_may_answer_before_it_has_heard_all(line: Line) -> None:
    await line.send("POST http://example.com/ HTTP/1.1", "Content-Length: 999999", "", "some")

    await line.loop.sock_sendall(line.server, b"HTTP/1.1 413 Too much\r\n\r\n")
    line.server.shutdown(socket.SHUT_WR)

    assert await line.read(line.tool) == b"HTTP/1.1 413 Too much\r\n\r\n"
    await line.task
    assert is_closed(line)


@pytest.mark.promise("net-5")
@pytest.mark.parametrize("first", ["CONNECT evil.com:443 HTTP/1.1", "GET http://evil.com HTTP/1.1"])
async def test_a_host_that_was_not_granted_is_answered_with_the_command(
    line: Line, first: str
) -> None:
    await line.send(first, "", "still sending " * 1000)
    words = "skillpouch: evil.com is not granted; run: skillpouch trust weather --host evil.com"

    line.tool.shutdown(socket.SHUT_WR)

    assert (await line.read(line.tool)).decode().split("\r\n") == [
        f"HTTP/1.1 403 {words}",
        "Content-Type: text/plain",
        f"Content-Length: {len(words) + 1}",
        "Connection: close",
        "",
        f"{words}\n",
    ]
    await line.task
    assert line.refused == ["evil.com"]


async def test_a_head_without_end_is_answered_and_not_kept(line: Line) -> None:
    sent = 0
    answer = b""
    try:
        while sent < 64 << 20:
            sent += await asyncio.wait_for(_send_some(line), 2)
    except (TimeoutError, OSError):
        answer = await line.read(line.tool)

    await line.task
    assert sent < 4 << 20
    assert answer.startswith(b"HTTP/1.1 400 skillpouch: the head of the request is too long")


async def _send_some(line: Line) -> int:
    await line.loop.sock_sendall(line.tool, b"x" * 65_536)
    return 65_536


async def test_a_head_that_drips_is_not_waited_for(
    line: Line, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection_module, "_HEAD_SECONDS", 0.05)
    line.close()
    dripping = Line()

    async def drip() -> None:
        while True:
            await dripping.send("G")
            await asyncio.sleep(0.005)

    dripper = asyncio.ensure_future(drip())

    with contextlib.suppress(ConnectionResetError):
        assert await dripping.read(dripping.tool) == b""
    await dripping.task
    await asyncio.wait([dripper])
    assert isinstance(dripper.exception(), BrokenPipeError)
    dripping.close()


async def test_a_silent_tunnel_ends(line: Line, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_IDLE_SECONDS", 0.05)

    await line.send("CONNECT example.com:443 HTTP/1.1", "", "")

    await line.task
    assert is_closed(line)


async def test_a_tool_that_never_reads_holds_up_its_server_and_nobody_else(line: Line) -> None:
    await line.send("CONNECT example.com:443 HTTP/1.1", "", "")
    sent = 0

    with contextlib.suppress(TimeoutError):
        while sent < 64 << 20:
            await asyncio.wait_for(line.loop.sock_sendall(line.server, b"x" * 65_536), 0.2)
            sent += 65_536

    assert sent < 8 << 20
    assert not line.task.done()


async def test_a_quick_tool_and_a_quick_server_leave_the_loop_to_others(line: Line) -> None:
    await line.send("CONNECT example.com:443 HTTP/1.1", "", "")
    turns = 0

    async def send() -> None:
        for _ in range(200):
            await line.loop.sock_sendall(line.server, b"x" * 65_536)
        line.server.shutdown(socket.SHUT_WR)

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    sender, counter = asyncio.ensure_future(send()), asyncio.ensure_future(count())
    received = len(await line.read(line.tool))
    counter.cancel()
    await sender

    assert received == 200 * 65_536 + len(b"HTTP/1.1 200 Connection established\r\n\r\n")
    assert turns > 50
