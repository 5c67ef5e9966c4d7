"""Reads one version of a skill, with a copy of all its files at one moment."""

import os
from collections.abc import Iterable, Iterator, Mapping

from skillpouch.discovery.digest import digest_of
from skillpouch.discovery.skill_copies import SkillCopies, SkillCopy, SkillVersion
from skillpouch.discovery.tool_reading import ToolReader
from skillpouch.discovery.walk import MAX_FOLDERS, PLUGIN_FOLDER, is_skipped_folder
from skillpouch.errors import SkillUnreadableError
from skillpouch.problems import Problem
from skillpouch.skills import Skill
from skillpouch.tools import Binary, InlineScript, Script, SkillTools
from skillpouch.untrusted_files import Stamp, stamp_of

Stamps = Mapping[str, Stamp]  # by real path
_NOTHING = ""


def look(roots: Iterable[str]) -> dict[str, Stamp]:
    """Return the stamps of every file, folder and link below the roots; a root may be missing.

    Links are not followed: discovery only follows those that lead into a root, which is walked
    anyway. Folders that discovery skips are left out, except inside a skill.
    """
    found: dict[str, Stamp] = {}
    for root in roots:
        real = os.path.realpath(root)
        found[f"{root} -> "] = real
        if real not in found:
            found[real] = _stamp(real)
            _look_below(real, found)
    return found


def look_at_skill(home: str) -> dict[str, Stamp]:
    """Return the stamps of everything in the folder of one skill."""
    real = os.path.realpath(home)
    found = {real: _stamp(real)}
    _look_below(real, found, inside=True)
    return found


def touched(before: Stamps, after: Stamps) -> Iterator[str]:
    """Yield the paths that were added, removed or changed."""
    yield from (path for path, stamp in after.items() if before.get(path) != stamp)
    yield from (path for path in before if path not in after)


def _stamp(path: str) -> Stamp:
    try:
        return stamp_of(os.stat(path))
    except OSError:
        return _NOTHING


def _look_below(top: str, found: dict[str, Stamp], *, inside: bool = False) -> None:
    pending = [(top, inside)]
    for _ in range(MAX_FOLDERS):
        if not pending:
            return
        folder, inside = pending.pop()
        try:
            with os.scandir(folder) as listing:
                entries = list(listing)
        except OSError:
            continue  # just removed, or not readable, which discovery reports
        inside = inside or any(entry.name.lower() == "skill.md" for entry in entries)
        for entry in entries:
            _take(entry, found)
            if entry.is_dir(follow_symlinks=False) and (inside or _is_searched(entry.name)):
                pending.append((entry.path, inside))


def _take(entry: "os.DirEntry[str]", found: dict[str, Stamp]) -> None:
    try:
        found[entry.path] = stamp_of(entry.stat(follow_symlinks=False))
    except OSError:
        found[entry.path] = _NOTHING


def _is_searched(name: str) -> bool:
    return name == PLUGIN_FOLDER or not is_skipped_folder(name)


class ChangingError(Exception):
    """Files of a skill changed while they were being read."""


class VersionReader:
    """Reads versions of skills; `copies` makes the copies of their files."""

    def __init__(self, reader: ToolReader, copies: SkillCopies) -> None:
        self._reader = reader
        self._copies = copies
        self._prepared: dict[str, SkillTools] = {}  # by the path of a SKILL.md

    def prepare(self, skills: Iterable[Skill]) -> None:
        """Read the tools of skills whose versions are read next: many at once are faster."""
        by_name = {skill.name: skill for skill in skills}
        read = self._reader.read(by_name.values())
        self._prepared = {by_name[name].file: tools for name, tools in read.items()}

    def read(self, skill: Skill, noticed: tuple[Problem, ...], stamps: Stamps) -> SkillVersion:
        """Read a skill that was found after `stamps` were taken, or raise ChangingError."""
        home = str(skill.home)
        tools = self._tools(skill)
        copy, uncopied = self._copy(home) if _run_files(tools) else (None, None)
        version = SkillVersion(
            skill=skill,
            tools=tools,
            digest=_digest(skill, copy),
            noticed=noticed,
            copy=copy,
            uncopied=uncopied,
        )
        # Only existing paths are compared: a removed file has changed the stamp of its folder.
        if any(stamps.get(path) != stamp for path, stamp in look_at_skill(home).items()):
            raise ChangingError(home)
        return version

    def read_changing(self, skill: Skill, noticed: tuple[Problem, ...]) -> SkillVersion:
        """Read a skill whose files never stop changing: its calls run the files in place."""
        return SkillVersion(
            skill=skill,
            tools=self._tools(skill),
            digest="",
            noticed=noticed,
            uncopied=_not_copied(str(skill.home), "they keep changing"),
        )

    def tidy(self) -> None:
        """Remove copies that are no longer used."""
        self._copies.tidy()

    def _tools(self, skill: Skill) -> SkillTools:
        found = self._prepared.pop(skill.file, None)
        return found or self._reader.read([skill])[skill.name]

    def _copy(self, home: str) -> tuple[SkillCopy | None, Problem | None]:
        try:
            return self._copies.make(home), None
        except OSError as error:
            return None, _not_copied(home, (error.strerror or str(error)).lower())


def _run_files(tools: SkillTools) -> bool:
    return any(isinstance(tool.runs, Script | InlineScript | Binary) for tool in tools.tools)


def _digest(skill: Skill, copy: SkillCopy | None) -> str:
    try:
        _ = skill.body  # the first access reads and caches it
        return digest_of(copy.folder if copy else skill.home)
    except SkillUnreadableError as error:
        raise ChangingError(error.path) from None


def _not_copied(home: str, reason: str) -> Problem:
    message = f"its calls run the files in place, even while they are edited: {reason}"
    return Problem(path=home, code="skill-not-copied", severity="info", message=message)
