"""The address guard: a stub looks names up, a recorder stands in for the network."""

import socket
from collections.abc import Iterable, Sequence
from pathlib import Path

import httpcore2
import pytest

from skillpouch import Policy
from skillpouch.errors import CallDeniedError
from skillpouch.net.http.guard import ExchangeError, GrantedHosts, Guard, InsideAddressError
from tests.net.http.conftest import Call, MakeManager, Serve
from tests.net.http.servers import reply
from tests.net.test_addresses import INSIDE

pytestmark = pytest.mark.slow


class Recorder(httpcore2.AsyncMockBackend):
    """Dials nothing: it notes what would have been dialled; some addresses do not answer."""

    def __init__(self, *dead: str) -> None:
        super().__init__([])
        self.dialled: list[tuple[str, int]] = []
        self._dead = dead

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        self.dialled.append((host, port))
        if host in self._dead:
            raise httpcore2.ConnectError("dead")
        return await super().connect_tcp(host, port, timeout, local_address, socket_options)


class Names:
    """Looks names up: each time the next answer, then the last one for ever."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def __call__(self, _name: str) -> Sequence[str]:
        self.asked += 1
        return self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]


def guard(recorder: Recorder, names: Names, *hosts: str) -> Guard:
    return Guard(GrantedHosts(hosts=hosts), resolve=names, inner=recorder)


async def test_the_address_that_was_checked_is_dialled() -> None:
    recorder, names = Recorder(), Names(["93.184.216.34"])

    await guard(recorder, names, "example.com").connect_tcp("example.com", 443)

    assert recorder.dialled == [("93.184.216.34", 443)]
    assert names.asked == 1


@pytest.mark.promise("http-1")
@pytest.mark.parametrize("address", INSIDE)
async def test_a_granted_name_that_leads_inside_is_refused(address: str) -> None:
    recorder, names = Recorder(), Names([address])

    with pytest.raises(InsideAddressError) as caught:
        await guard(recorder, names, "example.com", "*").connect_tcp("example.com", 80)

    assert recorder.dialled == []
    assert "nothing was sent" in str(caught.value)
    assert "--host" in caught.value.hint


@pytest.mark.promise("http-1")
async def test_one_bad_address_among_good_ones_refuses_them_all() -> None:
    recorder, names = Recorder(), Names(["8.8.8.8", "127.0.0.1"])

    with pytest.raises(InsideAddressError):
        await guard(recorder, names, "example.com").connect_tcp("example.com", 80)

    assert recorder.dialled == []


@pytest.mark.promise("http-1")
async def test_a_name_that_leads_elsewhere_the_second_time_is_checked_again() -> None:
    recorder, names = Recorder(), Names(["8.8.8.8"], ["127.0.0.1"])
    the_guard = guard(recorder, names, "example.com")

    await the_guard.connect_tcp("example.com", 80)
    with pytest.raises(InsideAddressError):
        await the_guard.connect_tcp("example.com", 80)

    assert recorder.dialled == [("8.8.8.8", 80)]


async def test_a_private_address_is_reached_when_it_is_granted_itself() -> None:
    recorder, names = Recorder(), Names(["10.1.2.3"])

    await guard(recorder, names, "git.example.com", "10.1.2.3").connect_tcp("git.example.com", 443)

    assert recorder.dialled == [("10.1.2.3", 443)]


async def test_another_port_of_a_granted_private_address_is_refused() -> None:
    recorder, names = Recorder(), Names(["10.1.2.3"])
    the_guard = guard(recorder, names, "git.example.com:8080", "10.1.2.3")

    with pytest.raises(InsideAddressError):
        await the_guard.connect_tcp("git.example.com", 8080)


async def test_a_private_name_that_is_granted_exactly_leads_where_it_leads() -> None:
    recorder, names = Recorder(), Names(["127.0.0.1"])

    await guard(recorder, names, "localhost:8080").connect_tcp("localhost", 8080)

    assert recorder.dialled == [("127.0.0.1", 8080)]


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    recorder, names = Recorder("1.1.1.1"), Names(["1.1.1.1", "8.8.8.8"])

    await guard(recorder, names, "example.com").connect_tcp("example.com", 80)

    assert recorder.dialled == [("1.1.1.1", 80), ("8.8.8.8", 80)]


async def test_a_name_without_an_address_is_an_error() -> None:
    with pytest.raises(ExchangeError, match="has no address"):
        await guard(Recorder(), Names([]), "example.com").connect_tcp("example.com", 80)


async def test_no_socket_of_this_machine_is_opened(tmp_path: Path) -> None:
    with pytest.raises(ExchangeError):
        await guard(Recorder(), Names([])).connect_unix_socket(str(tmp_path / "s"))


@pytest.mark.promise("http-1")
def test_a_call_whose_name_leads_inside_is_denied(
    manager_of: MakeManager, monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    server = serve()
    inside = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: inside)
    manager = manager_of({"url": f"http://rebound.example.com:{server.port}/"})

    with pytest.raises(CallDeniedError) as caught:
        manager.call("demo.ask")

    assert caught.value.code == "address_refused"
    assert f"`skillpouch trust demo --host 127.0.0.1:{server.port} --root " in caught.value.hint
    assert server.seen == []


@pytest.mark.promise("http-1")
def test_a_redirect_to_a_name_that_leads_inside_is_a_failed_result(
    manager_of: MakeManager, monkeypatch: pytest.MonkeyPatch, serve: Serve
) -> None:
    from tests.net.http.test_redirects import granted, moved

    server = serve(moved("http://rebound.example.com/latest/meta-data"))
    inside = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("169.254.169.254", 0))]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: inside)

    result = granted(manager_of, {"url": server.url}, "rebound.example.com").call("ask")

    assert (result.outcome, result.code) == ("failed", "address_refused")
    assert "rebound.example.com resolves to 169.254.169.254" in result.content


@pytest.mark.promise("http-2")
def test_a_host_that_was_not_granted_is_not_called(serve: Serve, manager_of: MakeManager) -> None:
    server = serve()
    manager = manager_of({"url": server.url}, policy=Policy())

    with pytest.raises(CallDeniedError) as caught:
        manager.call("demo.ask")

    assert f"skillpouch trust demo --host {server.host}" in caught.value.hint
    assert server.seen == []


@pytest.mark.promise("http-2")
@pytest.mark.parametrize(
    "url",
    [
        "http://${host}/",
        "http://user@127.0.0.1/",
        "http://127.0.0.1@evil.com/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://127.0.0.1\\@evil.com/",
        "http://exa mple.com/",
        "http://*.example.com/",
        "http:///x",
        "http://[::1%25eth0]/",
        "https://${env:HOST}.example.com/",
    ],
)
def test_an_address_that_can_be_read_in_two_ways_declares_no_tool(
    url: str, manager_of: MakeManager
) -> None:
    manager = manager_of({"url": url}, {"host": {}})

    assert [tool.id for tool in manager.get_skill_tools("demo")] == []
    assert [p.severity for p in manager.problems] == ["error"]
    assert {p.code for p in manager.problems} <= {"backend-invalid", "template-invalid"}


@pytest.mark.promise("http-1")
def test_no_proxy_of_the_environment_is_used(
    serve: Serve, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxy, server = serve(), serve(reply("direct"))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HTTPS_PROXY"):
        monkeypatch.setenv(name, proxy.url)

    result = call({"url": server.url})

    assert (result.stdout, proxy.seen) == ("direct", [])
