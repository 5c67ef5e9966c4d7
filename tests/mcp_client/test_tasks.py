"""Servers that answer a call with a task: it is waited for, and cancelled when nobody waits."""

import asyncio
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError
from mcp_types import ListToolsResult, RequestParams, Tool

from skillpouch import SkillManager
from skillpouch.mcp_client import McpServers, parse_user_mcp
from skillpouch.mcp_client.tasks import TASKS, TasksOfServers, progress_here
from skillpouch.servers.mcp import LongCalls, McpServer
from tests.jobs.hosts import end_host
from tests.servers.mcp.serving import listening

pytestmark = pytest.mark.slow

GATED = """#!/bin/bash
# Wait for a file.
echo begun
for _ in $(seq 6000); do [ -e go ] && exit 0; sleep 0.01; done; exit 1
"""
FASTMCP = Path(__file__).parents[2] / "build/fastmcp/bin/python"
# A server of others with one tool that it always answers with a task.
THEIRS = """
import asyncio, sys
from fastmcp import FastMCP
from fastmcp_tasks import TasksExtension
server = FastMCP("theirs")
server.add_extension(TasksExtension(url="memory://"))
@server.tool(task=True)
async def nap(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "rested"
server.run(transport="http", host="127.0.0.1", port=int(sys.argv[1]), show_banner=False)
"""


@pytest.fixture(autouse=True)
def no_host_left(own_directories: None) -> Iterator[None]:  # noqa: ARG001 - it sets the folders
    yield
    end_host()


class TaskParams(RequestParams):
    task_id: str


def scripted_server(*states: dict[str, Any]) -> tuple[Server[Any], list[str]]:
    """Return a server whose task goes through some states, and what it was asked."""
    asked: list[str] = []
    facts = {"taskId": "t1", "createdAt": "", "lastUpdatedAt": "", "ttlMs": None}
    rest = iter(states)

    async def tools(_: Any, __: Any) -> ListToolsResult:
        return ListToolsResult(tools=[Tool(name="it", input_schema={"type": "object"})])

    async def call(_: Any, __: Any) -> Any:
        return {"resultType": "task", **facts, "status": "working", "pollIntervalMs": 1}

    async def get(_: Any, params: TaskParams) -> dict[str, Any]:
        asked.append(f"get {params.task_id}")
        return {"resultType": "complete", **facts, "pollIntervalMs": 1, **next(rest)}

    async def cancel(_: Any, params: TaskParams) -> dict[str, Any]:
        asked.append(f"cancel {params.task_id}")
        return {}

    server: Server[Any] = Server("scripted", on_list_tools=tools, on_call_tool=call)
    server.extensions = {TASKS: {}}
    server.add_request_handler("tasks/get", TaskParams, get)
    server.add_request_handler("tasks/cancel", TaskParams, cancel)
    return server, asked


WORKING = {"status": "working"}
DONE = {"status": "completed", "result": {"content": [{"type": "text", "text": "yes"}]}}


async def test_a_task_is_asked_about_until_it_has_ended() -> None:
    told: list[str | None] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
        told.append(message)

    half = {**WORKING, "statusMessage": "half"}
    server, asked = scripted_server(WORKING, half, half, DONE)

    async with Client(server, mode="auto", extensions=[TasksOfServers()]) as client:
        progress_here.set(report)
        result = await client.call_tool("it", {})

    assert result.content[0].text == "yes"  # type: ignore[union-attr]
    assert (asked, told) == (["get t1"] * 4, ["half"])


@pytest.mark.parametrize(
    ("state", "words", "after"),
    [
        ({"status": "failed", "error": {"code": -32000, "message": "broke"}}, "broke", []),
        ({"status": "failed"}, "the server says no more", []),
        ({"status": "cancelled", "statusMessage": "too old"}, "too old", []),
        ({"status": "input_required", "inputRequests": {}}, "asks for input", ["cancel t1"]),
    ],
)
async def test_a_task_that_ends_otherwise_is_an_error(
    state: dict[str, Any], words: str, after: list[str]
) -> None:
    server, asked = scripted_server(state)

    async with Client(server, mode="auto", extensions=[TasksOfServers()]) as client:
        with pytest.raises(MCPError, match=words):
            await client.call_tool("it", {})

    assert asked == ["get t1", *after]


async def test_who_stops_waiting_has_the_task_cancelled() -> None:
    server, asked = scripted_server(*[WORKING] * 10_000)

    async with Client(server, mode="auto", extensions=[TasksOfServers()]) as client:
        calling = asyncio.create_task(client.call_tool("it", {}))
        while len(asked) < 2:
            await asyncio.sleep(0)
        calling.cancel()
        with pytest.raises(asyncio.CancelledError):
            await calling

    assert asked[-1] == "cancel t1"


async def test_a_long_call_of_a_joined_server_is_a_task_there(
    manager: SkillManager, workspace: Path, tmp_path: Path
) -> None:
    home = tmp_path / "theirs/demo"
    (home / "scripts").mkdir(parents=True)
    (home / "SKILL.md").write_text("---\nname: demo\ndescription: Demo.\n---\n")
    (home / "scripts/gated.sh").write_text(GATED)
    theirs = SkillManager(tmp_path / "theirs", workspace=workspace, writes="direct")
    server = McpServer(theirs, long_calls=LongCalls(soft_limit_seconds=20))

    async with listening(server) as url:
        entries = parse_user_mcp(f'[[mcp]]\nname = "far"\nurl = "{url}"\n'.encode())
        async with McpServers(manager, entries) as servers:
            assert servers.problems == {}
            (workspace / "go").touch()
            result = await manager.acall("mcp:far.demo__gated", {})
            (workspace / "go").unlink()
            late = await manager.acall("mcp:far.demo__gated", {}, timeout=4)

    assert (late.outcome, result.content.splitlines()[0]) == ("timed_out", "begun")
    assert [job.state for job in theirs.jobs()] == ["cancelled", "done"]


@pytest.mark.exhaustive
async def test_a_server_made_with_fastmcp_is_waited_for(
    manager: SkillManager, tmp_path: Path
) -> None:
    if not FASTMCP.exists():
        pytest.fail("there is no server to try; run `make clients`")
    program = tmp_path / "theirs.py"
    program.write_text(THEIRS)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    process = subprocess.Popen([FASTMCP, program, str(port)], stderr=subprocess.PIPE)
    try:
        text = f'[[mcp]]\nname = "far"\nurl = "http://127.0.0.1:{port}/mcp"\n'
        async with asyncio.timeout(100):
            while True:
                async with McpServers(manager, parse_user_mcp(text.encode())) as servers:
                    if servers.problems:
                        await asyncio.sleep(0.1)
                        continue
                    result = await manager.acall("mcp:far.nap", {"seconds": 2})
                    late = await manager.acall("mcp:far.nap", {"seconds": 60}, timeout=2)
                    break
    finally:
        process.terminate()
        process.communicate(timeout=60)

    assert (result.content, late.outcome) == ("rested", "timed_out")
