"""Chooses which tools a framework is given, by patterns of names."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase

from skillpouch.builtins.disclosure.activation import is_offered
from skillpouch.executor import ToolExecutor
from skillpouch.manager import SkillManager
from skillpouch.skills import Skill
from skillpouch.text import clean
from skillpouch.tools import Caller, Tool

Tools = SkillManager | Iterable[Tool]
Patterns = Sequence[str] | str
Bound = tuple[Tool, Caller]


class ToolSelection:
    """Which skills and tools were asked for; `exclude` wins."""

    def __init__(self, include: Patterns | None = None, exclude: Patterns = ()) -> None:
        self._include = None if include is None else _patterns(include)
        self._exclude = _patterns(exclude)

    def skill(self, skill: Skill) -> bool:
        return self._fits(skill.name)

    def tool(self, tool: Tool) -> bool:
        return self._fits(tool.id, tool.name, tool.skill)

    def _fits(self, *names: str) -> bool:
        if any(fnmatchcase(name, each) for name in names for each in self._exclude):
            return False
        if self._include is None:
            return True
        return any(fnmatchcase(name, each) for name in names for each in self._include)


def _patterns(given: Patterns) -> tuple[str, ...]:
    return (given,) if isinstance(given, str) else tuple(given)


def offered_skills(manager: SkillManager) -> list[Skill]:
    """Return the skills that models may use."""
    return [skill for skill in manager.list_skills() if is_offered(skill)]


def kept_skills(manager: SkillManager) -> set[str]:
    """Return the names of the skills that only people may use."""
    return {skill.name for skill in manager.list_skills() if not is_offered(skill)}


def chosen_tools(manager_or_tools: Tools, wanted: ToolSelection) -> list[Tool]:
    """Return the tools that were asked for, in order."""
    if not isinstance(manager_or_tools, SkillManager):
        return [tool for tool in manager_or_tools if wanted.tool(tool)]
    kept = kept_skills(manager_or_tools)
    tools = manager_or_tools.tools
    return [tool for tool in tools if tool.skill not in kept and wanted.tool(tool)]


def bound(tools: Iterable[Tool]) -> list[Bound]:
    """Return each tool with its executor; tools without one get a new one."""
    tools = list(tools)
    unbound = [tool for tool in tools if tool.caller is None]
    executor = ToolExecutor(unbound)
    return [(tool, tool.caller or executor) for tool in tools]


def runnable(tools: Iterable[Tool]) -> list[Tool]:
    """Return the same tools, each with its executor."""
    return [replace(tool, caller=caller) for tool, caller in bound(tools)]


def described(tool: Tool) -> str:
    """Return what a model is told of a tool, and what it lacks if it is not ready."""
    missing = f" (not ready: {', '.join(tool.missing)})" if tool.missing else ""
    return clean(f"{tool.description}{missing}")
