"""Skills in, LangChain tools out: one for each skill, one for each tool of it."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any, Literal

from kitbag.arguments import is_untyped
from kitbag.disclosure.marking import one_line
from kitbag.disclosure.offered import is_offered
from kitbag.executor import ToolExecutor
from kitbag.hidden_text import clean
from kitbag.integrations.langchain.calls import Call, SkillByName, ToolById
from kitbag.integrations.langchain.inputs import RawJsonInput, SkillInput
from kitbag.integrations.langchain.naming import Naming, prompt_names, tool_names
from kitbag.integrations.langchain.tool import KitbagTool
from kitbag.manager import SkillManager
from kitbag.skills import Skill
from kitbag.tools import Caller, Tool

Patterns = Sequence[str] | str


def create_langchain_tools(
    manager_or_tools: SkillManager | Iterable[Tool],
    *,
    naming: Naming = "wire",
    include: Patterns | None = None,
    exclude: Patterns = (),
    skills: Literal["prompt", "none"] = "prompt",
) -> list[KitbagTool]:
    """Return a tool for each skill, which gives its instructions, and one for each of its tools.

    `include` and `exclude` are patterns such as `calculator*` for names of skills, ids and wire
    names. `naming="dotted"` names tools by their ids; OpenAI and Anthropic refuse dots.
    `skills="none"` leaves out the instructions, for agents that get them in another way.
    """
    if naming not in ("wire", "dotted"):
        raise ValueError(f"naming is {naming!r}: say 'wire' or 'dotted'")
    if skills not in ("prompt", "none"):
        raise ValueError(f"skills is {skills!r}: say 'prompt' or 'none'")
    wanted = _Wanted(include, exclude)
    if not isinstance(manager_or_tools, SkillManager):
        chosen = [tool for tool in manager_or_tools if wanted.tool(tool)]
        return _tools(_bound(chosen), naming)
    return _of_manager(manager_or_tools, naming, wanted, with_prompts=skills == "prompt")


def get_skill_tools(
    manager: SkillManager, name: str, *, naming: Naming = "wire"
) -> list[KitbagTool]:
    """Return the tools of one skill, in order."""
    return _tools(_bound(manager.get_skill_tools(name)), naming)


class _Wanted:
    """Which skills and tools were asked for."""

    def __init__(self, include: Patterns | None, exclude: Patterns) -> None:
        self._include = None if include is None else _patterns(include)
        self._exclude = _patterns(exclude)

    def skill(self, skill: Skill) -> bool:
        return self._names(skill.name)

    def tool(self, tool: Tool) -> bool:
        return self._names(tool.id, tool.name, tool.skill)

    def _names(self, *names: str) -> bool:
        if any(fnmatchcase(name, each) for name in names for each in self._exclude):
            return False
        if self._include is None:
            return True
        return any(fnmatchcase(name, each) for name in names for each in self._include)


def _patterns(given: Patterns) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def _of_manager(
    manager: SkillManager, naming: Naming, wanted: _Wanted, *, with_prompts: bool
) -> list[KitbagTool]:
    offered = [skill for skill in manager.list_skills() if is_offered(skill)]
    prompts = [skill for skill in offered if with_prompts and wanted.skill(skill)]
    names = {skill.name for skill in offered} | {""}  # Kitbag's own tools are of no skill
    tools = [tool for tool in manager.tools if tool.skill in names and wanted.tool(tool)]
    called = prompt_names([skill.name for skill in prompts], naming)
    made = _tools(_bound(tools), naming, taken=set(called.values()))
    by_skill: dict[str, list[KitbagTool]] = {}
    for tool, one in zip(tools, made, strict=True):
        by_skill.setdefault(tool.skill, []).append(one)
    found = by_skill.pop("", [])
    caller = _ManagerCaller(manager)
    prompt_of = {skill.name: _prompt(skill, called[skill.name], caller) for skill in prompts}
    for skill in offered:
        found += [prompt_of[skill.name]] if skill.name in prompt_of else []
        found += by_skill.get(skill.name, [])
    return found


class _ManagerCaller:
    """Runs what belongs to no single tool through the manager."""

    def __init__(self, manager: SkillManager) -> None:
        self._manager = manager

    async def execute(self, name: str, args: Any = None) -> Any:
        return await self._manager.acall(name, args)

    def execute_sync(self, name: str, args: Any = None) -> Any:
        return self._manager.call(name, args)


def _bound(tools: list[Tool]) -> list[tuple[Tool, Caller]]:
    """Return each tool with who runs it; those that nobody runs yet get an executor."""
    unbound = [tool for tool in tools if tool.caller is None]
    executor = ToolExecutor(unbound) if unbound else None
    return [(tool, tool.caller or _required(executor)) for tool in tools]


def _required(executor: ToolExecutor | None) -> ToolExecutor:
    assert executor is not None
    return executor


def _tools(
    bound: list[tuple[Tool, Caller]], naming: Naming, taken: set[str] | None = None
) -> list[KitbagTool]:
    names = tool_names([tool for tool, _ in bound], naming, taken or set())
    return [_tool(tool, names[tool.id], caller) for tool, caller in bound]


def _tool(tool: Tool, name: str, caller: Caller) -> KitbagTool:
    schema = RawJsonInput if is_untyped(tool.input_schema) else dict(tool.input_schema)
    facts = {"id": tool.id, "skill": tool.skill, "kind": tool.kind, "ready": tool.ready}
    return _made(ToolById(caller, tool.id), name, _described(tool), schema, facts)


def _described(tool: Tool) -> str:
    missing = f" (not ready: {', '.join(tool.missing)})" if tool.missing else ""
    return f"{clean(tool.description)}{missing}"


def _prompt(skill: Skill, name: str, caller: Caller) -> KitbagTool:
    facts = {"id": skill.name, "skill": skill.name, "kind": "skill", "ready": True}
    description = one_line(skill.description)
    return _made(SkillByName(caller, skill.name), name, description, SkillInput, facts)


def _made(
    call: Call, name: str, description: str, schema: Any, facts: dict[str, Any]
) -> KitbagTool:
    return KitbagTool(
        name=name,
        description=description,
        args_schema=schema,
        func=call.call,
        coroutine=call.acall,
        metadata=facts,
    )
