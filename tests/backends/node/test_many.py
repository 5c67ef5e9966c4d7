"""Many calls of handlers, and Nodes that die while they wait: right answers, nothing kept."""

import asyncio
import contextlib
import os
import signal
import time
from pathlib import Path

import pytest

from skillpouch import SkillManager
from tests.backends.node.cases import handler
from tests.backends.node.conftest import NewManager
from tests.effort import few_or_many

pytestmark = pytest.mark.slow

WHO = {"who.mjs": handler("return process.pid;")}


def waiting_in(folder: Path) -> list[int]:
    """The Nodes that wait for a call with this workspace."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            if b"--wait" in words and (entry / "cwd").readlink() == folder:
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return found


def workspace_of(manager: SkillManager) -> Path:
    return manager.roots[0].parent / "workspace"


@pytest.mark.promise("warm-7")
def test_calls_that_follow_each_other_at_once_each_have_a_fresh_node(
    manager_of: NewManager,
) -> None:
    manager = manager_of({"n.mjs": handler("return (globalThis.n = (globalThis.n ?? 0) + 1);")})

    results = [manager.call("n") for _ in range(30)]

    assert {(each.outcome, each.structured, each.warm) for each in results} == {("ok", 1, True)}


async def test_fifty_calls_at_once_each_get_their_own_answer(manager_of: NewManager) -> None:
    manager = manager_of({"n.mjs": handler("return Number(process.env.TOOL_ARGS.length);")})

    results = await asyncio.gather(*(manager.acall("n", stdin="x" * n) for n in range(50)))

    assert {(each.outcome, each.structured, each.warm) for each in results} == {("ok", 2, True)}
    assert len(waiting_in(workspace_of(manager))) <= 3


@pytest.mark.promise("warm-6")
def test_a_node_that_was_killed_while_it_waited_is_replaced(manager_of: NewManager) -> None:
    manager = manager_of(WHO)
    manager.call("who")

    for _ in range(5):
        for pid in waiting_in(workspace_of(manager)):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        result = manager.call("who")  # at once: its end may not have been noticed yet

        assert (result.outcome, result.signal, result.stderr) == ("ok", None, "")
        assert result.warm or result.cold_because == "the process that waited for it had ended"


async def test_calls_are_answered_while_waiting_nodes_are_killed(manager_of: NewManager) -> None:
    manager = manager_of({"slow.mjs": handler("return args;")})
    folder = workspace_of(manager)
    done = asyncio.Event()

    async def kill() -> None:
        while not done.is_set():
            for pid in waiting_in(folder)[:1]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            await asyncio.sleep(0.05)

    killing = asyncio.ensure_future(kill())
    results = await asyncio.gather(*(manager.acall("slow") for _ in range(40)))
    done.set()
    await killing

    # A Node may be killed when it has just begun its call: then the call says so.
    assert {(each.outcome, each.signal) for each in results} <= {("ok", None), ("failed", 9)}
    assert sum(each.outcome == "ok" for each in results) > 20


@pytest.mark.timeout(180)
@few_or_many("calls", 40, 200)
def test_hundreds_of_calls_leave_memory_descriptors_and_processes_flat(
    manager_of: NewManager, calls: int
) -> None:
    manager = manager_of(WHO)
    folder = workspace_of(manager)
    for _ in range(20):
        manager.call("who")
    settle(folder)
    before = held()

    for _ in range(calls):
        assert manager.call("who").outcome == "ok"
    settle(folder)
    after = held()

    assert after["descriptors"] <= before["descriptors"]
    assert after["kibibytes"] - before["kibibytes"] < 2048
    assert len(waiting_in(folder)) <= 3


def settle(folder: Path) -> None:
    """Wait until nothing is being started any more."""
    seen: list[int] = []
    for _ in range(200):
        now = sorted(waiting_in(folder))
        if now and now == seen:
            return
        seen = now
        time.sleep(0.2)


def held() -> dict[str, int]:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "kibibytes": pages * os.sysconf("SC_PAGE_SIZE") // 1024,
    }
