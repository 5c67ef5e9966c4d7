"""Who is let in over HTTP, and where a server agrees to listen at all."""

import mmap
import os
from pathlib import Path

import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

from skillpouch.servers.addresses import Address, parse_address
from skillpouch.servers.faults import AddressError, TokenFileError
from skillpouch.servers.mcp import HttpSettings, McpLimits, McpServer
from skillpouch.servers.tokens import Tokens
from tests.servers.mcp.conftest import NewManager
from tests.servers.mcp.serving import listening
from tests.servers.mcp.test_tools import text_of

pytestmark = pytest.mark.slow

TOKEN = "a-token-of-enough-length"
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
ACCEPT = {"accept": "application/json, text/event-stream"}


def token_file(folder: Path, text: str = f"# ours\n{TOKEN}\n") -> Path:
    path = folder / "tokens"
    path.touch(mode=0o600)
    path.write_text(text)
    return path


@pytest.mark.promise("mcp-1")
@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.com"])
async def test_a_server_does_not_listen_to_a_network_without_a_token(
    new_manager: NewManager, host: str
) -> None:
    settings = HttpSettings(address=Address(host=host, port=0))

    with pytest.raises(AddressError, match="without authentication"):
        await McpServer(new_manager()).serve_http(settings)


@pytest.mark.promise("mcp-2")
async def test_a_request_under_another_name_or_from_a_web_page_is_refused(
    new_manager: NewManager,
) -> None:
    async with listening(McpServer(new_manager())) as url, httpx2.AsyncClient() as http:
        port = url.split(":")[2].split("/")[0]
        answers = {
            name: (await http.post(url, json=PING, headers={**ACCEPT, **headers})).status_code
            for name, headers in {
                "rebound": {"host": f"evil.example:{port}"},
                "suffix": {"host": f"localhost.evil.example:{port}"},
                "user of the host": {"host": f"evil@127.0.0.1:{port}"},
                "page": {"origin": "https://evil.example"},
                "null": {"origin": "null"},
                "port": {"origin": "http://localhost.evil.example"},
                "other port": {"origin": "http://localhost:9999"},
                "user": {"origin": "http://evil@localhost"},
            }.items()
        }
        fine = await http.get(
            url.replace("/mcp", "/healthz"), headers={"host": f"localhost:{port}"}
        )

    misdirected = dict.fromkeys(("rebound", "suffix", "user of the host"), 421)
    assert answers == misdirected | dict.fromkeys(
        ("page", "null", "port", "other port", "user"), 403
    )
    assert (fine.status_code, fine.text) == (200, "ok\n")


@pytest.mark.promise("mcp-1")
async def test_without_the_token_nothing_is_answered(
    new_manager: NewManager, tmp_path: Path
) -> None:
    settings = HttpSettings(token_file=token_file(tmp_path))
    async with listening(McpServer(new_manager()), settings) as url, httpx2.AsyncClient() as http:
        codes = [
            (await http.post(url, json=PING, headers={**ACCEPT, **headers})).status_code
            for headers in (
                {},
                {"authorization": "Bearer wrong-token-of-enough-length"},
                {"authorization": f"Basic {TOKEN}"},
                {"authorization": TOKEN},
            )
        ]
        metrics = await http.get(url.replace("/mcp", "/metrics"))
        ready = await http.get(url.replace("/mcp", "/readyz"))

    assert (codes, metrics.status_code, ready.status_code) == ([401] * 4, 401, 200)


@pytest.mark.parametrize("era", ["legacy", "auto"])
async def test_with_the_token_calls_are_answered_until_it_is_taken_away(
    new_manager: NewManager, tmp_path: Path, era: str
) -> None:
    path = token_file(tmp_path)
    settings = HttpSettings(token_file=path)
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with (
        listening(McpServer(new_manager()), settings) as url,
        httpx2.AsyncClient(headers=headers) as http,
    ):
        async with Client(streamable_http_client(url, http_client=http), mode=era) as client:
            result = await client.call_tool("demo__echo", {"text": "in"})
        path.write_text("another-token-of-enough-length\n")
        after = await http.post(url, json=PING, headers=ACCEPT)

    assert (text_of(result), after.status_code) == ('{"said": "in"}', 401)


