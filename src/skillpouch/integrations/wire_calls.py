"""Runs the calls that a model provider sends side by side, and answers them in order."""

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from skillpouch.errors import SkillpouchError, UnknownToolError
from skillpouch.integrations.model_results import failure_text, refusal_text
from skillpouch.integrations.selection import ToolSelection, bound, chosen_tools, kept_skills
from skillpouch.integrations.strict_schemas import without_nulls
from skillpouch.manager import SkillManager
from skillpouch.results import Attachment, ToolResult
from skillpouch.tools import Caller, Tool, model_schema

Tools = SkillManager | Iterable[Tool]
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


async def answer_all(
    calls: Sequence[WireCall], tools: Tools, wanted: ToolSelection = EVERYTHING
) -> list[WireAnswer]:
    """Make the calls side by side and return the answers in the order of the calls."""
    finder = _Finder(tools, wanted)
    return list(await asyncio.gather(*(_answer(call, finder) for call in calls)))


def known_calls(calls: Sequence[WireCall], tools: Tools, wanted: ToolSelection) -> list[WireCall]:
    """Return the calls of tools that are among those wanted."""
    finder = _Finder(tools, wanted)
    return [call for call in calls if finder.knows(call.name)]


class _Finder:
    """Finds what a model may call: what it was not offered it cannot call by guessing names."""

    def __init__(self, tools: Tools, wanted: ToolSelection) -> None:
        self._manager = tools if isinstance(tools, SkillManager) else None
        self._wanted = wanted
        found = [] if self._manager else bound(chosen_tools(tools, wanted))
        self._tools = {tool.name: (tool, caller) for tool, caller in found}

    def find(self, name: str) -> tuple[Tool, Caller]:
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


async def _answer(call: WireCall, finder: _Finder) -> WireAnswer:
    try:
        given = _arguments(call)
    except ValueError as error:
        text = f"the arguments of {call.name} are not a JSON object: {error}"
        return WireAnswer(call=call, text=text, is_error=True)
    try:
        tool, caller = await asyncio.to_thread(finder.find, call.name)
        result = await caller.execute(
            tool.id, without_nulls(given, model_schema(tool.input_schema))
        )
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
