"""Every example tool, from clients that others wrote, answers what the library answers."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager, SkillpouchError
from skillpouch.servers.faults import said
from skillpouch.servers.mcp import LongCalls, McpServer
from tests.effort import all_but_exhaustive
from tests.servers.mcp.example_calls import CALLS, EXAMPLES, fill
from tests.servers.mcp.serving import ERAS, Era, arguments_for, listening, over_stdio
from tests.servers.mcp.test_tools import text_of

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[3]
CLIENTS = REPOSITORY / "build/clients"
# As the library does it: otherwise a call that has to be approved would wait for that.
DENYING = LongCalls(approvals="nobody")
PROGRAM = Path(__file__).with_name("node_client.mjs")


@pytest.fixture
def expected(workspace: Path) -> dict[str, str]:
    """What each call gives when no server is between."""
    fill(workspace)
    manager = SkillManager(EXAMPLES, workspace=workspace)
    return {manager.get_tool(name).name: answer(manager, name) for name in CALLS}


def answer(manager: SkillManager, name: str) -> str:
    try:
        return manager.call(name, CALLS[name]).content
    except SkillpouchError as error:
        return said(error)


def calls_by_name(workspace: Path) -> dict[str, Any]:
    manager = SkillManager(EXAMPLES, workspace=workspace)
    return {manager.get_tool(name).name: arguments for name, arguments in CALLS.items()}


@pytest.mark.timeout(300)
@pytest.mark.parametrize("era", all_but_exhaustive(ERAS, ERAS[-1:]))
async def test_the_python_client_calls_every_example_tool_over_stdio(
    workspace: Path, expected: dict[str, str], era: Era
) -> None:
    async with over_stdio(
        *arguments_for(EXAMPLES, workspace=workspace, more=("--approvals", "nobody")), era=era
    ) as client:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        answers = {
            name: text_of(await client.call_tool(name, arguments))
            for name, arguments in calls_by_name(workspace).items()
        }

    assert listed == set(expected)
    assert answers == expected


@pytest.mark.timeout(300)
@pytest.mark.parametrize("era", ERAS)
async def test_the_python_client_calls_every_example_tool_over_http(
    workspace: Path, expected: dict[str, str], era: Era
) -> None:
    from mcp.client.client import Client

    manager = SkillManager(EXAMPLES, workspace=workspace)
    async with (
        listening(McpServer(manager, long_calls=DENYING)) as url,
        Client(url, mode=era) as client,
    ):
        listed = {tool.name for tool in (await client.list_tools()).tools}
        answers = {
            name: text_of(await client.call_tool(name, arguments))
            for name, arguments in calls_by_name(workspace).items()
        }

    assert listed == set(expected)
    assert answers == expected


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("client", "transport"),
    [
        ("sdk", "stdio"),
        pytest.param("sdk", "http", marks=pytest.mark.exhaustive),
        ("client-legacy", "http"),
        pytest.param("client-modern", "stdio", marks=pytest.mark.exhaustive),
        ("client-modern", "http"),
    ],
)
async def test_the_node_clients_call_every_example_tool(
    workspace: Path, expected: dict[str, str], transport: str, client: str
) -> None:
    manager = SkillManager(EXAMPLES, workspace=workspace)
    order = {"client": client, "calls": calls_by_name(workspace)}
    if transport == "stdio":
        words = arguments_for(EXAMPLES, workspace=workspace, more=("--approvals", "nobody"))
        told = await by_node({**order, "command": sys.executable, "args": words})
    else:
        async with listening(McpServer(manager, long_calls=DENYING)) as url:
            told = await by_node({**order, "url": url})

    assert set(told["tools"]) == set(expected)
    assert told["answers"] == expected
    if client == "client-modern":
        names = {skill.metadata.name for skill in manager.list_skills()}
        assert set(told["skills"]) == names - {"pdf-extractor", "weather"}
        assert told["verified"] == sum(told["files"].values())


async def by_node(order: dict[str, Any]) -> Any:
    import asyncio

    if not (CLIENTS / "node_modules").is_dir():
        pytest.fail("there are no clients to try; run `make clients`")
    node = shutil.which("node")
    assert node is not None
    ran = await asyncio.to_thread(
        subprocess.run,
        [node, str(PROGRAM), str(CLIENTS)],
        input=json.dumps({**order, "env": dict(os.environ)}).encode(),
        capture_output=True,
        timeout=250,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr.decode()
    return json.loads(ran.stdout)
