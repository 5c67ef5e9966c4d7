"""Many calls at once, and the death of what serves them: every other call is answered."""

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from skillpouch import Limits, ScriptedTool, SkillManager
from skillpouch.servers.mcp import LongCalls, McpServer
from tests.conftest import WriteSkill
from tests.servers.mcp.conftest import NewManager
from tests.servers.mcp.serving import ERAS, Era, arguments_for, listening, over_stdio
from tests.servers.mcp.test_running import until
from tests.servers.mcp.test_tools import text_of
from tests.servers.processes import lineage, processes_with

# Calls run in the process of the server, whose children these tests kill.
HERE = LongCalls(soft_limit_seconds=0)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

# bench/mcp_calls.py makes 2,000; as many here as a busy machine answers in a few seconds.
CALLS = int(os.environ.get("SKILLPOUCH_LOAD_CALLS", "200"))
AT_ONCE = 64


async def echo_all(client: Client) -> list[Any]:
    """Call with different words, many at once; return what does not fit its call."""
    places = asyncio.Semaphore(AT_ONCE)

    async def call(number: int) -> Any:
        async with places:
            result = await client.call_tool("demo__echo", {"text": f"number {number}"})
            said = result.structured_content
            return None if said == {"said": f"number {number}"} else text_of(result)

    answers = await asyncio.gather(*(call(number) for number in range(CALLS)))
    return [answer for answer in answers if answer is not None]


@pytest.mark.parametrize("era", ERAS)
async def test_every_call_over_http_gets_its_own_answer(new_manager: NewManager, era: Era) -> None:
    manager = new_manager(limits=Limits(timeout_seconds=300))
    async with listening(McpServer(manager)) as url, Client(url, mode=era) as client:
        wrong = await echo_all(client)

    assert wrong == []


@pytest.mark.usefixtures("new_manager")
@pytest.mark.parametrize("era", ERAS)
async def test_every_call_over_stdio_gets_its_own_answer(
    tmp_path: Path, workspace: Path, era: Era
) -> None:
    words = arguments_for(tmp_path / "skills", workspace=workspace)
    async with over_stdio(*words, era=era) as client:
        wrong = await echo_all(client)

    assert wrong == []


@pytest.mark.usefixtures("writes_directly")
@pytest.mark.usefixtures("no_other_processes")
async def test_when_a_zygote_is_killed_its_call_fails_and_the_others_are_answered(
    write_skill: WriteSkill, new_manager: NewManager, workspace: Path
) -> None:
    """The other calls run for another skill, in the care of another zygote."""
    wait = "import pathlib, time\npathlib.Path('waiting').touch()\ntime.sleep(600)\n"
    write_skill("waits", files={"scripts/wait.py": wait})
    manager = new_manager(limits=Limits(timeout_seconds=300))
    async with listening(McpServer(manager, long_calls=HERE)) as url, Client(url) as client:
        doomed = asyncio.create_task(client.call_tool("waits__wait", {}))
        await until((workspace / "waiting").exists)
        zygotes = children()
        others = [
            asyncio.create_task(client.call_tool("demo__echo", {"text": str(number)}))
            for number in range(20)
        ]

        for pid in zygotes:
            os.kill(pid, signal.SIGKILL)
        lost = await doomed
        answers = await asyncio.gather(*others)

    assert lost.is_error
    assert [answer.structured_content for answer in answers] == [
        {"said": str(number)} for number in range(20)
    ]


@pytest.mark.usefixtures("writes_directly")
@pytest.mark.usefixtures("no_other_processes")
async def test_when_a_worker_is_killed_its_script_fails_and_the_others_are_answered(
    new_manager: NewManager, workspace: Path
) -> None:
    manager = new_manager(limits=Limits(timeout_seconds=300))
    script = ScriptedTool.over(manager)
    server = McpServer(manager, tools=[script.as_tool()])
    async with listening(server) as url, Client(url) as client:
        slow = {"commands": "echo before; demo.slow"}
        doomed = asyncio.create_task(client.call_tool("script", slow))
        await until((workspace / "started").exists)
        workers = [pid for pid in processes_with(b"worker/main.py") if os.getpid() in lineage(pid)]
        echo = asyncio.create_task(client.call_tool("demo__echo", {"text": "beside"}))

        for pid in workers:
            os.kill(pid, signal.SIGKILL)
        lost, beside = await asyncio.gather(doomed, echo)
        after = await asyncio.gather(
            *(
                client.call_tool("script", {"commands": f"demo.echo --text {n} | jq -r .said"})
                for n in range(8)
            )
        )
    script.close()

    assert workers
    assert (lost.is_error, "before" in text_of(lost)) == (True, True)
    assert beside.structured_content == {"said": "beside"}
    assert [text_of(answer) for answer in after] == [str(n) for n in range(8)]


def children() -> list[int]:
    """Return the processes that this one has started, from whichever thread."""
    tasks = Path("/proc/self/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split()]


@pytest.mark.usefixtures("writes_directly")
async def test_a_client_that_goes_in_the_middle_disturbs_no_other(
    new_manager: NewManager, workspace: Path
) -> None:
    server = McpServer(new_manager(limits=Limits(timeout_seconds=300)))
    async with listening(server) as url, Client(url, mode="auto") as staying:
        leaving = Client(url, mode="auto")
        client = await leaving.__aenter__()
        call = asyncio.create_task(client.call_tool("demo__slow", {}))
        await until((workspace / "started").exists)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        result = await staying.call_tool("demo__echo", {"text": "here"})
        await until(lambda: server.admission.running == 0)
        await leaving.__aexit__(None, None, None)

    assert result.structured_content == {"said": "here"}


async def test_memory_does_not_grow_with_calls(new_manager: NewManager) -> None:
    """A leak of a few kilobytes a call would show as megabytes."""
    from skillpouch import tool

    @tool
    async def nothing() -> str:
        """Do nothing."""
        return ""

    manager: SkillManager = new_manager(journal=False)
    async with listening(McpServer(manager, tools=[nothing])) as url, Client(url) as client:
        for _ in range(100):
            await client.call_tool("nothing", {})
        before = resident_bytes()
        for _ in range(300):
            await client.call_tool("nothing", {})
        grown = resident_bytes() - before

    assert grown < 4 * 1024 * 1024


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
