"""The tools that a script can call as commands, and the executor that every call goes through."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

from skillpouch.results import ToolResult
from skillpouch.shell.tool_def import ToolDef
from skillpouch.tools import Tool

if TYPE_CHECKING:
    from skillpouch.calls import OnOutput
    from skillpouch.registry.overlay import ToolSource

_LONGEST_BYTES = 8 * 1024 * 1024

Folders = dict[str, dict[str, bytes]]


class Executor(Protocol):
    """What calls go through: a ToolExecutor, or what finds that of a session."""

    async def execute(
        self,
        name: str,
        args: Any = None,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        on_output: "OnOutput | None" = None,
    ) -> ToolResult: ...

    def beside(self, tools: "ToolSource") -> "Executor": ...


def _no_folders(_script: str) -> Folders:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Toolbox:
    """Commands by name: what `offered` gives, another mapping whenever there are others.

    `tool` finds what runs for a command, and raises UnknownToolError for one that is gone;
    `folders` are files a script may read.
    """

    offered: Callable[[], Mapping[str, ToolDef]]
    executor: Executor
    tool: Callable[[str], Tool]
    changes: bool = False  # whether commands may come and go
    folders: Callable[[str], Folders] = _no_folders
    immediate: frozenset[str] = frozenset()  # commands that never wait, not even for somebody's yes

    @property
    def definitions(self) -> Mapping[str, ToolDef]:
        """The commands that there are now."""
        return self.offered()

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
        tool_id = self.tool(name).id if self.changes else name
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
