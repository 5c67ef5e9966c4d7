"""Names and addresses, with a resolver and a dialler that only remember: nothing is connected."""

import asyncio
import socket

import pytest

from skillpouch.execution.proxy.allowlist import Allowlist, RefusedHostError
from skillpouch.execution.proxy.dialer import Dialer, UnreachableError
from skillpouch.net.hosts import Host, read_host

PUBLIC, OTHER, PRIVATE = "93.184.216.34", "2606:4700::1111", "10.0.0.7"


class Internet:
    """Answers a name with the next of its answers, and notes what is dialled."""

    def __init__(self, **answers: list[list[str]]) -> None:
        self._answers = {name.replace("_", "."): said for name, said in answers.items()}
        self.asked: list[str] = []
        self.dialled: list[tuple[str, int]] = []
        self.silent: set[str] = set()
        self.dialer = Dialer(most=1, resolve=self._resolve, connect=self._connect)

    async def _resolve(self, name: str) -> list[str]:
        self.asked.append(name)
        answers = self._answers[name]
        return answers.pop(0) if len(answers) > 1 else answers[0]

    async def _connect(self, address: str, port: int) -> socket.socket:
        self.dialled.append((address, port))
        if address in self.silent:
            raise ConnectionRefusedError
        return socket.socket()

    async def dial(self, text: str, *hosts: str) -> None:
        granted = Allowlist(hosts=hosts, skill="weather")
        (await self.dialer.dial(read_host(text), granted)).close()


async def test_what_is_dialled_is_the_address_that_was_checked() -> None:
    internet = Internet(api_example_com=[[PUBLIC, OTHER]])

    await internet.dial("api.example.com:443", "*.example.com")

    assert (internet.asked, internet.dialled) == (["api.example.com"], [(PUBLIC, 443)])


@pytest.mark.promise("net-5")
@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        ("evil.com:443", "example.com"),
        ("example.com:8443", "example.com"),
        ("example.com:80", "example.com:443"),
        ("example.com:443", "*.example.com"),
        ("notexample.com:443", "*.example.com"),
        ("example.com.evil.com:443", "example.com"),
        ("127.0.0.1:80", "*"),
        ("localhost:80", "*"),
        ("db.internal:80", "*"),
        ("127.0.0.1:81", "127.0.0.1:80"),
        ("[::1]:80", "127.0.0.1:80"),
        (f"{PUBLIC}:80", "*"),
    ],
)
async def test_what_was_not_granted_is_neither_looked_up_nor_dialled(
    asked: str, granted: str
) -> None:
    internet = Internet()

    with pytest.raises(RefusedHostError) as refused:
        await internet.dial(asked, granted)

    wanted = asked.removesuffix(":80").removesuffix(":443")
    assert refused.value.host == wanted
    assert f"skillpouch trust weather --host {wanted}" in str(refused.value).replace("'", "")
    assert (internet.asked, internet.dialled) == ([], [])


@pytest.mark.promise("net-6")
@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        PRIVATE,
        "169.254.169.254",
        "100.64.0.1",
        "::1",
        "fd00:ec2::254",
        "224.0.0.1",
        "::ffff:127.0.0.1",
        "64:ff9b::a9fe:a9fe",
        "2002:7f00:1::1",
        "fe80::1%eth0",
        "0.0.0.0",
    ],
)
@pytest.mark.parametrize("granted", ["evil.example.com", "*.example.com", "*"])
async def test_a_granted_name_leads_to_no_address_inside(address: str, granted: str) -> None:
    internet = Internet(evil_example_com=[[PUBLIC, address]])

    with pytest.raises(RefusedHostError, match="of this machine or its network"):
        await internet.dial("evil.example.com:80", granted)

    assert internet.dialled == []


