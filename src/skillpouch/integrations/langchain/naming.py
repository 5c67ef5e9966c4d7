"""What LangChain tools are called: wire names, or ids with their dots; never one name twice."""

import logging
from collections.abc import Iterable, Sequence
from typing import Literal

from skillpouch.registry.names import hashed_wire_name, qualified_wire_name, skill_wire_name
from skillpouch.registry.registry import BUILT_IN_NAMES
from skillpouch.tools import Tool

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

    The tool is then `skill__tool`, by which every other door finds it, too.
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
    short = tool.id.removeprefix(f"{tool.skill}.")
    name = qualified_wire_name(tool.skill, short)
    if name in taken:
        name = hashed_wire_name(tool.skill, short)
    _log.warning(
        "%r is the name of a skill: its namesake %s is called %r", tool.name, tool.id, name
    )
    return name