@pytest.mark.parametrize(
    ("text", "mode", "reason"),
    [
        ("short\n", 0o600, "shorter"),
        ("# nothing\n", 0o600, "no token"),
        (f"{TOKEN}\n", 0o604, "other users"),
        (f"{TOKEN}\n", 0o640, "its group"),
        (f"{TOKEN}\n", 0o620, "its group"),
    ],
)
def test_a_file_of_tokens_that_protects_nobody_is_refused(
    tmp_path: Path, text: str, mode: int, reason: str
) -> None:
    path = token_file(tmp_path, text)
    path.chmod(mode)

    with pytest.raises(TokenFileError, match=reason):
        Tokens(path)


@pytest.mark.promise("grpc-2")
@pytest.mark.promise("mcp-1")
def test_a_token_that_was_taken_out_lets_nobody_in_whatever_the_times_of_its_file(
    tmp_path: Path,
) -> None:
    path = token_file(tmp_path, f"{TOKEN}\n")
    tokens = Tokens(path)
    before = path.stat()

    assert tokens.accepts(f"Bearer {TOKEN}")
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
        content[0:1] = b"z"  # no time of the file tells of it before it is written back
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

        assert not tokens.accepts(f"Bearer {TOKEN}")
        assert tokens.accepts(f"Bearer z{TOKEN[1:]}")
    path.chmod(0o640)
    assert not tokens.accepts(f"Bearer z{TOKEN[1:]}")


async def test_more_requests_at_once_than_the_limit_are_told_to_come_later(
    new_manager: NewManager,
) -> None:
    server = McpServer(new_manager(), limits=McpLimits(most_requests=0))

    async with listening(server) as url, httpx2.AsyncClient() as http:
        answer = await http.post(url, json=PING, headers=ACCEPT)

    assert (answer.status_code, answer.headers["retry-after"]) == (503, "1")


async def test_a_request_that_is_too_large_is_refused(new_manager: NewManager) -> None:
    server = McpServer(new_manager(), limits=McpLimits(most_message_bytes=10_000))

    async with listening(server) as url, httpx2.AsyncClient() as http:
        answer = await http.post(url, content=b"x" * 20_000, headers=ACCEPT)

    assert answer.status_code == 413


async def test_counts_are_told_to_whoever_collects_them(new_manager: NewManager) -> None:
    async with listening(McpServer(new_manager())) as url:
        async with Client(url) as client:
            await client.call_tool("demo__echo", {"text": "x"})
            await client.call_tool("demo__echo", {})
        async with httpx2.AsyncClient() as http:
            text = (await http.get(url.replace("/mcp", "/metrics"))).text

    assert 'skillpouch_calls_total{outcome="ok"} 1\n' in text
    assert 'skillpouch_refused_total{fault="invalid"} 1\n' in text
    assert "skillpouch_call_seconds_count 1\n" in text


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("8000", Address(host="127.0.0.1", port=8000)),
        (":8000", Address(host="127.0.0.1", port=8000)),
        ("localhost:0", Address(host="localhost", port=0)),
        ("[::1]:80", Address(host="::1", port=80)),
        ("0.0.0.0:80", Address(host="0.0.0.0", port=80)),
    ],
)
def test_an_address_is_read(text: str, address: Address) -> None:
    assert parse_address(text) == address


@pytest.mark.parametrize("text", ["", "localhost", "host:", "::1:80", "host:99999", "host:-1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(AddressError):
        parse_address(text)


def test_only_loopback_is_loopback() -> None:
    hosts = ["127.0.0.1", "127.8.8.8", "::1", "localhost", "0.0.0.0", "::", "10.0.0.1", "a.example"]

    assert [Address(host=host, port=1).is_loopback for host in hosts] == [True] * 4 + [False] * 4
