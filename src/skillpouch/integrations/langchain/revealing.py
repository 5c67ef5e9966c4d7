"""Which tools of the skills an agent sees: those of active skills, and those that it searched."""

from collections.abc import Iterable, Mapping
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import BaseTool

from skillpouch.errors import SkillpouchError
from skillpouch.integrations.langchain.making import create_langchain_tools
from skillpouch.integrations.langchain.tool import SkillpouchTool
from skillpouch.manager import SkillManager
from skillpouch.registry.names import qualified_wire_name
from skillpouch.results import ToolResult
from skillpouch.tools import Tool


class Revealing:
    """Finds the tools of a conversation anew each time: skills come, change and go."""

    def __init__(self, manager: SkillManager) -> None:
        self._manager = manager

    def beside(
        self, tools: Iterable[BaseTool | dict[str, Any]], state: Any
    ) -> list[SkillpouchTool]:
        """Return the tools that a model gets beside others, which keep their names."""
        others = [tool for tool in tools if isinstance(tool, BaseTool)]
        there = {(tool.metadata or {}).get("id") for tool in others if _is_ours(tool)}
        taken = {tool.name for tool in others}
        found = [tool for tool in self._revealed(state) if tool.id not in there]
        return [_renamed(tool, taken) for tool in create_langchain_tools(found)]

    def find(self, name: str, state: Any) -> tuple[SkillpouchTool | None, str]:
        """Return the tool that a model has called, or why it does not have it.

        Neither for a name that no skill knows: then the agent says so itself.
        """
        revealed = self._revealed(state)
        try:
            wanted = self._manager.get_tool(name)
        except SkillpouchError:
            return None, ""
        if wanted.id in {tool.id for tool in revealed}:
            return create_langchain_tools([wanted])[0], ""
        return None, (
            f"{name} is a tool of the skill {wanted.skill!r}, which is not active\n"
            f"hint: call activate_skill with name {wanted.skill!r} first"
        )

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
    """Give a tool the name by which it is found all the same, if its own is taken."""
    facts = tool.metadata or {}
    if tool.name in taken and facts.get("skill"):
        skill, tool_id = facts["skill"], facts["id"]
        tool.name = qualified_wire_name(skill, tool_id.removeprefix(f"{skill}."))
    return tool


def disclosed(message: ToolMessage) -> Mapping[str, list[str]]:
    """Return what a conversation may use from now on, after what it was told."""
    result = message.artifact
    if not isinstance(result, ToolResult) or not isinstance(result.structured, dict):
        return {}
    if result.tool == "activate_skill":
        return {"active_skills": [result.structured["skill"]]}
    if result.tool == "search_tools":
        return {"found_tools": [tool["id"] for tool in result.structured["tools"]]}
    return {}


def already_said(message: ToolMessage, state: Any) -> bool:
    """Tell whether the same instructions are in the conversation already."""
    if message.name != "activate_skill":
        return False
    return any(
        isinstance(earlier, ToolMessage)
        and earlier.name == message.name
        and earlier.content == message.content
        for earlier in state.get("messages", ())
    )
