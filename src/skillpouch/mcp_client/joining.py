"""Joining MCP servers to a manager: their tools are found, listed and called like its own."""

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Self

from mcp.shared.exceptions import MCPError
from mcp_types import Tool as McpTool

from skillpouch.errors import SkillpouchError
from skillpouch.manager import SkillManager
from skillpouch.mcp_client.connection import Connection
from skillpouch.mcp_client.errors import McpToolNamesError
from skillpouch.mcp_client.tools import has_usable_name, tool_of
from skillpouch.policy.mcp_entries import McpEntry
from skillpouch.runtime.loop_thread import run_blocking, run_on_thread
from skillpouch.tools import Tool

_log = logging.getLogger(__name__)


class McpServers:
    """The servers that were joined. Use it in `with` or `async with`: leaving ends them all.

    A server that cannot be reached is left out, and so is a tool whose name is no name;
    `problems` say why. Everything else is there.
    """

    def __init__(self, manager: SkillManager, entries: Sequence[McpEntry]) -> None:
        self._manager = manager
        self._entries = tuple(entries)
        self._connections: dict[str, Connection] = {}
        self.problems: dict[str, SkillpouchError] = {}

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
        except (SkillpouchError, MCPError) as error:
            known = error if isinstance(error, SkillpouchError) else SkillpouchError(error.message)
            self._tell(entry, known)
            return []
        # Last first: of two with one name, the first is kept.
        named = {each.name: each for each in reversed(found)}
        wanted = [each for each in found if named[each.name] is each and _is_wanted(entry, each)]
        usable = [each for each in wanted if has_usable_name(each)]
        if refused := [each.name for each in wanted if each not in usable]:
            self._tell(entry, McpToolNamesError(entry.name, refused))
        return [tool_of(entry, each, connection) for each in usable]

    def _tell(self, entry: McpEntry, problem: SkillpouchError) -> None:
        self.problems[entry.name] = problem
        _log.warning("%s", problem)

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


def _is_wanted(entry: McpEntry, found: McpTool) -> bool:
    return not entry.tools or found.name in entry.tools
