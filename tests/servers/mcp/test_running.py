"""A call while it runs: progress, cancellation, limits, and what a server that stops does."""

import asyncio
import fcntl
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.client.client import Client
from mcp.shared.exceptions import MCPError

from skillpouch import tool
from skillpouch.servers.mcp import McpLimits, McpServer
from skillpouch.servers.mcp.calls import GrowingNumbers
from skillpouch.tools import Tool
from tests.servers.mcp.conftest import NewManager
from tests.servers.mcp.serving import ERAS, PATIENCE_SECONDS, Era, listening
from tests.servers.mcp.test_tools import text_of

pytestmark = pytest.mark.slow


async def until(fact: Callable[[], object]) -> None:
    """Wait for something to be so."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not fact():
            await asyncio.sleep(0.02)


def is_sign_of_life(message: str | None) -> bool:
    """Tell whether a report only says that a silent call runs: on a busy machine one may come."""
    return (message or "").startswith("runs for ")


@pytest.mark.parametrize("era", ERAS)
async def test_what_a_tool_prints_is_progress(new_manager: NewManager, era: Era) -> None:
    heard: list[tuple[float, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        del total
        if not is_sign_of_life(message):
            heard.append((progress, message))

    async with listening(McpServer(new_manager())) as url, Client(url, mode=era) as client:
        call = client.call_tool("demo__slow", {}, progress_callback=on_progress)
        running = asyncio.create_task(call)
        await until(lambda: len(heard) > 1)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    assert all(message is not None and message.startswith("step ") for _, message in heard)
    assert [progress for progress, _ in heard] == sorted({progress for progress, _ in heard})


REPORTS = """
import json, os, pathlib, time

def report(**said):
    with open(os.environ["SKILLPOUCH_PROGRESS"], "a") as file:
        print(json.dumps(said), file=file)

if __name__ == "__main__":
    report(done=1, total=4, message="one")
    while not pathlib.Path("go").exists():
        time.sleep(0.02)
    report(done=3)
    while not pathlib.Path("go on").exists():
        time.sleep(0.02)
"""


@pytest.mark.usefixtures("writes_directly")
@pytest.mark.parametrize("era", ERAS)
async def test_what_a_tool_reports_is_progress_of_its_total(
    new_manager: NewManager, workspace: Path, tmp_path: Path, era: Era
) -> None:
    (tmp_path / "skills/demo/scripts/reports.py").write_text(REPORTS)
    heard: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        if is_sign_of_life(message):
            return
        heard.append((progress, total, message))
        (workspace / ("go" if len(heard) == 1 else "go on")).touch()

    async with listening(McpServer(new_manager())) as url, Client(url, mode=era) as client:
        result = await client.call_tool("demo__reports", {}, progress_callback=on_progress)

    assert not result.is_error, text_of(result)
    assert heard == [(1.0, 4.0, "one"), (3.0, 4.0, "one")]


@given(st.lists(st.tuples(st.floats(0, 1e12), st.none() | st.floats(0, 1e12)), max_size=60))
def test_numbers_for_a_client_always_grow_and_keep_their_ratio(
    steps: list[tuple[float, float | None]],
) -> None:
    numbers, sent = GrowingNumbers(), -1.0

    for done, total in steps:
        progress, shown = numbers.next(done, total)

        assert sent < progress < math.inf
        assert shown is None or shown < math.inf
        if shown and total:
            assert math.isclose(progress / shown, done / total, rel_tol=1e-6, abs_tol=1e-6)
        sent = progress


@pytest.mark.usefixtures("writes_directly")
@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_call_ends_and_leaves_nothing_running(
    new_manager: NewManager, workspace: Path, era: Era
) -> None:
    server = McpServer(new_manager())
    async with listening(server) as url, Client(url, mode=era) as client:
        running = asyncio.create_task(client.call_tool("demo__slow", {}))
        await until((workspace / "started").exists)
        assert is_slow_running(workspace)

        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

        await until(lambda: server.admission.running == 0)
        await until(lambda: not is_slow_running(workspace))


def is_slow_running(workspace: Path) -> bool:
    """Tell whether somebody holds the lock that `demo.slow` takes: only the dead let go."""
    with (workspace / "lock").open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class Held:
    """A tool that waits until it is let go, and counts how many of it run at once."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.running = self.most = 0

    def tool(self) -> Tool:
        @tool(name="held")
        async def held() -> str:
            self.running += 1
            self.most = max(self.most, self.running)
            await self.go.wait()
            self.running -= 1
            return "let go"

        return held


async def test_no_more_calls_run_at_once_than_the_limit_and_all_are_answered(
    new_manager: NewManager,
) -> None:
    held = Held()
    server = McpServer(new_manager(), tools=[held.tool()], limits=McpLimits(most_running=2))
    async with listening(server) as url, Client(url) as client:
        calls = [asyncio.create_task(client.call_tool("held", {})) for _ in range(5)]
        await until(lambda: server.admission.waiting == 3)
        held.go.set()
        results = await asyncio.gather(*calls)

    assert ([text_of(result) for result in results], held.most) == (["let go"] * 5, 2)


async def test_a_call_more_than_can_wait_is_told_that_the_server_is_busy(
    new_manager: NewManager,
) -> None:
    held = Held()
    limits = McpLimits(most_running=1, most_waiting=1)
    server = McpServer(new_manager(), tools=[held.tool()], limits=limits)
    async with listening(server) as url, Client(url) as client:
        first = asyncio.create_task(client.call_tool("held", {}))
        await until(lambda: held.running == 1)
        second = asyncio.create_task(client.call_tool("held", {}))
        await until(lambda: server.admission.waiting == 1)
        with pytest.raises(MCPError, match="the server is busy"):
            await client.call_tool("held", {})
        held.go.set()
        answers = await asyncio.gather(first, second)

    assert [text_of(answer) for answer in answers] == ["let go", "let go"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_server_that_stops_lets_a_running_call_finish(
    new_manager: NewManager, era: Era
) -> None:
    held = Held()
    server = McpServer(new_manager(), tools=[held.tool()])
    async with listening(server) as url:
        client = await Client(url, mode=era).__aenter__()
        call = asyncio.create_task(client.call_tool("held", {}))
        await until(lambda: held.running == 1)
        stopping = asyncio.create_task(server.admission.drain(PATIENCE_SECONDS))
        await until(lambda: server.admission.is_stopping)

        with pytest.raises(MCPError, match="stopping"):
            await client.call_tool("held", {})
        held.go.set()
        answer = await call
        await client.__aexit__(None, None, None)

    assert (text_of(answer), await stopping) == ("let go", True)
