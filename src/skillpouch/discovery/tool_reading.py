"""Reads the tools of skills at the first request, and caches them until a file changes."""

import marshal
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, fields
from functools import partial
from types import MappingProxyType
from typing import Any
from zlib import crc32

from skillpouch.discovery.index import Index, is_settled
from skillpouch.errors import SkillUnreadableError
from skillpouch.needs import Need
from skillpouch.problems import Problem
from skillpouch.runtime.garbage_collection import no_garbage_collection
from skillpouch.signatures.argv import ArgvArgument, FixedWord
from skillpouch.signatures.signature import Dependencies
from skillpouch.skills import Skill
from skillpouch.tools import (
    Binary,
    External,
    Http,
    InlineScript,
    Runs,
    Script,
    SkillTools,
    Stub,
    Tool,
)
from skillpouch.untrusted_files import Stamp, hold_open, stamp_of

_VARIANTS: dict[str, Callable[..., Runs]] = {
    "script": Script,
    "inline": InlineScript,
    "binary": Binary,
    "http": Http,
    "external": External,
    "stub": Stub,
}

# The fields that are needed to find and list a tool; all others are unpacked at first use.
_AT_ONCE = ("id", "name", "skill", "needs", "missing", "effects", "allowed_tools")
_LATER = tuple(
    field.name
    for field in fields(Tool)
    if field.name not in (*_AT_ONCE, "asks", "runs", "caller", "unpack")
)


def pack_skill_tools(skill: str, read: SkillTools) -> dict[str, Any]:
    """Return everything that was read of one skill as a plain value for the index."""
    return {
        "skill": skill,
        "stamps": read.stamps,
        "tools": [_pack_tool(tool) for tool in read.tools],
        "problems": [asdict(problem) for problem in read.problems],
    }


def unpack_skill_tools(record: dict[str, Any]) -> SkillTools:
    """Return the tools from a plain value of the index."""
    return SkillTools(
        tools=tuple(map(_unpack_tool, record["tools"])),
        problems=tuple(Problem(**problem) for problem in record["problems"]),
        stamps=record["stamps"],
    )


