"""Waiting for a place: it counts against the call's own time, and no session takes all places."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from skillpouch import SessionManager
from skillpouch.errors import NoPlaceError
from skillpouch.execution.command import Command
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine
from skillpouch.limits import Limits
from tests.sessions.conftest import say

pytestmark = pytest.mark.slow


def wait_for(file: Path, seconds: float = 100, *, background: bool = False) -> Command:
    return Command(
        argv=("/bin/sh", "-c", f"touch began; while [ ! -e {file} ]; do sleep 0.01; done"),
        env={"PATH": "/usr/bin:/bin"},
        cwd=file.parent,
        limits=Limits(timeout_seconds=seconds),
        background=background,
    )


def wait_until(folder: Path, number: int) -> Command:
    line = f"touch began{number}; while [ ! -e go{number} ]; do sleep 0.01; done"
    return replace(wait_for(folder / "go"), argv=("/bin/sh", "-c", line))


def folders(tmp_path: Path, count: int) -> list[Path]:
    made = [tmp_path / str(number) for number in range(count)]
    for folder in made:
        folder.mkdir()
    return made


async def begun(*folders: Path) -> None:
    while not all((folder / "began").exists() for folder in folders):
        await asyncio.sleep(0.01)


@pytest.mark.promise("sess-4")
@pytest.mark.parametrize("most", [{"most_zygotes": 1}, {"most_running": 1}])
async def test_waiting_for_a_place_counts_against_the_time_of_the_call(
    tmp_path: Path, most: dict[str, int]
) -> None:
    busy, other = folders(tmp_path, 2)
    async with Engine(grace_seconds=0.2, **most) as engine:  # type: ignore[arg-type]  # by name
        first = asyncio.create_task(engine.run(wait_for(busy / "go"), Confinement(workspace=busy)))
        await begun(busy)

        with pytest.raises(NoPlaceError) as raised:
            await engine.run(wait_for(other / "go", 0.2), Confinement(workspace=other))

        (busy / "go").touch()
        assert (await first).outcome == "ok"
        again = await engine.run(wait_for(busy / "go"), Confinement(workspace=busy))
    assert raised.value.code == "server_busy"
    assert not (other / "began").exists()
    assert again.outcome == "ok"


@pytest.mark.promise("sess-4")
async def test_one_workspace_does_not_take_all_places(tmp_path: Path) -> None:
    greedy, other = folders(tmp_path, 2)
    async with Engine(grace_seconds=0.2, most_running=4) as engine:
        calls = [
            asyncio.create_task(engine.run(wait_for(greedy / "go"), Confinement(workspace=greedy)))
            for _ in range(6)
        ]
        await begun(greedy)
        (other / "go").touch()

        answered = await engine.run(wait_for(other / "go"), Confinement(workspace=other))

        (greedy / "go").touch()
        assert answered.outcome == "ok"
        assert [(await call).outcome for call in calls] == ["ok"] * 6


@pytest.mark.promise("sess-4")
async def test_one_workspace_does_not_keep_all_processes_busy(tmp_path: Path) -> None:
    greedy, other, *skills = folders(tmp_path, 8)
    async with Engine(grace_seconds=0.2, most_zygotes=4) as engine:
        each = [Confinement(workspace=greedy, skill=skill) for skill in skills]
        calls = [asyncio.create_task(engine.run(wait_for(greedy / "go"), one)) for one in each]
        await begun(greedy)
        (other / "go").touch()

        answered = await engine.run(wait_for(other / "go"), Confinement(workspace=other))

        (greedy / "go").touch()
        assert answered.outcome == "ok"
        assert [(await call).outcome for call in calls] == ["ok"] * 6


@pytest.mark.promise("sess-4")
async def test_who_waits_for_a_process_comes_before_who_has_more_than_its_part(
    tmp_path: Path,
) -> None:
    greedy, busy, other, *skills = folders(tmp_path, 9)
    async with Engine(grace_seconds=0.2, most_zygotes=4) as engine:
        each = [Confinement(workspace=greedy, skill=skill) for skill in skills]
        first = asyncio.create_task(engine.run(wait_for(busy / "go"), Confinement(workspace=busy)))
        await begun(busy)
        calls = [
            asyncio.create_task(engine.run(wait_until(greedy, number), one))
            for number, one in enumerate(each)
        ]
        while len([*greedy.glob("began*")]) < 3:
            await asyncio.sleep(0.01)
        waiting = asyncio.create_task(
            engine.run(wait_for(other / "go"), Confinement(workspace=other))
        )
        await asyncio.sleep(0)  # the others wait already
        (other / "go").touch()
        begun_now = sorted(path.name.removeprefix("began") for path in greedy.glob("began*"))
        (greedy / f"go{begun_now[0]}").touch()

        answered = await waiting

        assert answered.outcome == "ok"
        assert len([*greedy.glob("began*")]) == 3
        (busy / "go").touch()
        for number in range(6):
            (greedy / f"go{number}").touch()
        assert [(await call).outcome for call in (first, *calls)] == ["ok"] * 7


@pytest.mark.promise("sess-4")
async def test_what_runs_in_the_background_takes_no_place_of_a_call(tmp_path: Path) -> None:
    *busy, other = folders(tmp_path, 3)
    async with Engine(grace_seconds=0.2, most_zygotes=1, most_running=1) as engine:
        jobs = [
            asyncio.create_task(
                engine.run(wait_for(folder / "go", background=True), Confinement(workspace=folder))
            )
            for folder in busy
        ]
        await begun(*busy)
        (other / "go").touch()

        answered = await engine.run(wait_for(other / "go"), Confinement(workspace=other))

        for folder in busy:
            (folder / "go").touch()
        assert answered.outcome == "ok"
        assert [(await job).outcome for job in jobs] == ["ok", "ok"]


@pytest.mark.timeout(300)
@pytest.mark.promise("sess-4")
async def test_jobs_of_many_sessions_hold_up_no_other() -> None:
    sessions = SessionManager(builtins=True)
    for number in range(33):
        await sessions.create_session(f"s{number}")
    for number in range(32):
        command = {"command": "sleep 600", "background": True}
        await sessions.execute(f"s{number}", "bash", command)

    answered = await sessions.execute("s32", "bash", {"command": "echo hello"})

    assert answered.content == "hello"
    for number in range(33):
        await sessions.destroy_session(f"s{number}")


@pytest.mark.timeout(300)
@pytest.mark.promise("sess-4")
async def test_a_session_with_as_many_skills_as_there_are_processes_holds_up_no_other() -> None:
    sessions = SessionManager(writes="direct")  # the test and its calls meet in the workspace
    greedy, other = [await sessions.create_session(name) for name in ("greedy", "other")]
    workspace = await sessions.workspace(greedy)
    for number in range(32):
        wait = f"touch {number}.began; while [ ! -e go ]; do sleep 0.05; done"
        await sessions.use_skill(greedy, f"s{number}", say(wait, name=f"s{number}"))
    await sessions.use_skill(other, "speaker", say("echo hello"))
    names = [f"s{number}.say" for number in range(32)]
    calls = [asyncio.create_task(sessions.execute(greedy, name, timeout=60)) for name in names]
    while len([*workspace.glob("*.began")]) < 16:  # each in a process of its own
        await asyncio.sleep(0.01)

    answered = await sessions.execute(other, "say")

    assert answered.content == "hello"
    assert not any(call.done() for call in calls)
    (workspace / "go").touch()
    assert {(await call).outcome for call in calls} == {"ok"}
    await sessions.close()
