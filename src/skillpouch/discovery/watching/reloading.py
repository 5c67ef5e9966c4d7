"""Decides which version of each skill to serve: the new one if it is complete, else the last."""

import ast
import os
import time
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from skillpouch.discovery.catalogue import Catalogue
from skillpouch.discovery.discovery import Discovered
from skillpouch.discovery.skill_copies import SkillVersion
from skillpouch.discovery.watching.listening import Changes, changes_between
from skillpouch.discovery.watching.reading import ChangingError, Stamps, VersionReader, touched
from skillpouch.problems import Problem
from skillpouch.skills import Skill
from skillpouch.tools import Script

# Problems that a half-written SKILL.md or plugin.json has, besides errors.
_SIGNS = {"frontmatter-missing", "frontmatter-unclosed", "description-missing", "plugin-invalid"}


def what_was_lost(before: SkillVersion, after: SkillVersion) -> list[Problem]:
    """Return the problems of a new version that the earlier one did not have.

    Until they are corrected the old version is served, even if the change was intended.
    """
    known = {(problem.path, problem.code) for problem in before.problems}
    lost = [each for each in after.problems if _is_sign(each) and _key(each) not in known]
    return [*lost, *_broken_scripts(before, after)]


def has_lost_scripts(before: SkillVersion, after: SkillVersion) -> bool:
    """Tell whether tools are gone because their scripts were removed, perhaps only for a moment.

    Some programs save a file by deleting it first, or write its first lines before the others.
    """
    there = {tool.id for tool in after.tools.tools}
    gone = [tool.runs for tool in before.tools.tools if tool.id not in there]
    dropped = {problem.path for problem in after.problems if problem.code == "script-dropped"}
    return any(
        isinstance(runs, Script) and (runs.file in dropped or not runs.path.exists())
        for runs in gone
    )


def _key(problem: Problem) -> tuple[str, str]:
    return problem.path, problem.code


def _is_sign(problem: Problem) -> bool:
    return problem.severity == "error" or problem.code in _SIGNS


def _broken_scripts(before: SkillVersion, after: SkillVersion) -> list[Problem]:
    """Return problems of scripts that are now empty or not valid Python, and were not before."""
    was_broken = {
        _in_skill(script, before) for script in _scripts(before) if _fault(script, before)
    }
    found = []
    # An empty file is no tool any more.
    scripts = {script.file: script for script in (*_scripts(before), *_scripts(after))}
    for script in scripts.values():
        problem = _fault(script, after)
        if problem is not None and _in_skill(script, after) not in was_broken:
            found.append(problem)
    return found


def _scripts(version: SkillVersion) -> list[Script]:
    runs = [tool.runs for tool in version.tools.tools]
    return list({each.file: each for each in runs if isinstance(each, Script)}.values())


def _in_skill(script: Script, version: SkillVersion) -> str:
    return script.file.removeprefix(f"{version.skill.home}/")


def _fault(script: Script, version: SkillVersion) -> Problem | None:
    folder = version.copy.folder if version.copy else str(version.skill.home)
    try:
        data = Path(folder, _in_skill(script, version)).read_bytes()
    except OSError:
        return None  # already reported when the tools were read
    if not data.strip():
        message = "the script is empty"
        return Problem(path=script.file, code="script-empty", severity="error", message=message)
    if script.language == "python" and (error := _syntax_error(data)):
        message = f"not valid Python: {error.msg}"
        return Problem(
            path=script.file,
            code="script-syntax",
            severity="error",
            message=message,
            line=error.lineno,
        )
    return None


def _syntax_error(data: bytes) -> SyntaxError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(data)
    except SyntaxError as error:
        return error
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxError(str(error) or "nested too deeply")
    return None


_PATIENCE_SECONDS = 3.0


class Serving(Protocol):
    """The library whose skills are reloaded."""

    @property
    def roots(self) -> Sequence[str]: ...

    def discovered(self) -> list[Discovered]: ...

    def catalogue(
        self, parts: Iterable[Discovered], versions: Mapping[str, SkillVersion]
    ) -> Catalogue: ...

    def publish(self, catalogue: Catalogue) -> None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """What was found at the path of a skill: a skill, or None if it is missing or unreadable."""

    file: str
    skill: Skill | None
    noticed: tuple[Problem, ...]
    is_touched: bool


