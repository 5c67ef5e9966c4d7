"""The tools that a script can call as commands, and the executor that every call goes through."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from kitbag.executor import ToolExecutor
from kitbag.results import ToolResult
from kitbag.shell.tool_def import ToolDef
from kitbag.tools import Tool

_LONGEST_BYTES = 8 * 1024 * 1024

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
    immediate: frozenset[str] = frozenset()  # commands that never wait, not even for somebody's yes

    @property
    def is_bare(self) -> bool:
        """Whether scripts find no files of skills."""
        return self.folders is _no_folders

    async def folders_for(self, script: str) -> Folders:
        """Return the files that a script may read; reading them may take a moment."""
        if self.is_bare:
            return {}
        return await asyncio.to_thread(self.folders, script)

    async def call(self, name: str, params: Mapping[str, Any], stdin: str | None) -> ToolResult:
        """Run a tool; raises what `ToolExecutor.execute` raises."""
        whole = _Whole()
        tool_id = self.ids.get(name, name)
        found = await self.executor.execute(tool_id, params, stdin, on_output=whole.hear)
        return whole.of(found) if found.truncated else found


class _Whole:
    """The standard output of one call, up to what a pipe of the engine takes."""

    def __init__(self) -> None:
        self._data = bytearray()
        self.is_too_long = False

    def hear(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        if stream == "stdout" and not self.is_too_long:
            self.is_too_long = len(self._data) + len(data) > _LONGEST_BYTES
            self._data += data

    def of(self, found: ToolResult) -> ToolResult:
        """Return a result with all of an output of which a model would be shown both ends."""
        text = self._data.decode("utf-8", "replace")
        value = found.structured
        if found.returned:  # cut only for a model, unless it was too long to be read as a value
            return replace(found, truncated=value is None)
        if self.is_too_long or text == found.stdout:
            return found
        is_page = isinstance(value, dict) and value.get("next_offset") is not None
        return replace(found, stdout=text, truncated=is_page)
