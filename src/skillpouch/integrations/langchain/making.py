"""Skills in, LangChain tools out: one for each skill, one for each tool of it."""

from collections.abc import Iterable
from typing import Any, Literal

from skillpouch.arguments import is_untyped
from skillpouch.builtins.disclosure.marking import one_line
from skillpouch.integrations.choosing import (
    Patterns,
    Wanted,
    bound,
    chosen_tools,
    described,
    offered_skills,
)
from skillpouch.integrations.langchain.calls import Call, SkillByName, ToolById
from skillpouch.integrations.langchain.inputs import RawJsonInput, SkillInput
from skillpouch.integrations.langchain.naming import Naming, prompt_names, tool_names
from skillpouch.integrations.langchain.tool import SkillpouchTool
from skillpouch.manager import SkillManager
from skillpouch.registry.names import model_schema
from skillpouch.runtime.memoize import Shared
from skillpouch.skills import Skill
from skillpouch.tools import Caller, Tool


def create_langchain_tools(
    manager: SkillManager | Iterable[Tool],
    *,
    naming: Naming = "wire",
    include: Patterns | None = None,
    exclude: Patterns = (),
    skills: Literal["prompt", "none"] = "prompt",
) -> list[SkillpouchTool]:
    """Return a tool for each skill, which gives its instructions, and one for each of its tools.

    `manager` may also be some tools, without a manager.
    `include` and `exclude` are patterns such as `calculator*` for names of skills, ids and wire
    names. `naming="dotted"` names tools by their ids; OpenAI and Anthropic refuse dots.
    `skills="none"` leaves out the instructions, for agents that get them in another way.
    """
    if naming not in ("wire", "dotted"):
        raise ValueError(f"naming is {naming!r}: say 'wire' or 'dotted'")
    if skills not in ("prompt", "none"):
        raise ValueError(f"skills is {skills!r}: say 'prompt' or 'none'")
    wanted = Wanted(include, exclude)
    tools = chosen_tools(manager, wanted)
    if skills == "none" or not isinstance(manager, SkillManager):
        return _tools(tools, naming)
    prompts = [skill for skill in offered_skills(manager) if wanted.skill(skill)]
    return _with_prompts(manager, prompts, tools, naming)


def get_skill_tools(
    manager: SkillManager, name: str, *, naming: Naming = "wire"
) -> list[SkillpouchTool]:
    """Return the tools of one skill, in order."""
    return _tools(manager.get_skill_tools(name), naming)


def _with_prompts(
    manager: SkillManager, prompts: list[Skill], tools: list[Tool], naming: Naming
) -> list[SkillpouchTool]:
    called = prompt_names([skill.name for skill in prompts], naming)
    made = _tools(tools, naming, taken=set(called.values()))
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
    """Runs what belongs to no single tool through the manager."""

    def __init__(self, manager: SkillManager) -> None:
        self._manager = manager

    async def execute(self, name: str, args: Any = None) -> Any:
        return await self._manager.acall(name, args)

    def execute_sync(self, name: str, args: Any = None) -> Any:
        return self._manager.call(name, args)


def _tools(
    tools: list[Tool], naming: Naming, taken: set[str] | None = None
) -> list[SkillpouchTool]:
    names = tool_names(tools, naming, taken or set())
    return [_tool(tool, names[tool.id], caller) for tool, caller in bound(tools)]


def _tool(tool: Tool, name: str, caller: Caller) -> SkillpouchTool:
    schema = (
        RawJsonInput if is_untyped(tool.input_schema) else dict(model_schema(tool.input_schema))
    )
    facts = {"id": tool.id, "skill": tool.skill, "kind": tool.kind, "ready": tool.ready}
    return _made(ToolById(caller, tool.id), name, described(tool), schema, facts)


def _prompt(skill: Skill, name: str, caller: Caller) -> SkillpouchTool:
    facts = {"id": skill.name, "skill": skill.name, "kind": "skill", "ready": True}
    description = one_line(skill.description)
    return _made(SkillByName(caller, skill.name), name, description, SkillInput, facts)


def _made(
    call: Call, name: str, description: str, schema: Any, facts: dict[str, Any]
) -> SkillpouchTool:
    return SkillpouchTool(
        name=name,
        description=description,
        args_schema=schema,
        func=call.call,
        coroutine=call.acall,
        metadata=facts,
    )
