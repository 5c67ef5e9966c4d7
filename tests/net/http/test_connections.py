"""Connections: kept between calls of one grant, checked by certificate, closed with their loop."""

import asyncio
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from skillpouch.net.http.guard import GrantedHosts
from skillpouch.net.http.pools import pool_for
from tests.net.http.conftest import Call, MakeManager, Serve
from tests.net.http.servers import reply

pytestmark = pytest.mark.slow


async def test_the_second_call_uses_the_connection_of_the_first(
    serve: Serve, manager_of: MakeManager
) -> None:
    server = serve()
    manager = manager_of({"url": server.url})

    for _ in range(3):
        await manager.acall("demo.ask")

    assert (len(server.seen), server.connections) == (3, 1)


@pytest.mark.promise("http-1")
async def test_no_grant_uses_a_connection_of_another() -> None:
    one, same, other = (
        GrantedHosts(hosts=hosts, skill="a")
        for hosts in (("a.com",), ("a.com",), ("a.com", "10.0.0.1"))
    )

    async with pool_for(one) as first, pool_for(same) as second, pool_for(other) as third:
        assert first is second
        assert first is not third


async def test_many_calls_at_once_get_their_own_answers(
    serve: Serve, manager_of: MakeManager
) -> None:
    server = serve(lambda seen, write: write(reply(seen.target)))
    manager = manager_of({"url": f"{server.url}/${{n}}"}, {"n": {}})

    results = await asyncio.gather(*(manager.acall("demo.ask", {"n": n}) for n in range(100)))

    assert [result.stdout for result in results] == [f"/{n}" for n in range(100)]
    assert server.connections <= 32


def test_a_loop_that_ends_leaves_no_connection(serve: Serve, manager_of: MakeManager) -> None:
    server = serve()
    manager = manager_of({"url": server.url})

    # A connection that is left open is a warning, and a warning is an error here.
    for _ in range(2):
        asyncio.run(manager.acall("demo.ask"))

    assert server.connections == 2


def test_an_https_server_is_checked_by_its_name(
    serve: Serve,
    call: Call,
    tls: ssl.SSLContext,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    server = serve(reply("safe"), tls)

    result = call({"url": f"https://localhost:{server.port}/"})

    assert (result.outcome, result.stdout) == ("ok", "safe")
    assert server.seen[0].header("host") == [f"localhost:{server.port}"]


def test_the_name_is_told_to_the_server_though_an_address_is_dialled(
    serve: Serve,
    call: Call,
    tls: ssl.SSLContext,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    names: list[str | None] = []
    tls.sni_callback = lambda _, name, __: names.append(name)
    server = serve(reply("safe"), tls)

    call({"url": f"https://localhost:{server.port}/"})

    assert names == ["localhost"]


@pytest.mark.promise("http-10")
def test_a_certificate_that_nobody_trusts_is_refused(
    serve: Serve, call: Call, tls: ssl.SSLContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    server = serve(reply("evil"), tls)

    result = call({"url": server.url, "retries": 0})

    assert (result.outcome, result.code, server.seen) == ("failed", "connect", [])
    assert "certificate verify failed" in result.content


@pytest.mark.promise("http-4")
def test_a_redirect_from_https_to_http_is_not_followed(
    serve: Serve,
    call: Call,
    tls: ssl.SSLContext,
    certificate: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate / "cert.pem"))
    server = serve(reply("", "302 Found", Location="http://localhost/"), tls)

    result = call({"url": f"https://localhost:{server.port}/"})

    assert (result.code, len(server.seen)) == ("redirect_refused", 1)
    assert "from https to http" in result.content


def test_what_speaks_http_is_imported_when_it_is_needed() -> None:
    program = "import sys, skillpouch.executor, skillpouch.manager; print(*sys.modules)"

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert {"httpx2", "httpcore2", "anyio", "h11"}.isdisjoint(ran.stdout.decode().split())
