"""The tools that a script can call as commands, and the executor that every call goes through."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kitbag.executor import ToolExecutor
from kitbag.results import ToolResult
from kitbag.shell.tool_def import ToolDef
from kitbag.tools import Tool

Folders = dict[str, dict[str, bytes]]


def _no_folders(_script: str) -> Folders:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolbox:
    """Commands by name. `tool` finds what runs for one; `folders` are files a script may read."""

    definitions: Mapping[str, ToolDef]
    executor: ToolExecutor
    tool: Callable[[str], Tool]
    ids: Mapping[str, str] = field(default_factory=dict)  # where a command is not called by its id
    folders: Callable[[str], Folders] = _no_folders

    async def call(self, name: str, params: Mapping[str, Any], stdin: str | None) -> ToolResult:
        """Run a tool; raises what `ToolExecutor.execute` raises."""
        return await self.executor.execute(self.ids.get(name, name), params, stdin)
