"""Lists that change while clients are connected, told in the way each protocol has."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.subscriptions import ToolsListChanged

from skillpouch.servers.mcp import McpServer
from tests.servers.mcp.conftest import NewManager
from tests.servers.mcp.serving import PATIENCE_SECONDS, listening

pytestmark = pytest.mark.slow


async def test_a_client_that_shook_hands_is_told_that_tools_changed(
    new_manager: NewManager, tmp_path: Path
) -> None:
    told: asyncio.Queue[str] = asyncio.Queue()

    async def hear(message: Any) -> None:
        told.put_nowait(getattr(message, "method", type(message).__name__))

    server = McpServer(new_manager())
    async with (
        listening(server) as url,
        Client(url, mode="legacy", message_handler=hear) as client,
    ):
        before = [tool.name for tool in (await client.list_tools()).tools]
        await told_of(server, told)
        add_script(tmp_path)
        await told_of(None, told)
        after = [tool.name for tool in (await client.list_tools()).tools]

    assert set(after) - set(before) == {"demo__later"}


async def test_a_client_that_listens_is_told_that_tools_changed(
    new_manager: NewManager, tmp_path: Path
) -> None:
    server = McpServer(new_manager())
    async with listening(server) as url, Client(url, mode="auto") as client:
        await client.list_tools()
        async with client.listen(tools_list_changed=True) as events:
            add_script(tmp_path)
            async with asyncio.timeout(PATIENCE_SECONDS):
                event = await anext(aiter(events))
        after = [tool.name for tool in (await client.list_tools()).tools]

    assert event == ToolsListChanged()
    assert "demo__later" in after


async def test_a_list_does_not_change_by_itself(
    new_manager: NewManager,
) -> None:
    """Not as a side effect of another request: only a change that is told of changes a list."""
    server = McpServer(new_manager())
    async with listening(server) as url, Client(url, mode="legacy") as client:
        before = (await client.list_tools()).tools
        await client.call_tool("demo__echo", {"text": "x"})
        await client.list_prompts()
        after = (await client.list_tools()).tools

    assert before == after


def add_script(folder: Path) -> None:
    (folder / "skills/demo/scripts/later.py").write_text('"""Come later."""\nprint(1)\n')


async def told_of(server: McpServer | None, told: "asyncio.Queue[str]") -> None:
    """Wait until it is heard; with a server, which says it until then.

    A client opens the stream that carries news in its own time.
    """
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if server is not None:
                await server.announce()
            try:
                method = await asyncio.wait_for(told.get(), 1.0)
            except TimeoutError:
                continue
            if method == "notifications/tools/list_changed":
                break
        if server is not None:
            while not told.empty():
                told.get_nowait()
