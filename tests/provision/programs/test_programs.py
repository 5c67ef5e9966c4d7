"""Fetched programs: what is run is whole, is what was expected, and comes from where it may."""

import asyncio
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest

from skillpouch.calls import Fetched
from skillpouch.environment import programs_directory
from skillpouch.errors import CallDeniedError
from skillpouch.net.http.guard import InsideAddressError
from skillpouch.provision.programs.fetching import wanted_for, web_opener
from skillpouch.provision.programs.programs import open_programs, program_for
from skillpouch.trust.errors import DownloadError, HashDiffersError, PinNeededError, UngrantedError
from tests.provision.programs.conftest import MakeTerms, Server

pytestmark = pytest.mark.slow


def left_over() -> list[Path]:
    root = programs_directory()
    assert root is not None
    return [
        path for path in (root / "partial").rglob("*") if path.is_file() and path.name != "lock"
    ]


@pytest.mark.promise("get-1")
async def test_a_program_with_its_hash_is_fetched_once_and_kept_by_content(
    server: Server, terms_for: MakeTerms
) -> None:
    lines: list[str] = []
    first = await program_for(server.wanted(server.digest), terms_for(lines=lines))
    second = await program_for(server.wanted(server.digest), terms_for())

    assert first == second == open_programs() / server.digest / "program"
    assert first.read_bytes() == server.body
    assert stat.S_IMODE(first.stat().st_mode) == 0o500
    assert server.asked == [("/tool", None)]
    assert lines == [f"fetching tool from {server.host} (23 bytes)", "fetched 23 bytes of 23 bytes"]
    assert left_over() == []


@pytest.mark.promise("get-1")
async def test_content_with_another_hash_is_thrown_away(
    server: Server, terms_for: MakeTerms
) -> None:
    with pytest.raises(HashDiffersError) as caught:
        await program_for(server.wanted("0" * 64), terms_for())

    assert caught.value.found == server.digest
    assert left_over() == []


@pytest.mark.promise("get-2")
async def test_a_program_that_was_changed_on_the_disk_is_not_run(
    server: Server, terms_for: MakeTerms
) -> None:
    path = await program_for(server.wanted(server.digest), terms_for())
    path.chmod(0o700)
    path.write_bytes(b"#!/bin/sh\necho poisoned\n")

    again = await program_for(server.wanted(server.digest), terms_for())

    assert again.read_bytes() == server.body
    assert len(server.asked) == 2


@pytest.mark.promise("get-1")
async def test_what_one_skill_fetched_is_not_what_another_gets_by_the_same_name(
    server: Server, terms_for: MakeTerms
) -> None:
    good, evil = server.body, b"#!/bin/sh\necho evil\n"
    expected = server.digest
    server.body = evil
    planted = await program_for(server.wanted(server.digest), terms_for(skill="evil"))
    with pytest.raises(HashDiffersError):
        await program_for(server.wanted(expected), terms_for())

    server.body = good
    own = await program_for(server.wanted(expected), terms_for())

    assert planted == open_programs() / sha256(evil).hexdigest() / "program"
    assert own == open_programs() / expected / "program"
    assert (planted.read_bytes(), own.read_bytes()) == (evil, good)


@pytest.mark.promise("get-6")
async def test_what_was_vouched_for_elsewhere_is_not_taken_without_a_yes(
    server: Server, terms_for: MakeTerms
) -> None:
    await program_for(server.wanted(server.digest), terms_for(skill="other"))

    with pytest.raises(PinNeededError):
        await program_for(server.wanted(), terms_for())


@pytest.mark.promise("get-3")
async def test_a_torn_download_is_never_there_and_goes_on_where_it_broke(
    server: Server, terms_for: MakeTerms
) -> None:
    server.body = bytes(range(256)) * 400
    server.cut_at = [1000, 50_000]
    lines: list[str] = []

    path = await program_for(server.wanted(server.digest), terms_for(lines=lines))

    assert path.read_bytes() == server.body
    assert [asked for _, asked in server.asked] == [None, "bytes=1000-", "bytes=51000-"]
    assert f"continuing tool from {server.host} (102,400 bytes)" in lines


async def test_a_download_that_breaks_too_often_fails_and_the_next_call_goes_on(
    server: Server, terms_for: MakeTerms
) -> None:
    server.body = b"x" * 10_000
    server.cut_at = [100, 100, 100]
    with pytest.raises(DownloadError, match="tool: ") as caught:
        await program_for(server.wanted(server.digest), terms_for())
    assert "it continues where it stopped" in caught.value.hint
    assert not (open_programs() / server.digest).exists()

    path = await program_for(server.wanted(server.digest), terms_for())

    assert path.read_bytes() == server.body
    assert server.asked[-1] == ("/tool", "bytes=300-")


