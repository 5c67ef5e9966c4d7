"""Runs the calls that a model provider sends side by side, and answers them in order."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillpouch.errors import SkillpouchError, UnknownToolError
from skillpouch.integrations.long_calls import (
    JOB_NAMES,
    LongCallOptions,
    call_tool,
    tools_for_jobs,
)
from skillpouch.integrations.model_results import failure_text, refusal_text
from skillpouch.integrations.selection import (
    Bound,
    Tools,
    ToolSelection,
    bound,
    chosen_tools,
    kept_skills,
)
from skillpouch.integrations.strict_schemas import without_nulls
from skillpouch.manager import SkillManager
from skillpouch.results import Attachment, ToolResult
from skillpouch.tools import Tool, model_schema

EVERYTHING = ToolSelection()


@dataclass(frozen=True, slots=True, kw_only=True)
class WireCall:
    """One call; `arguments` is an object, or its JSON text."""

    id: str
    name: str
    arguments: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class WireAnswer:
    """What one call gave, for a model; `result` is there when the tool ran."""

    call: WireCall
    text: str
    is_error: bool = False
    images: tuple[Attachment, ...] = ()
    result: ToolResult | None = None

    @property
    def told(self) -> str:
        """The text for interfaces that have no field for errors: it says so itself."""
        return f"Error: {self.text}" if self.is_error else self.text


class WireCalls:
    """Makes the calls of a model, of the tools that it may be offered."""

    def __init__(
        self, tools: Tools, wanted: ToolSelection, long_calls: LongCallOptions | None
    ) -> None:
        self._options = long_calls or LongCallOptions()
        self._finder = _Finder(tools, wanted, self._options)

    async def answers(self, calls: Sequence[WireCall]) -> list[WireAnswer]:
        """Make the calls side by side and return the answers in the order of the calls."""
        answering = (_answer(call, self._finder, self._options) for call in calls)
        return list(await asyncio.gather(*answering))

    def known(self, calls: Sequence[WireCall]) -> list[WireCall]:
        """Return the calls of tools that are among those wanted."""
        return [call for call in calls if self._finder.knows(call.name)]


class _Finder:
    """Finds what a model may call: what it was not offered it cannot call by guessing names."""

    def __init__(self, tools: Tools, wanted: ToolSelection, options: LongCallOptions) -> None:
        self._manager = tools if isinstance(tools, SkillManager) else None
        self._wanted = wanted
        self._options = options
        found = [] if isinstance(tools, SkillManager) else bound(chosen_tools(tools, wanted))
        self._tools = {tool.name: (tool, caller) for tool, caller in found}

    def find(self, name: str) -> Bound:
        try:
            return self._find(name)
        except UnknownToolError:
            if name not in JOB_NAMES or not self._options.is_on:
                raise
        source = self._manager or [tool for tool, _ in self._tools.values()]
        for_jobs = {tool.name: tool for tool in tools_for_jobs(source, self._options)}
        return bound([for_jobs[name]])[0]

    def _find(self, name: str) -> Bound:
        if self._manager is not None:
            return bound([self._offered(self._manager, name)])[0]
        if name not in self._tools:
            raise UnknownToolError(name, known=self._tools)
        return self._tools[name]

    def knows(self, name: str) -> bool:
        try:
            self.find(name)
        except SkillpouchError:
            return False
        return True

    def _offered(self, manager: SkillManager, name: str) -> Tool:
        tool = manager.get_tool(name)
        if tool.skill in kept_skills(manager) or not self._wanted.tool(tool):
            known = [each.name for each in chosen_tools(manager, self._wanted)]
            raise UnknownToolError(name, known=known)
        return tool


async def _answer(call: WireCall, finder: _Finder, options: LongCallOptions) -> WireAnswer:
    try:
        given = _arguments(call)
    except ValueError as error:
        text = f"the arguments of {call.name} are not a JSON object: {error}"
        return WireAnswer(call=call, text=text, is_error=True)
    try:
        tool, caller = await asyncio.to_thread(finder.find, call.name)
        arguments = without_nulls(given, model_schema(tool.input_schema))
        result = await call_tool(caller, tool.id, arguments, options)
    except SkillpouchError as error:
        return WireAnswer(call=call, text=refusal_text(error), is_error=True)
    if result.is_error:
        return WireAnswer(call=call, text=failure_text(result), is_error=True, result=result)
    images = tuple(each for each in result.attachments if each.type.startswith("image/"))
    return WireAnswer(call=call, text=result.content, images=images, result=result)


def _arguments(call: WireCall) -> Mapping[str, Any]:
    given = call.arguments
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except RecursionError:
            raise ValueError("nested too deep") from None
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"{given!r:.60}")  # noqa: TRY004 - one kind of trouble
    return given


def field(value: Any, name: str, default: Any = None) -> Any:
    """Return a field of what an SDK gives, be it an object or the dictionary it stands for."""
    if isinstance(value, Mapping):
        return value.get(name, default)
    return getattr(value, name, default)