@pytest.mark.promise("net-6")
async def test_a_name_that_changes_its_address_between_two_looks_is_looked_at_each_time() -> None:
    internet = Internet(evil_example_com=[[PUBLIC], ["127.0.0.1"]])

    await internet.dial("evil.example.com:80", "evil.example.com")
    with pytest.raises(RefusedHostError):
        await internet.dial("evil.example.com:80", "evil.example.com")

    assert internet.dialled == [(PUBLIC, 80)]
    assert len(internet.asked) == 2  # one look for each connection: the checked one is dialled


async def test_an_address_inside_is_reached_when_it_was_granted_itself() -> None:
    internet = Internet(git_example_com=[[PRIVATE]], db_internal=[[PRIVATE]])

    await internet.dial("git.example.com:443", "git.example.com", PRIVATE)
    await internet.dial("db.internal:5432", "db.internal:5432")
    await internet.dial(f"{PRIVATE}:80", PRIVATE)
    with pytest.raises(RefusedHostError) as refused:
        await internet.dial("git.example.com:443", "git.example.com", f"{PRIVATE}:80")

    assert internet.dialled == [(PRIVATE, 443), (PRIVATE, 5432), (PRIVATE, 80)]
    assert refused.value.host == PRIVATE


async def test_the_next_address_is_tried_when_one_does_not_answer() -> None:
    internet = Internet(example_com=[[OTHER, PUBLIC]], gone_com=[[]])
    internet.silent = {OTHER}

    await internet.dial("example.com:443", "example.com")
    internet.silent = {OTHER, PUBLIC}
    with pytest.raises(UnreachableError, match=r"nothing answers at example\.com:443"):
        await internet.dial("example.com:443", "example.com")
    with pytest.raises(UnreachableError, match=r"gone\.com has no address"):
        await internet.dial("gone.com:443", "gone.com")

    assert internet.dialled == [(OTHER, 443), (PUBLIC, 443), (OTHER, 443), (PUBLIC, 443)]


async def test_a_name_that_no_resolver_knows_has_no_address() -> None:
    async def fail(name: str) -> list[str]:
        raise socket.gaierror(name)

    dialer = Dialer(most=1, resolve=fail)

    with pytest.raises(UnreachableError):
        await dialer.dial(Host("example.com", 80), Allowlist(hosts=("example.com",), skill=""))


async def test_names_are_looked_up_in_turn() -> None:
    looking: list[str] = []
    most = 0

    async def resolve(name: str) -> list[str]:
        nonlocal most
        looking.append(name)
        most = max(most, len(looking))
        await asyncio.sleep(0)
        looking.remove(name)
        return []

    dialer, turn = Dialer(most=1, resolve=resolve), asyncio.Semaphore(2)
    granted = Allowlist(hosts=("*.example.com",), skill="")
    hosts = [Host(f"h{number}.example.com", 443) for number in range(9)]
    dialled = [dialer.dial(host, granted, turn) for host in hosts]

    ended = await asyncio.gather(*dialled, return_exceptions=True)

    assert {type(error) for error in ended} == {UnreachableError}
    assert most == 2


async def test_the_operating_system_is_asked_for_names_of_this_machine() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        granted = Allowlist(hosts=(f"localhost:{port}",), skill="")
        dialer = Dialer(most=1)

        dialled = await dialer.dial(Host("localhost", port), granted)
        dialer.close()

        assert dialled.getpeername()[1] == port
        dialled.close()


def test_a_name_that_no_shell_may_see_is_quoted_or_left_out() -> None:
    for skill, shown in (("a; rm -rf /", "'a; rm -rf /'"), ("naïve\n", "NAME"), ("", "NAME")):
        with pytest.raises(RefusedHostError) as refused:
            Allowlist(hosts=(), skill=skill).check_host(Host("example.com", 443))

        assert str(refused.value) == (
            f"example.com is not granted; run: skillpouch trust {shown} --host example.com"
        )


def test_places_are_counted() -> None:
    dialer = Dialer(most=1)

    assert (dialer.take_place(), dialer.take_place()) == (True, False)
    dialer.give_place_back()
    assert dialer.take_place()