async def test_a_file_that_changed_meanwhile_is_fetched_from_the_beginning(
    server: Server, terms_for: MakeTerms
) -> None:
    server.body = b"a" * 1000
    server.cut_at = [400]
    with pytest.raises(DownloadError):
        await program_for(server.wanted(), terms_for(attempts=1))
    server.body, server.etag = b"b" * 1000, '"two"'

    path = await program_for(server.wanted(server.digest), terms_for())

    assert path.read_bytes() == b"b" * 1000


async def test_a_server_that_ignores_ranges_sends_everything_again(
    server: Server, terms_for: MakeTerms
) -> None:
    server.body, server.ranges, server.cut_at = b"a" * 1000, False, [400]

    path = await program_for(server.wanted(server.digest), terms_for())

    assert path.read_bytes() == server.body


async def test_a_partial_file_of_other_content_is_given_up(
    server: Server, terms_for: MakeTerms
) -> None:
    server.body, server.cut_at = b"a" * 1000, [400]
    wanted = server.wanted("0" * 64)
    with pytest.raises(DownloadError):
        await program_for(wanted, terms_for(attempts=1))
    partial = open_programs() / "partial" / wanted.key / "unfinished"
    assert partial.read_bytes() == b"a" * 400
    # The same place, but the content that is really wanted is another one.
    good = server.wanted(server.digest)
    place = open_programs() / "partial" / good.key
    place.mkdir()
    (place / "unfinished").write_bytes(b"z" * 400)

    path = await program_for(good, terms_for())

    assert path.read_bytes() == server.body


async def test_a_partial_file_that_is_too_long_is_given_up(
    server: Server, terms_for: MakeTerms
) -> None:
    wanted = server.wanted(server.digest)
    place = open_programs() / "partial" / wanted.key
    place.mkdir()
    (place / "unfinished").write_bytes(b"z" * 4000)

    assert (await program_for(wanted, terms_for())).read_bytes() == server.body


@pytest.mark.promise("get-4")
async def test_what_is_too_large_is_not_fetched(server: Server, terms_for: MakeTerms) -> None:
    server.body = b"x" * 2000
    with pytest.raises(DownloadError, match="larger than the 1,000 bytes"):
        await program_for(server.wanted(server.digest), terms_for(most_bytes=1000))
    assert left_over() == []


async def test_a_download_that_takes_too_long_is_ended(
    server: Server, terms_for: MakeTerms
) -> None:
    server.gate = threading.Event()
    try:
        with pytest.raises(DownloadError, match="took more than"):
            await program_for(server.wanted(server.digest), terms_for(seconds=0.2))
    finally:
        server.gate.set()


@pytest.mark.parametrize("status", [404, 500, 204])
async def test_another_answer_than_a_file_is_an_error(
    status: int, server: Server, terms_for: MakeTerms
) -> None:
    server.status = status
    with pytest.raises(DownloadError, match=f"answered {status}"):
        await program_for(server.wanted(server.digest), terms_for())


async def test_an_encoded_answer_is_refused(server: Server, terms_for: MakeTerms) -> None:
    server.headers = {"Content-Encoding": "gzip"}
    with pytest.raises(DownloadError, match="encodes it"):
        await program_for(server.wanted(server.digest), terms_for())


async def test_redirects_are_followed_to_granted_hosts_only(
    server: Server, terms_for: MakeTerms
) -> None:
    server.redirects = {"/tool": "/moved", "/moved": f"http://{server.host}/here"}
    path = await program_for(server.wanted(server.digest), terms_for())
    assert path.read_bytes() == server.body

    server.redirects = {"/tool": f"http://localhost:{server.port}/x"}
    server.body = b"other"
    with pytest.raises(UngrantedError) as caught:
        await program_for(server.wanted(server.digest), terms_for())
    assert f"--host localhost:{server.port}" in caught.value.hint


@pytest.mark.parametrize("location", ["ftp://example.com/x", "file:///etc/passwd", ""])
async def test_a_redirect_to_another_scheme_is_refused(
    location: str, server: Server, terms_for: MakeTerms
) -> None:
    server.redirects = {"/tool": location}
    with pytest.raises(DownloadError, match="redirected to"):
        await program_for(server.wanted(server.digest), terms_for())


async def test_a_circle_of_redirects_ends(server: Server, terms_for: MakeTerms) -> None:
    server.redirects = {"/tool": "/tool"}
    with pytest.raises(DownloadError, match="more than 10 times"):
        await program_for(server.wanted(server.digest), terms_for())
    assert len(server.asked) == 11


@pytest.mark.promise("get-5")
async def test_a_host_that_was_not_granted_is_not_asked(
    server: Server, terms_for: MakeTerms
) -> None:
    with pytest.raises(UngrantedError) as caught:
        await program_for(server.wanted(server.digest), terms_for("example.com"))

    assert f"skillpouch trust demo --host {server.host}" in caught.value.hint
    assert server.asked == []


