"""Calls as LangChain tools make them: a tool by its id, or a skill by its name."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from kitbag.results import ToolResult
from kitbag.tools import Caller


class Call(Protocol):
    """Something to call, blocking or awaited."""

    def call(self, given: Any, /) -> ToolResult: ...
    async def acall(self, given: Any, /) -> ToolResult: ...


@dataclass(frozen=True, slots=True)
class ToolById:
    """One tool of whoever runs it. By id: after a reload it is the tool that has it then."""

    caller: Caller
    id: str

    def call(self, given: Any, /) -> ToolResult:
        return self.caller.execute_sync(self.id, given)

    async def acall(self, given: Any, /) -> ToolResult:
        return await self.caller.execute(self.id, given)


@dataclass(frozen=True, slots=True)
class SkillByName:
    """One skill; what it gives is what `SkillManager.invoke_skill` returns."""

    caller: Caller
    name: str

    def call(self, given: Any, /) -> ToolResult:
        return _plain(self.caller.execute_sync("activate_skill", self._arguments(given)))

    async def acall(self, given: Any, /) -> ToolResult:
        return _plain(await self.caller.execute("activate_skill", self._arguments(given)))

    def _arguments(self, given: Any) -> dict[str, Any]:
        said = given if isinstance(given, Mapping) else {"arguments": given or ""}
        return {**said, "name": self.name}


def _plain(result: ToolResult) -> ToolResult:
    if result.is_error:
        return result
    return replace(result, content=result.structured["instructions"])