class Reloading:
    """Decides which version of every skill is served, by the path of its SKILL.md.

    Only one thread may use it at a time. A skill is removed when it has been missing for
    `missing_seconds`: some programs save a file by deleting it first.
    """

    def __init__(self, serving: Serving, reader: VersionReader, *, missing_seconds: float) -> None:
        self._serving = serving
        self._reader = reader
        self._missing_seconds = missing_seconds
        self._stamps: Stamps = {}
        self._versions: dict[str, SkillVersion] = {}
        self._served: dict[str, SkillVersion] = {}  # by the name of the skill
        self._held: dict[str, tuple[Problem, ...]] = {}  # why a newer version is not served
        self._missing: dict[str, float] = {}
        self._changing: dict[str, float] = {}  # SKILL.md → time when the skill began to change
        self._were_changing: dict[str, float] = {}
        self._restless: set[str] = set()  # files of skills that never stop changing
        self._problems: tuple[Problem, ...] = ()

    @property
    def is_waiting(self) -> bool:
        """Whether `reload` has to be called again later, even if no file changes."""
        return bool(self._missing or self._changing)

    def is_current(self, stamps: Stamps) -> bool:
        """Tell whether nothing has changed since the last reading."""
        return stamps == self._stamps

    def reload(self, stamps: Stamps) -> Changes | None:
        """Read changed skills and publish complete ones; None if nothing new is served.

        `stamps` were taken just before; a later change is found with the next ones.
        """
        homes = self._touched_homes(stamps)
        self._stamps = stamps
        self._were_changing, self._changing = self._changing, {}
        found = zip(self._serving.roots, self._serving.discovered(), strict=True)
        parts = [self._settled(root, part, homes) for root, part in found]
        files = [skill.file for part in parts for skill in part.skills]
        self._versions = {file: self._versions[file] for file in files}
        self._held = {file: self._held[file] for file in files if file in self._held}
        self._restless.intersection_update(files)
        changes = self._publish(parts)
        self._reader.tidy()
        return changes

    def _publish(self, parts: list[Discovered]) -> Changes | None:
        catalogue = self._serving.catalogue(parts, dict(self._versions))
        catalogue.read_all()
        served = {name: self._versions[s.file] for name, s in catalogue.skills.items()}
        problems = tuple(problem for held in self._held.values() for problem in held)
        changes = changes_between(self._served, served, problems)
        is_news = bool(changes) or problems != self._problems
        self._served, self._problems = served, problems
        self._serving.publish(catalogue)
        return changes if is_news else None

    def _touched_homes(self, stamps: Stamps) -> set[str]:
        """Return every folder with a change in it, at any depth."""
        found: set[str] = set()
        for path in touched(self._stamps, stamps):
            folder = path
            while folder not in found and folder not in ("", "/"):
                found.add(folder)
                folder = os.path.dirname(folder)
        return found

    def _settled(self, root: str, part: Discovered, homes: set[str]) -> Discovered:
        """Replace half-written skills of one root with their last complete versions."""
        skills = {skill.file: skill for skill in part.skills}
        known = [file for file, each in self._versions.items() if each.skill.source == root]
        problems = _Problems(part.problems)
        files = _in_place(list(skills), known)
        found = [self._look_at(file, skills.get(file), problems, homes) for file in files]
        unread = (each.skill for each in found if each.skill and not self._is_as_before(each))
        self._reader.prepare(unread)
        chosen: list[Skill] = []
        for each in found:
            version = self._version(each)
            if version is not None:
                self._versions[each.file] = version
                chosen.append(version.skill)
        said = [*part.problems, *self._held_in(chosen)]
        said += filter(None, (self._versions[skill.file].uncopied for skill in chosen))
        # Without duplicates: discovery reports some of the same problems.
        return replace(part, skills=tuple(chosen), problems=tuple(dict.fromkeys(said)))

    def _look_at(
        self, file: str, skill: Skill | None, problems: "_Problems", homes: set[str]
    ) -> _Found:
        home = os.path.realpath(os.path.dirname(file))
        return _Found(
            file=file,
            skill=skill,
            noticed=problems.about(file),
            is_touched=home in homes or file in self._missing or file in self._were_changing,
        )

    def _is_as_before(self, found: _Found) -> bool:
        served = self._versions.get(found.file)
        # A skill that is held back is read again: the cause may be in a file elsewhere, such as the
        # plugin.json, which also changes its name.
        if served is None or found.is_touched or found.file in self._held:
            return False
        return found.skill is not None and served.skill.name == found.skill.name

    def _version(self, found: _Found) -> SkillVersion | None:
        """Return the version of one skill to serve, None if there is none."""
        served = self._versions.get(found.file)
        if found.skill is None:
            return self._without(found, served)
        if served is None:
            return self._read(found.skill, found.noticed)
        if self._is_as_before(found):
            return served
        read = self._read(found.skill, found.noticed)
        if read is None or self._is_unfinished(found.file, served, read):
            return served
        self._missing.pop(found.file, None)
        self._held.pop(found.file, None)
        return served if _is_same(served, read) else read

    def _is_unfinished(self, file: str, served: SkillVersion, read: SkillVersion) -> bool:
        lost = what_was_lost(served, read)
        if lost:
            self._hold(file, lost)
        return bool(lost) or (has_lost_scripts(served, read) and self._may_return(file))

    def _read(self, skill: Skill, noticed: tuple[Problem, ...]) -> SkillVersion | None:
        """Read a skill; None while it is changing, unless it never stops."""
        try:
            read = self._reader.read(skill, noticed, self._stamps)
        except ChangingError:
            if self._is_patient_with(skill.file):
                return None
            self._restless.add(skill.file)
            return self._reader.read_changing(skill, noticed)
        self._restless.discard(skill.file)
        return read

    def _is_patient_with(self, file: str) -> bool:
        if file in self._restless:
            return False
        now = time.monotonic()
        since = self._were_changing.get(file, now)
        if now - since >= _PATIENCE_SECONDS:
            return False
        self._changing[file] = since
        return True

    def _held_in(self, skills: list[Skill]) -> list[Problem]:
        return [problem for skill in skills for problem in self._held.get(skill.file, ())]

    def _without(self, found: _Found, served: SkillVersion | None) -> SkillVersion | None:
        """Return the version to serve of a skill that is unreadable or missing.

        A half-written one, or one that is missing for a moment, keeps its last version.
        """
        if served is None:
            return None
        if os.path.lexists(found.file):
            self._missing.pop(found.file, None)
            self._hold(found.file, list(found.noticed))
            return served
        if self._may_return(found.file):
            return served
        del self._missing[found.file]
        return None

    def _may_return(self, file: str) -> bool:
        """Tell whether files of a skill are missing only for a short time yet."""
        now = time.monotonic()
        return now - self._missing.setdefault(file, now) < self._missing_seconds

    def _hold(self, file: str, lost: list[Problem]) -> None:
        reasons = (
            "; ".join(dict.fromkeys(problem.message for problem in lost)) or "it cannot be read"
        )
        path = lost[0].path if lost else file
        line = lost[0].line if lost else None
        message = f"the previous version is used until this is corrected: {reasons}"
        held = Problem(
            path=path, code="half-written", severity="warning", message=message, line=line
        )
        self._held[file] = (held, *lost)


