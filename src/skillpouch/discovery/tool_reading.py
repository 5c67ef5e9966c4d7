"""The tools of skills, read when first asked for and remembered while no file changes."""

import os
from collections.abc import Iterable, Mapping
from typing import Any
from zlib import crc32

from skillpouch.declarations.skill_tools import SkillTools, read_skill_tools
from skillpouch.discovery.index import Index, is_settled
from skillpouch.discovery.tool_records import (
    pack_skill_tools,
    share_equal_parts,
    unpack_skill_tools,
)
from skillpouch.errors import SkillUnreadableError
from skillpouch.problems import Problem
from skillpouch.runtime.garbage_collection import no_garbage_collection
from skillpouch.skills import Skill
from skillpouch.untrusted_files import Stamp, hold_open, stamp_of

# The tools of a root are kept in this many values: few enough that all of them are had in a
# moment, many enough that one skill's tools do not bring everybody's along.
_SHELVES = 16


def read_tools(
    skills: Iterable[Skill], index: Index, stamps: Mapping[str, Stamp]
) -> dict[str, SkillTools]:
    """Return name → tools for every skill; from the index where nothing has changed.

    `stamps` are those that discovery has just seen: these files are not asked for again.
    """
    return _Reading(index, stamps).run(list(skills))


class _Reading:
    def __init__(self, index: Index, stamps: Mapping[str, Stamp]) -> None:
        self._index = index
        self._stamps = stamps

    def run(self, skills: list[Skill]) -> dict[str, SkillTools]:
        with no_garbage_collection():
            shelves = {skill.file: _shelf(skill) for skill in skills}
            known = self._index.get(set(shelves.values()))
            known = {shelf: kept for shelf, kept in known.items() if isinstance(kept, dict)}
            kept = {
                skill.name: self._kept(skill, known.get(shelves[skill.file], {}).get(skill.file))
                for skill in skills
            }
        found: dict[str, SkillTools] = {}
        changed: set[str] = set()
        for skill in skills:
            read = kept[skill.name]
            if read is None:
                read = _read(skill)
                if read.stamps and all(map(is_settled, read.stamps.values())):
                    shelf = shelves[skill.file]
                    known.setdefault(shelf, {})[skill.file] = pack_skill_tools(skill.name, read)
                    changed.add(shelf)
            found[skill.name] = read
        if changed:
            self._index.put({shelf: _tidy(known[shelf]) for shelf in changed})
        return found

    def _kept(self, skill: Skill, record: Any) -> SkillTools | None:
        """Return what the index knows, if every file it was read from is still the same."""
        if record is None:
            return None
        home = os.path.dirname(skill.file)
        try:
            if record["skill"] != skill.name:
                return None
            for name, stamp in record["stamps"].items():
                path = f"{home}/{name}" if name else home
                if (self._stamps.get(path) or stamp_of(os.stat(path))) != stamp:
                    return None
            return unpack_skill_tools(record)
        except (OSError, KeyError, TypeError, ValueError, AttributeError):
            return None  # a file has gone, or the record is not ours: read again


def _shelf(skill: Skill) -> str:
    return f"tools:{crc32(os.fsencode(skill.file)) % _SHELVES}:{skill.source}"


def _tidy(records: dict[str, Any]) -> dict[str, Any]:
    """Drop what belongs to skills that are gone."""
    share = share_equal_parts()
    return {file: share(record) for file, record in records.items() if os.path.exists(file)}


def _read(skill: Skill) -> SkillTools:
    # Here, so that a start with everything in the index does not load what reads declarations.
    from skillpouch.trust.call_needs import with_asks

    try:
        with hold_open(str(skill.home)):
            return with_asks(skill, read_skill_tools(skill))
    except SkillUnreadableError as error:
        problem = Problem(
            path=error.path, code="skill-unreadable", severity="error", message=error.reason
        )
        return SkillTools(tools=(), problems=(problem,), stamps={})
