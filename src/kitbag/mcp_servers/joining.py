"""Joining MCP servers to a manager: their tools are found, listed and called like its own."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from mcp.shared.exceptions import MCPError

from kitbag.errors import KitbagError
from kitbag.loop_thread import run_blocking, run_on_thread
from kitbag.manager import SkillManager
from kitbag.mcp_servers.connection import Connection
from kitbag.mcp_servers.tools import tool_of
from kitbag.policy.mcp_entries import McpEntry
from kitbag.tools import Tool

_log = logging.getLogger(__name__)


class McpServers:
    """The servers that were joined. Use it in `with` or `async with`: leaving ends them all.

    A server that cannot be reached is left out, and `problems` say why; the others are there.
    """

    def __init__(self, manager: SkillManager, entries: Sequence[McpEntry]) -> None:
        self._manager = manager
        self._entries = tuple(entries)
        self._connections: dict[str, Connection] = {}
        self.problems: dict[str, KitbagError] = {}

    async def join(self) -> None:
        """Connect all servers, and add their tools to the manager."""
        await run_on_thread(self._join())

    async def leave(self) -> None:
        """Take the tools out, and end the servers."""
        for entry in self._entries:
            self._manager.source.drop(entry.skill)
        await run_on_thread(self._leave())

    async def _join(self) -> None:
        workspace = self._manager.executor.workspace
        found = await asyncio.gather(*(self._tools(entry, workspace) for entry in self._entries))
        for entry, tools in zip(self._entries, found, strict=True):
            if tools:
                self._manager.source.put(entry.skill, tools)

    async def _tools(self, entry: McpEntry, workspace: Path) -> list[Tool]:
        connection = self._connections[entry.name] = Connection(entry, workspace)
        try:
            found = await connection.tools()
        except (KitbagError, MCPError) as error:
            known = error if isinstance(error, KitbagError) else KitbagError(error.message)
            self.problems[entry.name] = known
            _log.warning("%s", known)
            return []
        wanted = [each for each in found if not entry.tools or each.name in entry.tools]
        return [tool_of(entry, each, connection) for each in wanted]

    async def _leave(self) -> None:
        await asyncio.gather(*(each.close() for each in self._connections.values()))

    async def __aenter__(self) -> Self:
        await self.join()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    def __enter__(self) -> Self:
        run_blocking(self.join())
        return self

    def __exit__(self, *_: object) -> None:
        run_blocking(self.leave())
