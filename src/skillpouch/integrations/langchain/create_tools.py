"""`create_langchain_tools`: chooses and names the tools, and decides how they are called."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from langchain_core.tools import BaseTool

from skillpouch.arguments import is_untyped
from skillpouch.builtins.disclosure.activation import one_line
from skillpouch.errors import SkillpouchError, UnboundToolError
from skillpouch.integrations.langchain.tool import RawJsonInput, SkillInput, SkillpouchTool
from skillpouch.integrations.long_calls import (
    JOB_NAMES,
    NEVER_LEFT,
    LongCallOptions,
    call_tool,
    call_tool_sync,
    may_be_left,
    offered_job_tools,
    tools_for_jobs,
)
from skillpouch.integrations.selection import (
    Patterns,
    ToolSelection,
    bound,
    chosen_tools,
    described,
    offered_skills,
)
from skillpouch.manager import SkillManager
from skillpouch.registry.registry import BUILT_IN_NAMES
from skillpouch.results import ToolResult
from skillpouch.runtime.memoize import Shared
from skillpouch.skills import Skill
from skillpouch.tools import (
    Caller,
    Tool,
    hashed_wire_name,
    model_schema,
    qualified_wire_name,
    short_name,
    skill_wire_name,
)


class CallableTool(Protocol):
    """Something to call, blocking or awaited."""

    def call(self, given: Any, /) -> ToolResult: ...
    async def acall(self, given: Any, /) -> ToolResult: ...


class _Nobody:
    """Runs nothing: for tools that were pickled into another process."""

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
    options: LongCallOptions = NEVER_LEFT

    def __reduce__(self) -> tuple[Any, ...]:
        return ToolById, (_NOBODY, self.id, self.options)

    def call(self, given: Any, /) -> ToolResult:
        return call_tool_sync(self.caller, self.id, given, self.options)

    async def acall(self, given: Any, /) -> ToolResult:
        return await call_tool(self.caller, self.id, given, self.options)


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


Naming = Literal["wire", "dotted"]

_log = logging.getLogger(__name__)


def prompt_names(skills: Iterable[str], naming: Naming) -> dict[str, str]:
    """Return what the tool that gives a skill's instructions is called: as the skill, if it can."""
    names: dict[str, str] = {}
    taken = set(BUILT_IN_NAMES)
    for skill in skills:
        name = skill if naming == "dotted" else skill_wire_name(skill)
        names[skill] = name if name not in taken else hashed_wire_name(skill, "skill")
        taken.add(names[skill])
    return names


def tool_names(tools: Sequence[Tool], naming: Naming, taken: set[str]) -> dict[str, str]:
    """Return what each tool is called, by its id. A name that is taken is not given again.

    The tool is then `skill__tool`, by which every other entry point finds it, too.
    """
    if naming == "dotted":
        return {tool.id: tool.id for tool in tools}
    names: dict[str, str] = {}
    taken = set(taken)
    for tool in tools:
        names[tool.id] = _free(tool, taken)
        taken.add(names[tool.id])
    return names


def _free(tool: Tool, taken: set[str]) -> str:
    if tool.name not in taken:
        return tool.name
    short = short_name(tool.skill, tool.id)
    name = qualified_wire_name(tool.skill, short)
    if name in taken:
        name = hashed_wire_name(tool.skill, short)
    _log.warning(
        "%r is the name of a skill: its namesake %s is called %r", tool.name, tool.id, name
    )
    return name


def create_langchain_tools(
    manager: SkillManager | Iterable[Tool],
    *,
    naming: Naming = "wire",
    include: Patterns | None = None,
    exclude: Patterns = (),
    skills: Literal["prompt", "none"] = "prompt",
    long_calls: LongCallOptions | None = None,
) -> list[SkillpouchTool]:
    """Return a tool for each skill, which gives its instructions, and one for each of its tools.

    `manager` may also be some tools, without a manager.
    `include` and `exclude` are patterns such as `calculator*` for names of skills, ids and wire
    names. `naming="dotted"` names tools by their ids; OpenAI and Anthropic refuse dots.
    `skills="none"` leaves out the instructions, for agents that get them in another way.
    If one of the tools may take longer than `long_calls` says, the last three are those to go on
    with calls that were left as jobs; otherwise no call is left.
    """
    if naming not in ("wire", "dotted"):
        raise ValueError(f"naming is {naming!r}: use 'wire' or 'dotted'")
    if skills not in ("prompt", "none"):
        raise ValueError(f"skills is {skills!r}: use 'prompt' or 'none'")
    wanted = ToolSelection(include, exclude)
    tools = chosen_tools(manager, wanted)
    options = long_calls or LongCallOptions()
    if not may_be_left(bound(tools), options):
        options = NEVER_LEFT
    if skills == "none" or not isinstance(manager, SkillManager):
        made = _tools(tools, naming, options=options)
    else:
        prompts = [skill for skill in offered_skills(manager) if wanted.skill(skill)]
        made = _with_prompts(manager, prompts, tools, naming, options)
    always = replace(options, list_tools=True)
    for_jobs = _tools(offered_job_tools(tools, always), "wire", options=options)
    taken = {tool.name for tool in made}
    return [*made, *(tool for tool in for_jobs if tool.name not in taken)]


def get_skill_tools(
    manager: SkillManager, name: str, *, naming: Naming = "wire"
) -> list[SkillpouchTool]:
    """Return the tools of one skill, in order."""
    return _tools(manager.get_skill_tools(name), naming)