def share_equal_parts() -> Callable[[Any], Any]:
    """Return a function that makes equal texts one object, across all values passed to it.

    `marshal` writes one object only once, and schemas repeat the same words many times.
    """
    seen: dict[str, str] = {}

    def share(value: Any) -> Any:
        if isinstance(value, str):
            return seen.setdefault(value, value)
        if isinstance(value, dict):
            return {share(key): share(each) for key, each in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(map(share, value))
        return value

    return share


def _pack_tool(tool: Tool) -> tuple[Any, ...]:
    """Return the fields that find a tool as they are, and all others packed into bytes."""
    runs = _fields(tool.runs)
    if isinstance(tool.runs, Script):
        runs["plan"] = tool.runs.plan and tuple(map(tuple, tool.runs.plan))
        runs["dependencies"] = tool.runs.dependencies and asdict(tool.runs.dependencies)
    details = {name: getattr(tool, name) for name in _LATER}
    packed = marshal.dumps((tool.kind, runs, details))
    asks = tuple((need.kind, need.value, need.declared, need.asked_in) for need in tool.asks)
    return (*(getattr(tool, name) for name in _AT_ONCE), asks, packed)


def _unpack_tool(record: tuple[Any, ...]) -> Tool:
    tool = Tool.__new__(Tool)
    for name, value in zip(_AT_ONCE, record, strict=False):
        object.__setattr__(tool, name, value)
    object.__setattr__(tool, "asks", tuple(map(_unpack_need, record[-2])))
    object.__setattr__(tool, "caller", None)
    object.__setattr__(tool, "unpack", partial(_details, record[-1]))
    return tool


def _unpack_need(record: tuple[Any, ...]) -> Need:
    kind, value, declared, asked_in = record
    return Need(kind=kind, value=value, declared=declared, asked_in=asked_in)


def _details(packed: bytes) -> dict[str, Any]:
    details: dict[str, Any]
    kind, runs, details = marshal.loads(packed)  # noqa: S302 - the index has checked it
    if kind == "script":
        runs["plan"] = runs["plan"] and tuple(map(_unpack_part, runs["plan"]))
        runs["dependencies"] = runs["dependencies"] and Dependencies(**runs["dependencies"])
    details["runs"] = _VARIANTS[kind](**runs)
    return details


def _fields(value: Runs) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _unpack_part(record: tuple[Any, ...]) -> FixedWord | ArgvArgument:
    # A FixedWord has one field, an ArgvArgument several.
    return ArgvArgument._make(record) if len(record) > 1 else FixedWord._make(record)


# The tools of a root are stored in this many values: few, so that reading all of them is fast;
# but several, so that reading one skill does not read the tools of all.
_SHARDS = 16

Complete = Callable[[Skill, SkillTools], SkillTools]


class ToolReader:
    """Reads the tools of skills, or takes them from the index if no file has changed.

    `complete` adds what a later stage finds in the same files: what each tool asks for.
    """

    def __init__(self, index: Index, complete: Complete) -> None:
        self._index = index
        self._complete = complete

    def read(
        self, skills: Iterable[Skill], stamps: Mapping[str, Stamp] = MappingProxyType({})
    ) -> dict[str, SkillTools]:
        """Return name → tools for every skill.

        `stamps` are those that discovery has just read: these files need no stat again.
        """
        return _Reading(self._index, stamps, self._complete).run(list(skills))


class _Reading:
    def __init__(self, index: Index, stamps: Mapping[str, Stamp], complete: Complete) -> None:
        self._index = index
        self._stamps = stamps
        self._complete = complete

    def run(self, skills: list[Skill]) -> dict[str, SkillTools]:
        if not skills:
            return {}
        with no_garbage_collection():
            shards = {skill.file: _shard(skill) for skill in skills}
            known = self._index.get(set(shards.values()))
            known = {shard: kept for shard, kept in known.items() if isinstance(kept, dict)}
            kept = {
                skill.name: self._kept(skill, known.get(shards[skill.file], {}).get(skill.file))
                for skill in skills
            }
        found: dict[str, SkillTools] = {}
        changed: set[str] = set()
        for skill in skills:
            read = kept[skill.name]
            if read is None:
                read = self._read(skill)
                if read.stamps and all(map(is_settled, read.stamps.values())):
                    shard = shards[skill.file]
                    known.setdefault(shard, {})[skill.file] = pack_skill_tools(skill.name, read)
                    changed.add(shard)
            found[skill.name] = read
        if changed:
            self._index.put({shard: _tidy(known[shard]) for shard in changed})
        return found

    def _kept(self, skill: Skill, record: Any) -> SkillTools | None:
        """Return the tools in the index, if none of the files they were read from has changed."""
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
            return None  # a file is gone, or the record has another form: read the files

    def _read(self, skill: Skill) -> SkillTools:
        # Imported here, so that a start with a complete index does not load the readers.
        from skillpouch.declarations.skill_tools import read_skill_tools

        try:
            with hold_open(str(skill.home)):
                return self._complete(skill, read_skill_tools(skill))
        except SkillUnreadableError as error:
            problem = Problem(
                path=error.path, code="skill-unreadable", severity="error", message=error.reason
            )
            return SkillTools(tools=(), problems=(problem,), stamps={})


def _shard(skill: Skill) -> str:
    return f"tools:{crc32(os.fsencode(skill.file)) % _SHARDS}:{skill.source}"


def _tidy(records: dict[str, Any]) -> dict[str, Any]:
    """Remove the records of skills that no longer exist."""
    share = share_equal_parts()
    return {file: share(record) for file, record in records.items() if os.path.exists(file)}