@pytest.mark.promise("get-5")
async def test_a_granted_name_that_leads_inside_is_not_dialled(
    server: Server, terms_for: MakeTerms
) -> None:
    async def inside(_: str) -> list[str]:
        return ["127.0.0.1"]

    host = f"tools.example.com:{server.port}"
    wanted = wanted_for(f"http://{host}/tool", server.digest, "linux-x86_64", plain_http=True)
    terms = replace(terms_for(), opener=web_opener("demo", (host,), resolve=inside))
    with pytest.raises(InsideAddressError) as caught:
        await program_for(wanted, terms)

    assert f"skillpouch trust demo --host {server.host}" in caught.value.hint
    assert server.asked == []


async def test_a_name_that_nobody_knows_is_an_error_with_the_next_step(
    server: Server, terms_for: MakeTerms
) -> None:
    async def nowhere(_: str) -> list[str]:
        return []

    wanted = wanted_for("https://tools.example.com/x", server.digest, "linux-x86_64")
    opener = web_opener("demo", ("tools.example.com",), resolve=nowhere)
    with pytest.raises(DownloadError, match="is it spelt right"):
        await program_for(wanted, replace(terms_for(), opener=opener))


@pytest.mark.promise("get-6")
async def test_without_a_hash_somebody_is_asked_with_host_size_and_hash(
    server: Server, terms_for: MakeTerms
) -> None:
    asked: list[Fetched] = []

    async def yes(fetched: Fetched) -> None:
        asked.append(fetched)

    path = await program_for(server.wanted(), terms_for(vouch=yes))

    assert path == open_programs() / server.digest / "program"
    assert asked == [Fetched(url=server.url, host=server.host, size_bytes=23, sha256=server.digest)]
    assert str(asked[0]) == f"a program of 23 bytes from {server.host}, sha256 {server.digest}"


@pytest.mark.promise("get-6")
async def test_without_a_yes_nothing_is_kept(server: Server, terms_for: MakeTerms) -> None:
    async def no(_: Fetched) -> None:
        raise CallDeniedError("no")

    for vouch, error in ((None, PinNeededError), (no, CallDeniedError)):
        with pytest.raises(error):
            await program_for(server.wanted(), terms_for(vouch=vouch))
        assert not (open_programs() / server.digest).exists()
        assert left_over() == []


async def test_two_calls_at_once_fetch_once(server: Server, terms_for: MakeTerms) -> None:
    lines: list[str] = []
    wanted = server.wanted(server.digest)

    paths = await asyncio.gather(*(program_for(wanted, terms_for(lines=lines)) for _ in range(4)))

    assert len(set(paths)) == 1
    assert server.asked == [("/tool", None)]
    assert any(line.startswith("waiting: another process") for line in lines)


PROCESS = """
import asyncio, sys
from skillpouch.provision.programs.programs import DownloadTerms, program_for
from skillpouch.provision.programs.fetching import wanted_for
from skillpouch.provision.programs.fetching import web_opener
host, digest = sys.argv[1:]
wanted = wanted_for(f"http://{host}/tool", digest, "linux-x86_64", plain_http=True)
opener = web_opener("demo", (host,))
print(asyncio.run(program_for(wanted, DownloadTerms(skill="demo", opener=opener))))
"""


@pytest.mark.promise("get-3")
async def test_after_a_kill_in_the_middle_nothing_counts_and_the_next_call_goes_on(
    server: Server,
) -> None:
    server.body = bytes(range(256)) * 4_000
    server.cut_at, server.gate = [500_000], threading.Event()
    server.held_after_bytes = True
    place = open_programs() / "partial" / server.wanted(server.digest).key / "unfinished"
    words = [sys.executable, "-c", PROCESS, server.host, server.digest]
    killed = subprocess.Popen(words, stdout=subprocess.PIPE)
    await until(lambda: place.exists() and place.stat().st_size == 500_000)
    killed.kill()
    assert killed.communicate(timeout=60)[0] == b""
    assert not (open_programs() / server.digest).exists()
    server.gate.set()
    server.held_after_bytes = False

    said = subprocess.run(words, stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout

    assert server.asked == [("/tool", None), ("/tool", "bytes=500000-")]
    assert Path(said.strip()).read_bytes() == server.body


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.02)


async def test_two_processes_at_once_fetch_once(server: Server) -> None:
    server.body = b"x" * 3_000_000
    words = [sys.executable, "-c", PROCESS, server.host, server.digest]
    started = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]

    said = [process.communicate(timeout=60)[0] for process in started]

    assert said == [f"{open_programs() / server.digest / 'program'}\n"] * 3
    assert server.asked == [("/tool", None)]


async def test_a_store_that_others_can_write_is_refused(
    server: Server, terms_for: MakeTerms
) -> None:
    open_programs().chmod(0o777)
    with pytest.raises(DownloadError, match="others may write there"):
        await program_for(server.wanted(server.digest), terms_for())


async def test_a_link_in_the_place_of_a_program_is_refused(
    server: Server, terms_for: MakeTerms
) -> None:
    (open_programs() / server.digest).mkdir()
    (open_programs() / server.digest / "program").symlink_to("/bin/ls")
    with pytest.raises(DownloadError, match="not a regular file"):
        await program_for(server.wanted(server.digest), terms_for())
