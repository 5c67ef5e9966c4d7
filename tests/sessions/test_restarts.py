"""Sessions outlive the process that began them, also when it is killed."""

import contextlib
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from skillpouch import Policy, SessionManager
from skillpouch.sessions import SessionPolicyError, UnknownSessionError
from tests.sessions.conftest import files, say, state

pytestmark = pytest.mark.slow

# Begins sessions, one after the other, each with a skill; prints each that is complete.
HOST = """
import asyncio, sys
from skillpouch import SessionManager
async def main():
    sessions = SessionManager(define_tools=True)
    for number in range(1000):
        name = await sessions.create_session(f"s{number}")
        await sessions.use_skill(name, "speaker", sys.argv[1].replace("NUMBER", str(number)))
        print(name, flush=True)
asyncio.run(main())
"""


async def test_a_session_goes_on_where_it_was() -> None:
    before = SessionManager()
    session = await before.create_session()
    await before.use_skill(session, "speaker", say("echo hello >> kept; cat kept"))
    await before.use_skill(session, "gone", say("echo x", tool="gone"))
    await before.remove_skill(session, "gone")
    await before.execute(session, "say")
    await before.close()

    after = SessionManager()

    assert await after.list_sessions() == [session]
    assert await after.list_active_skills(session) == ["speaker"]
    assert (await after.execute(session, "say")).content == "hello\nhello"
    await after.close()


@pytest.mark.timeout(120)
@pytest.mark.promise("sess-3")
async def test_no_session_that_was_begun_is_lost_by_kill_9() -> None:
    text = say("echo NUMBER")
    with subprocess.Popen(
        [sys.executable, "-c", HOST, text], stdout=subprocess.PIPE, text=True
    ) as host:
        assert host.stdout is not None
        complete = [host.stdout.readline().strip() for _ in range(20)]
        host.kill()

    sessions = SessionManager()
    found = await sessions.list_sessions()

    assert set(complete) <= set(found)
    for name in (complete[0], complete[-1]):
        assert (await sessions.execute(name, "say")).content == name.removeprefix("s")
    for name in found:
        await sessions.destroy_session(name)
    assert [path for path in files() if "/texts/" in path] == []
    await sessions.close()


async def test_two_processes_see_what_the_other_changes() -> None:
    one, other = SessionManager(), SessionManager()
    session = await one.create_session()
    await one.use_skill(session, "speaker", say("echo one"))
    assert (await other.execute(session, "say")).content == "one"

    await other.use_skill(session, "speaker", say("echo two"))
    assert (await one.execute(session, "say")).content == "two"
    await other.remove_skill(session, "speaker")
    assert await one.list_active_skills(session) == []
    await other.destroy_session(session)

    with pytest.raises(UnknownSessionError):
        await one.execute(session, "say")
    assert files() == []


async def test_a_policy_that_is_not_known_any_more_allows_nothing() -> None:
    before = SessionManager()
    session = await before.create_session(policy=Policy.strict())
    await before.use_skill(session, "speaker", say("echo hello"))
    await before.close()
    after = SessionManager()

    with pytest.raises(SessionPolicyError) as raised:
        await after.execute(session, "say")

    assert raised.value.code == "session_policy"
    await after.set_policy(session, Policy())
    assert (await after.execute(session, "say")).content == "hello"
    await after.close()


@pytest.mark.promise("sess-3")
async def test_secrets_of_a_session_are_not_written_down() -> None:
    sessions = SessionManager()
    session = await sessions.create_session(environment={"API_KEY": "hunter2-hunter2"})
    await sessions.use_skill(session, "speaker", say("echo hello"))
    await sessions.execute(session, "say")
    await sessions.close()

    kept = [path.read_bytes() for path in Path(state()).rglob("*") if path.is_file()]

    assert kept
    assert all(b"hunter2" not in data for data in kept)


async def test_only_their_user_can_read_what_is_kept_of_sessions() -> None:
    sessions = SessionManager()
    await sessions.create_session()

    mode = (state() / "sessions.sqlite3").stat().st_mode & 0o777

    assert mode == 0o600
    await sessions.close()


async def test_a_file_of_the_first_format_is_read() -> None:
    sessions = SessionManager()
    old = await sessions.create_session()
    await sessions.close()
    file = state() / "sessions.sqlite3"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("ALTER TABLE sessions DROP COLUMN owner")
        connection.execute("PRAGMA user_version = 1")

    again = SessionManager()
    new = await again.create_session(owner="ada")

    assert await again.list_sessions() == [old, new]
    await again.check_owner(old, "")
    await again.check_owner(new, "ada")
    with pytest.raises(UnknownSessionError):
        await again.check_owner(new, "")
