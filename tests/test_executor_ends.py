"""Calls from anywhere and all at once, and how they are ended: nothing of them stays alive."""

import asyncio
import os
import secrets
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import pytest

from skillpouch import SkillManager
from skillpouch.environment import state_directory
from skillpouch.errors import NoPlaceError
from skillpouch.journal.reading import JournalReader, Query
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

MakeManager = Callable[..., SkillManager]
SCRIPTS = {
    "scripts/echo.sh": "cat\n",
    "scripts/fail.sh": "echo out; echo err >&2; exit 3\n",
    "scripts/hang.sh": "echo ready; setsid sleep 1000 & sleep 1000\n",
    "scripts/hear.py": "def main(n: int = 0) -> dict:\n    return {'n': n}\n",
}


@pytest.fixture
def manager_of(write_skill: WriteSkill, tmp_path: Path) -> MakeManager:
    def make(files: dict[str, str] = SCRIPTS) -> SkillManager:
        (tmp_path / "workspace").mkdir()
        root = write_skill(files=files).parent
        return SkillManager(root, workspace=tmp_path / "workspace", cache=False)

    return make


@pytest.fixture
def alive() -> Callable[[str], list[str]]:
    """Processes that carry a word in their command line."""

    def find(word: str) -> list[str]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    line = (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                found += [line.decode(errors="replace")] if word.encode() in line else []
        return found

    return find


def hanging() -> tuple[str, dict[str, str]]:
    """A script that leaves the session, and a word that marks all its processes."""
    word = secrets.token_hex(8)
    sleep = f"sh -c 'echo ready; sleep 1000; : {word}'"
    return word, {"scripts/hang.sh": f"setsid {sleep} & {sleep}\n"}


async def test_a_blocking_call_works_inside_a_running_loop(manager_of: MakeManager) -> None:
    assert manager_of().call("echo", [1]).structured == [1]


def test_a_blocking_call_works_from_many_threads(manager_of: MakeManager) -> None:
    manager = manager_of()

    with ThreadPoolExecutor(16) as threads:
        answers = list(threads.map(lambda n: manager.call("echo", n).structured, range(100)))

    assert answers == list(range(100))


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_blocking_call_works_after_a_fork_in_parent_and_child(manager_of: MakeManager) -> None:
    manager = manager_of()
    assert manager.call("echo", 1).structured == 1

    pid = os.fork()
    if pid == 0:
        good = all(manager.call("echo", n).structured == n for n in range(5))
        os._exit(0 if good else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert manager.call("echo", 2).structured == 2


def test_control_c_cancels_the_call_and_kills_its_tree(
    manager_of: MakeManager, alive: Callable[[str], list[str]]
) -> None:
    word, files = hanging()
    main = threading.get_ident()
    once = iter([signal.SIGINT])  # a second one would end the wait for the tree to be gone

    with pytest.raises(KeyboardInterrupt):
        manager_of(files).call(
            "hang", on_output=lambda *_: signal.pthread_kill(main, next(once, 0))
        )

    assert alive(word) == []


async def test_cancelling_kills_the_tree_before_it_is_told(
    manager_of: MakeManager, alive: Callable[[str], list[str]]
) -> None:
    word, files = hanging()
    started = asyncio.Event()
    manager = manager_of(files)
    task = asyncio.create_task(manager.acall("hang", on_output=lambda *_: started.set()))
    await started.wait()
    assert alive(word)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert alive(word) == []


async def test_the_message_of_a_cancellation_is_told_where_the_call_was_awaited(
    manager_of: MakeManager,
) -> None:
    started = asyncio.Event()
    call = manager_of().acall("hang", on_output=lambda *_: started.set())
    task = asyncio.create_task(call)
    await started.wait()

    task.cancel("the user left")
    with pytest.raises(asyncio.CancelledError) as told:
        await task

    assert told.value.args == ("the user left",)


async def test_a_call_that_somebody_ended_is_recorded_with_its_duration(
    manager_of: MakeManager,
) -> None:
    started = asyncio.Event()
    call = manager_of().acall("hang", on_output=lambda *_: started.set())
    task = asyncio.create_task(call)
    await started.wait()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)

    with JournalReader(state_directory()) as reader:
        (entry,) = reader.after(Query())

    assert entry.outcome == "cancelled"
    assert entry.duration_ms is not None
    assert entry.duration_ms > 0


async def test_a_deadline_of_anyio_ends_the_call_inside_it_and_nothing_else(
    manager_of: MakeManager,
) -> None:
    manager = manager_of()

    with anyio.move_on_after(0.2) as scope:  # it knows its own cancellations by their message
        await manager.acall("hang")

    assert scope.cancelled_caught
    assert (await manager.acall("echo", 1)).structured == 1


async def test_a_call_cancelled_at_once_leaves_nothing(manager_of: MakeManager) -> None:
    manager = manager_of()
    manager.discover()
    tasks = [asyncio.create_task(manager.acall("hang")) for _ in range(20)]
    for turns, task in enumerate(tasks):
        for _ in range(turns % 4):
            await asyncio.sleep(0)
        task.cancel()

    ended = await asyncio.gather(*tasks, return_exceptions=True)

    assert {type(end) for end in ended} == {asyncio.CancelledError}
    assert (await manager.acall("echo", 1)).structured == 1


async def test_two_hundred_mixed_calls_at_once_all_give_their_own_answer(
    manager_of: MakeManager,
) -> None:
    manager = manager_of()

    async def one(number: int) -> bool:
        if number % 20 == 0:
            return bool((await manager.acall("hear", {"n": number})).structured == {"n": number})
        if number % 20 == 1:
            try:
                return (await manager.acall("hang", timeout=0.3)).outcome == "timed_out"
            except NoPlaceError:
                return True  # it waited for a process in all the time that it had
        if number % 20 == 2:
            return (await manager.acall("fail")).exit_code == 3
        return bool((await manager.acall("echo", {"n": number})).structured == {"n": number})

    assert all(await asyncio.gather(*map(one, range(200))))
