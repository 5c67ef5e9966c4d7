"""Finds the skills below roots: walks, reads, or takes them from the index."""

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from skillpouch.discovery.digest import SKILL_FILES
from skillpouch.discovery.index import Index, is_settled
from skillpouch.discovery.walk import Folder, FoundSkill, Plugin, Walk
from skillpouch.problems import Problem
from skillpouch.runtime.garbage_collection import no_garbage_collection
from skillpouch.skills import Skill, SkillMetadata
from skillpouch.untrusted_files import CannotReadError, Stamp, stamp_of

if TYPE_CHECKING:
    from skillpouch.declarations.skill_md import SkillFile

# Tuples, because they are decoded faster than dicts: for a thousand skills, decoding takes most of
# a warm start.


Record = tuple[Any, ...]


def pack_skill_file(file: "SkillFile") -> Record:
    """Return a SKILL.md as a plain value for the index."""
    problems = tuple(pack_problem(problem) for problem in file.problems)
    flags = (file.degraded, file.declarations_lost)
    return (file.stamp, file.name, tuple(file.metadata), *flags, problems)


def unpack_skill(found: FoundSkill, record: Record, root: str) -> tuple[Skill, Sequence[Problem]]:
    """Return a skill, and the problems in it, from a plain value of the index."""
    _, name, fields, degraded, declarations_lost, problems = record
    metadata = SkillMetadata._make(fields)
    skill = Skill(
        name=f"{found.plugin}:{name}" if found.plugin else name,
        description=metadata.description,
        file=found.path,
        source=root,
        metadata=metadata,
        degraded=degraded,
        declarations_lost=declarations_lost,
        contents=SKILL_FILES,
    )
    return skill, [unpack_problem(found.path, each) for each in problems] if problems else ()


def pack_problem(problem: Problem) -> Record:
    """Return a problem as a plain value, without its path, which is the key in the index."""
    return (problem.code, problem.severity, problem.message, problem.line)


def unpack_problem(path: str, record: Record) -> Problem:
    """Return a problem from a plain value of the index."""
    code, severity, message, line = record
    return Problem(path=path, code=code, severity=severity, message=message, line=line)


@dataclass(frozen=True, slots=True, kw_only=True)
class Discovered:
    """What was found below one root: every skill that loads, shadowed or not, in order of path.

    `stamps` are those of every folder and skill file when it was read.
    """

    skills: tuple[Skill, ...]
    problems: tuple[Problem, ...]
    found: int
    skipped: int
    stamps: Mapping[str, Stamp]


def find_skills(root: str, boundaries: Sequence[str], index: Index) -> Discovered:
    """Find and read the skills below `root`; links may lead into `boundaries`, nowhere else."""
    with no_garbage_collection():
        return _find_skills(root, boundaries, index)


def _find_skills(root: str, boundaries: Sequence[str], index: Index) -> Discovered:
    try:
        return _search(root, boundaries, _Memory(root, index).recall())
    except _MISSHAPEN:
        # The index holds values of another form than this version writes: read all files.
        return _search(root, boundaries, _Memory(root, index))


# What using a value of the wrong form may raise.
_MISSHAPEN = (KeyError, IndexError, TypeError, ValueError, AttributeError)


def _search(root: str, boundaries: Sequence[str], memory: "_Memory") -> Discovered:
    walk = Walk(
        root=root,
        boundaries=boundaries,
        known=memory.folders,
        known_plugins=memory.plugins,
    )
    walk.run()
    problems = list(walk.problems)
    skills: list[Skill] = []
    skipped = walk.unreadable
    for found in walk.found:
        try:
            skill, noticed = memory.read(found)
        except CannotReadError as error:
            skipped += 1
            problems.append(_skipped(found.path, error))
            continue
        problems += noticed
        skills.append(skill)
    memory.save(walk)
    return Discovered(
        skills=tuple(skills),
        problems=tuple(problems),
        found=len(walk.found) + walk.unreadable,
        skipped=skipped,
        stamps=memory.stamps | {path: folder.stamp for path, folder in walk.seen.items()},
    )


def _skill(found: FoundSkill, file: "SkillFile", root: str) -> Skill:
    return Skill(
        name=f"{found.plugin}:{file.name}" if found.plugin else file.name,
        description=file.metadata.description,
        file=found.path,
        source=root,
        metadata=file.metadata,
        degraded=file.degraded,
        declarations_lost=file.declarations_lost,
        contents=SKILL_FILES,
    )


def _skipped(path: str, error: CannotReadError) -> Problem:
    message = f"skipped: {error.reason}"
    return Problem(path=path, code=f"skill-{error.code}", severity="error", message=message)


def _stamp(path: str) -> Stamp:
    try:
        return stamp_of(os.stat(path))
    except OSError as error:
        raise CannotReadError.of(error) from None


class _Memory:
    """What the index has of this root from an earlier walk, and what this walk will save."""

    def __init__(self, root: str, index: Index) -> None:
        self._root = root
        self._key = f"root:{root}"
        self._index = index
        self.folders: dict[str, Folder] = {}
        self.plugins: dict[str, Plugin] = {}
        self.stamps: dict[str, Stamp] = {}
        self._files: dict[str, Any] = {}
        self._fresh: dict[str, Any] = {}
        self._read_any = False

    def recall(self) -> "_Memory":
        """Load from the index what is known of this root."""
        kept = self._index.get([self._key]).get(self._key)
        if kept is not None:
            folders = kept["folders"]
            self.folders = dict(zip(folders, map(Folder._make, folders.values()), strict=True))
            self.plugins = {path: Plugin._make(each) for path, each in kept["plugins"].items()}
            self._files = kept["files"]
        return self

    def read(self, found: FoundSkill) -> tuple[Skill, Sequence[Problem]]:
        record = self._files.get(found.path)
        if record is not None:
            self.stamps[found.path] = stamp = _stamp(found.path)
            if record[0] == stamp:
                self._fresh[found.path] = record
                return unpack_skill(found, record, self._root)
        self._read_any = True
        # Imported here, so that a start with a complete index does not load YAML.
        from skillpouch.declarations.skill_md import read_skill_md

        file = read_skill_md(found.path, found.folder)
        self.stamps[found.path] = file.stamp
        if is_settled(file.stamp):
            self._fresh[found.path] = pack_skill_file(file)
        return _skill(found, file, self._root), file.problems

    def save(self, walk: Walk) -> None:
        """Write what was found to the index, if it differs from what the index has."""
        same = walk.seen == self.folders and walk.seen_plugins == self.plugins
        if same and not self._read_any and len(self._fresh) == len(self._files):
            return
        now = time.time_ns()
        folders = {
            path: tuple(folder)
            for path, folder in walk.seen.items()
            if is_settled(folder.stamp, now)
        }
        plugins = {
            path: tuple(plugin)
            for path, plugin in walk.seen_plugins.items()
            if is_settled(plugin.stamp, now)
        }
        kept = {"folders": folders, "plugins": plugins, "files": self._fresh}
        self._index.put({self._key: kept})
