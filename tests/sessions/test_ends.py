"""The end of a session: nothing of it is left, whatever it was doing."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from skillpouch import SessionManager
from skillpouch.backends.delivery import process_folder, python_folder
from skillpouch.sessions import SessionEndedError, UnknownSessionError
from tests.runtime.test_removal import nest
from tests.sessions.conftest import data, files, processes_in, say, state

pytestmark = pytest.mark.slow


def rows() -> dict[str, int]:
    with closing(sqlite3.connect(state() / "sessions.sqlite3")) as connection:
        tables = ("sessions", "skills", "texts")
        query = "SELECT count(*) FROM "
        return {table: connection.execute(query + table).fetchone()[0] for table in tables}


@pytest.mark.promise("sess-2")
async def test_a_destroyed_session_leaves_no_process_no_file_and_no_row() -> None:
    python_folder()  # of the process, made by whichever call needs it first
    others = set(process_folder().rglob("*"))
    sessions = SessionManager(builtins=True, define_tools=True)
    session = await sessions.create_session()
    workspace = await sessions.workspace(session)
    await sessions.use_skill(session, "speaker", say("mkdir -p d/e; chmod 0 d; echo hello"))
    await sessions.execute(session, "say")
    await sessions.execute(session, "bash", {"command": "sleep 600", "background": True})
    for persistent in (True, False):
        made = await sessions.execute(
            session,
            "define_tool",
            {
                "name": f"made_{persistent}".lower(),
                "description": "Made.",
                "code": "return 1",
                "persistent": persistent,
            },
        )
        assert made.outcome == "ok", made.content
        await sessions.execute(session, f"made_{persistent}".lower())
    assert processes_in(workspace)

    await sessions.destroy_session(session)

    assert processes_in(workspace) == []
    assert files() == []
    assert rows() == {"sessions": 0, "skills": 0, "texts": 0}
    assert set(process_folder().rglob("*")) <= others
    with pytest.raises(UnknownSessionError):
        await sessions.execute(session, "say")


@pytest.mark.promise("sess-2")
async def test_a_call_that_runs_ends_with_its_session(direct_sessions: SessionManager) -> None:
    sessions = direct_sessions
    session = await sessions.create_session()
    other = await sessions.create_session()
    workspace = await sessions.workspace(session)
    await sessions.use_skill(session, "speaker", say("touch began; sleep 600"))
    await sessions.use_skill(other, "speaker", say("touch began; while [ ! -e go ]; do :; done"))
    running = [asyncio.create_task(sessions.execute(session, "say")) for _ in range(3)]
    theirs = asyncio.create_task(sessions.execute(other, "say"))
    for place in (workspace, await sessions.workspace(other)):
        while not (place / "began").exists():
            await asyncio.sleep(0.02)

    await sessions.destroy_session(session)

    for call in running:
        with pytest.raises(SessionEndedError) as raised:
            await call
        assert raised.value.code == "session_ended"
    assert processes_in(workspace) == []
    assert not workspace.exists()
    (await sessions.workspace(other) / "go").touch()
    assert (await theirs).outcome == "ok"


async def test_a_caller_that_gives_up_is_cancelled_not_told_that_the_session_ended(
    direct_sessions: SessionManager,
) -> None:
    sessions = direct_sessions
    session = await sessions.create_session()
    await sessions.use_skill(session, "speaker", say("touch began; sleep 600"))
    running = asyncio.create_task(sessions.execute(session, "say"))
    while not (await sessions.workspace(session) / "began").exists():
        await asyncio.sleep(0.02)

    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running
    await sessions.use_skill(session, "speaker", say("echo hello"))
    assert (await sessions.execute(session, "say")).content == "hello"


async def test_a_name_can_be_used_again_and_brings_nothing_along(sessions: SessionManager) -> None:
    await sessions.create_session("chat")
    before = await sessions.workspace("chat")
    await sessions.use_skill("chat", "speaker", say("echo hello > left"))
    await sessions.execute("chat", "say")
    await sessions.destroy_session("chat")

    await sessions.create_session("chat")

    assert await sessions.workspace("chat") != before
    assert list((await sessions.workspace("chat")).iterdir()) == []
    assert await sessions.definitions("chat") == []


async def test_equal_texts_are_kept_once_and_until_the_last_goes(sessions: SessionManager) -> None:
    for name in ("one", "other"):
        await sessions.create_session(name)
        await sessions.use_skill(name, "speaker", say("echo hello"))
    assert rows() == {"sessions": 2, "skills": 2, "texts": 1}

    await sessions.destroy_session("one")

    assert rows() == {"sessions": 1, "skills": 1, "texts": 1}
    assert (await sessions.execute("other", "say")).content == "hello"


async def test_closing_the_manager_ends_processes_and_keeps_sessions() -> None:
    sessions = SessionManager(builtins=True)
    session = await sessions.create_session()
    workspace = await sessions.workspace(session)
    await sessions.execute(session, "bash", {"command": "echo hello > kept"})
    assert processes_in(workspace)

    await sessions.close()

    assert processes_in(workspace) == []
    assert (workspace / "kept").read_text() == "hello\n"
    assert await sessions.list_sessions() == [session]
    await sessions.destroy_session(session)


async def test_an_end_that_was_interrupted_is_finished_by_the_next_manager(
    sessions: SessionManager,
) -> None:
    session = await sessions.create_session()
    workspace = await sessions.workspace(session)
    await sessions.close()
    with closing(sqlite3.connect(state() / "sessions.sqlite3")) as connection:
        connection.execute("UPDATE sessions SET ending = 1")
        connection.commit()

    assert await SessionManager().list_sessions() == []
    await SessionManager().create_session("next")

    assert not workspace.exists()
    assert rows() == {"sessions": 1, "skills": 0, "texts": 0}


async def test_workspaces_are_made_where_they_are_asked_for(tmp_path: Path) -> None:
    sessions = SessionManager(workspaces=tmp_path / "work", directory=tmp_path / "kept")

    session = await sessions.create_session("chat")

    assert (await sessions.workspace(session)).parent == tmp_path / "work"
    assert (tmp_path / "kept" / "sessions.sqlite3").is_file()
    assert not (data() / "workspaces").exists()
    await sessions.destroy_session(session)
    assert list((tmp_path / "work").iterdir()) == []


@pytest.mark.promise("sess-2")
async def test_a_session_is_destroyed_however_deep_its_folders_are(
    sessions: SessionManager,
) -> None:
    session = await sessions.create_session()
    nest(await sessions.workspace(session) / "deep", 3_000)

    await sessions.destroy_session(session)

    assert files() == []
    assert rows() == {"sessions": 0, "skills": 0, "texts": 0}


@pytest.mark.promise("sess-1")
async def test_what_one_session_left_keeps_no_other_from_beginning(
    sessions: SessionManager, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("first", "second"):
        await sessions.create_session(name)
    gone = await sessions.workspace("second")
    await sessions.close()
    with closing(sqlite3.connect(state() / "sessions.sqlite3")) as connection:
        # Not a folder, so that nobody can remove it as one.
        (tmp_path / "file").touch()
        connection.execute(
            "UPDATE sessions SET workspace = ? WHERE id = 'first'", [str(tmp_path / "file")]
        )
        connection.execute("UPDATE sessions SET ending = 1")
        connection.commit()

    await SessionManager().create_session("next")

    assert not gone.exists()
    assert "session first is not removed yet" in caplog.text
    assert rows()["sessions"] == 2
