"""Calls as LangChain tools make them: a tool by its id, or a skill by its name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from skillpouch.errors import UnboundToolError
from skillpouch.results import ToolResult
from skillpouch.runtime.memoize import Shared
from skillpouch.tools import Caller


class Call(Protocol):
    """Something to call, blocking or awaited."""

    def call(self, given: Any, /) -> ToolResult: ...
    async def acall(self, given: Any, /) -> ToolResult: ...


class _Nobody:
    """Runs nothing: for tools that have left the process of their caller."""

    async def execute(self, name: str, args: Any = None) -> ToolResult:
        return self.execute_sync(name, args)

    def execute_sync(self, name: str, args: Any = None) -> ToolResult:  # noqa: ARG002 - theirs
        raise UnboundToolError(name)

    def __reduce__(self) -> str:
        return "_NOBODY"


_NOBODY = _Nobody()


@dataclass(frozen=True, slots=True)
class ToolById(Shared):
    """One tool of whoever runs it. By id: after a reload it is the tool that has it then.

    In another process nobody runs it: make the tools there.
    """

    caller: Caller = field(compare=False)
    id: str

    def __reduce__(self) -> tuple[Any, ...]:
        return ToolById, (_NOBODY, self.id)

    def call(self, given: Any, /) -> ToolResult:
        return self.caller.execute_sync(self.id, given)

    async def acall(self, given: Any, /) -> ToolResult:
        return await self.caller.execute(self.id, given)


@dataclass(frozen=True, slots=True)
class SkillByName(Shared):
    """One skill; what it gives is what `SkillManager.invoke_skill` returns."""

    caller: Caller = field(compare=False)
    name: str

    def __reduce__(self) -> tuple[Any, ...]:
        return SkillByName, (_NOBODY, self.name)

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