def _with_prompts(
    manager: SkillManager,
    prompts: list[Skill],
    tools: list[Tool],
    naming: Naming,
    options: LongCallOptions,
) -> list[SkillpouchTool]:
    called = prompt_names([skill.name for skill in prompts], naming)
    made = _tools(tools, naming, set(called.values()), options)
    by_skill: dict[str, list[SkillpouchTool]] = {}
    for tool, one in zip(tools, made, strict=True):
        by_skill.setdefault(tool.skill, []).append(one)
    caller = _ManagerCaller(manager)
    asked = {skill.name: _prompt(skill, called[skill.name], caller) for skill in prompts}
    found = by_skill.pop("", [])  # Skillpouch's own
    for skill in manager.list_skills():
        found += [asked[skill.name]] if skill.name in asked else []
        found += by_skill.pop(skill.name, [])
    # Those that an agent defined for itself belong to no skill that is listed.
    return [*found, *(tool for defined in by_skill.values() for tool in defined)]


class _ManagerCaller(Shared):
    """Runs through the manager what belongs to no single tool."""

    def __init__(self, manager: SkillManager) -> None:
        self._manager = manager

    async def execute(self, name: str, args: Any = None) -> Any:
        return await self._manager.acall(name, args)

    def execute_sync(self, name: str, args: Any = None) -> Any:
        return self._manager.call(name, args)


def _tools(
    tools: list[Tool],
    naming: Naming,
    taken: set[str] | None = None,
    options: LongCallOptions = NEVER_LEFT,
) -> list[SkillpouchTool]:
    names = tool_names(tools, naming, taken or set())
    return [_tool(tool, names[tool.id], caller, options) for tool, caller in bound(tools)]


def _tool(tool: Tool, name: str, caller: Caller, options: LongCallOptions) -> SkillpouchTool:
    schema = (
        RawJsonInput if is_untyped(tool.input_schema) else dict(model_schema(tool.input_schema))
    )
    facts = {"id": tool.id, "skill": tool.skill, "kind": tool.kind, "ready": tool.ready}
    return _made(ToolById(caller, tool.id, options), name, described(tool), schema, facts)


def _prompt(skill: Skill, name: str, caller: Caller) -> SkillpouchTool:
    facts = {"id": skill.name, "skill": skill.name, "kind": "skill", "ready": True}
    description = one_line(skill.description)
    return _made(SkillByName(caller, skill.name), name, description, SkillInput, facts)


def _made(
    call: CallableTool, name: str, description: str, schema: Any, facts: dict[str, Any]
) -> SkillpouchTool:
    return SkillpouchTool(
        name=name,
        description=description,
        args_schema=schema,
        func=call.call,
        coroutine=call.acall,
        metadata=facts,
    )


class Revealing:
    """Finds the tools of a conversation anew each time: skills come, change and go."""

    def __init__(self, manager: SkillManager, options: LongCallOptions) -> None:
        self._manager = manager
        self._options = options

    def beside(
        self, tools: Iterable[BaseTool | dict[str, Any]], state: Any
    ) -> list[SkillpouchTool]:
        """Return the tools that a model gets beside others, which keep their names."""
        others = [tool for tool in tools if isinstance(tool, BaseTool)]
        there = {(tool.metadata or {}).get("id") for tool in others if _is_ours(tool)}
        taken = {tool.name for tool in others}
        found = [tool for tool in self._revealed(state) if tool.id not in there]
        renamed = [_renamed(tool, taken) for tool in self._made(found)]
        is_left = self._options.list_tools or state.get("left_jobs")
        for_jobs = self._for_jobs() if is_left else []
        taken |= {tool.name for tool in renamed}
        return [*renamed, *(tool for tool in for_jobs if tool.name not in taken)]

    def find(self, name: str, state: Any) -> tuple[SkillpouchTool | None, str]:
        """Return the tool that a model has called, or why it does not have it.

        Neither for a name that no skill knows: then the agent says so itself.
        """
        revealed = self._revealed(state)
        try:
            wanted = self._manager.get_tool(name)
        except SkillpouchError:
            for_jobs = self._for_jobs() if name in JOB_NAMES else []
            return next((tool for tool in for_jobs if tool.name == name), None), ""
        if wanted.id in {tool.id for tool in revealed}:
            return self._made([wanted])[0], ""
        return None, (
            f"{name} is a tool of the skill {wanted.skill!r}, which is not active\n"
            f"hint: call activate_skill with name {wanted.skill!r} first"
        )

    def _made(self, tools: list[Tool]) -> list[SkillpouchTool]:
        return _tools(tools, "wire", options=self._options)

    def _for_jobs(self) -> list[SkillpouchTool]:
        options = self._options
        return self._made(tools_for_jobs(self._manager, options)) if options.is_on else []

    def _revealed(self, state: Any) -> list[Tool]:
        skills = {skill.name for skill in self._manager.list_skills()}
        active = [name for name in state.get("active_skills") or () if name in skills]
        found = [*self._manager.disclosure_tools]
        for name in active:
            found += self._manager.get_skill_tools(name)
        searched = [self._tool(tool_id) for tool_id in state.get("found_tools") or ()]
        known = {tool.id for tool in found}
        return [*found, *(tool for tool in searched if tool and tool.id not in known)]

    def _tool(self, tool_id: str) -> Tool | None:
        try:
            return self._manager.get_tool(tool_id)
        except SkillpouchError:
            return None  # gone since it was found


def _is_ours(tool: BaseTool) -> bool:
    return isinstance(tool, SkillpouchTool)


def _renamed(tool: SkillpouchTool, taken: set[str]) -> SkillpouchTool:
    """Give a tool another name that finds it, too, if its own is taken."""
    facts = tool.metadata or {}
    if tool.name in taken and facts.get("skill"):
        skill, tool_id = facts["skill"], facts["id"]
        tool.name = qualified_wire_name(skill, short_name(skill, tool_id))
    return tool
