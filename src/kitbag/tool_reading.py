"""The tools of skills, read when first asked for and remembered while no file changes."""

import os
from collections.abc import Iterable
from typing import Any

from kitbag.declarations.skill_tools import SkillTools, read_skill_tools
from kitbag.errors import SkillUnreadableError
from kitbag.index import Index, is_settled
from kitbag.problems import Problem
from kitbag.reading import stamp_of
from kitbag.skills import Skill
from kitbag.tool_records import pack_skill_tools, unpack_skill_tools


def read_tools(skills: Iterable[Skill], index: Index) -> dict[str, SkillTools]:
    """Return name → tools for every skill; from the index where nothing has changed."""
    wanted = {f"tools:{skill.file}": skill for skill in skills}
    known = index.get(wanted)
    found: dict[str, SkillTools] = {}
    fresh: dict[str, Any] = {}
    for key, skill in wanted.items():
        kept = _kept(skill, known.get(key))
        if kept is None:
            kept = _read(skill)
            if kept.stamps and all(map(is_settled, kept.stamps.values())):
                fresh[key] = pack_skill_tools(skill.name, kept)
        found[skill.name] = kept
    if fresh:
        index.put(fresh)
    return found


def _read(skill: Skill) -> SkillTools:
    try:
        return read_skill_tools(skill)
    except SkillUnreadableError as error:
        problem = Problem(
            path=error.path, code="skill-unreadable", severity="error", message=error.reason
        )
        return SkillTools(tools=(), problems=(problem,), stamps={})


def _kept(skill: Skill, record: Any) -> SkillTools | None:
    """Return what the index knows, if every file it was read from is still the same."""
    try:
        if record is None or record["skill"] != skill.name:
            return None
        home = os.path.dirname(skill.file)
        for name, stamp in record["stamps"].items():
            if stamp_of(os.stat(f"{home}/{name}")) != stamp:
                return None
        return unpack_skill_tools(record)
    except (OSError, KeyError, TypeError, ValueError, AttributeError):
        return None  # a file has gone, or the record is damaged: read again