class _Problems:
    """The problems that discovery found, by file and plugin."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self._of_files: dict[str, list[Problem]] = {}
        self._of_plugins: list[Problem] = []
        for problem in problems:
            self._of_files.setdefault(problem.path, []).append(problem)
            if problem.code == "plugin-invalid":
                self._of_plugins.append(problem)

    def about(self, file: str) -> tuple[Problem, ...]:
        """Return the problems of a SKILL.md, and of the plugin that it belongs to."""
        of_plugin = [each for each in self._of_plugins if file.startswith(_plugin_folder(each))]
        return (*self._of_files.get(file, ()), *of_plugin)


def _plugin_folder(problem: Problem) -> str:
    return f"{os.path.dirname(os.path.dirname(problem.path))}/"


def _is_same(served: SkillVersion, read: SkillVersion) -> bool:
    is_same_skill = served.skill == read.skill and served.problems == read.problems
    return is_same_skill and served.digest == read.digest != ""


def _in_place(found: list[str], known: list[str]) -> list[str]:
    """Return the found files in order, and each missing one after its earlier predecessor."""
    order = list(found)
    places = set(found)
    for number, file in enumerate(known):
        if file not in places:
            before = known[number - 1] if number else ""
            order.insert(order.index(before) + 1 if before in places else 0, file)
            places.add(file)
    return order
