"""Catalogue: skills by name, their tools, and all problems; replaced as a whole."""

import os
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from skillpouch.discovery.discovery import Discovered, find_skills
from skillpouch.discovery.index import Index
from skillpouch.errors import AmbiguousNameError, SkillNotFoundError, UnknownToolError
from skillpouch.problems import Problem
from skillpouch.registry.registry import BUILT_IN_NAMES, FOR_SKILL, ToolRegistry, is_built_in
from skillpouch.runtime.memoize import BoundedCache
from skillpouch.skills import OWN_FILES, Skill
from skillpouch.tools import Caller, Script, Tool, bind, in_any_form
from skillpouch.untrusted_files import follow_links_anew

if TYPE_CHECKING:
    from skillpouch.discovery.skill_copies import SkillCopy, SkillVersion
    from skillpouch.discovery.tool_reading import Complete, ToolReader
    from skillpouch.discovery.watching.watcher import SkillWatcher
    from skillpouch.tools import SkillTools
    from skillpouch.untrusted_files import Stamp


class MachineView(Protocol):
    """Knows what this machine lacks for tools."""

    def missing(self, tool: Tool) -> list[str]: ...
    def missing_for_skill(self, skill: Skill) -> list[str]: ...


class PolicyView(Protocol):
    """Knows which tools would be refused, whatever their arguments."""

    def of_skill(self, tools: Iterable[Tool]) -> dict[str, list[str]]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LaterStages:
    """Later stages that a library calls; the code that makes the library passes them in.

    `complete` adds what the tools of a skill ask for, `disclosure` makes the tools with which an
    agent searches and reads the served skills.
    """

    complete: "Complete"
    machine: MachineView
    refusals: PolicyView
    disclosure: "Callable[[Mapping[str, Skill], Callable[[], Catalogue]], Iterable[Tool]]"


class Catalogue:
    """The skills of all roots; later roots override earlier ones. Replaced by each discovery."""

    def __init__(
        self,
        discovered: Iterable[Discovered],
        reader: "Callable[[], ToolReader]",
        *,
        stages: LaterStages,
        caller: Caller | None = None,
        own: Callable[[], Iterable[Tool]] = tuple,
        versions: "Mapping[str, SkillVersion] | None" = None,
    ) -> None:
        self.skills: dict[str, Skill] = {}
        self.all_skills: list[Skill] = []  # also shadowed ones
        self.found = 0
        self.skipped = 0
        self._problems: list[Problem] = []
        self._stamps: dict[str, Stamp] = {}
        for part in discovered:
            self._take(part)
        self._ranks = {name: rank for rank, name in enumerate(self.skills)}
        self._reader = reader
        self._stages = stages
        self._caller = caller
        self._registry = ToolRegistry()
        self._disclose: Callable[[], Iterable[Tool]] = tuple
        self._disclosed: tuple[Tool, ...] | None = None
        self._own = own
        self._versions = versions or {}
        self._copied: dict[str, tuple[Tool, Tool]] = {}  # by id: the tool as read, and from a copy
        self._tools: dict[str, SkillTools] = {}
        self._reading = threading.Lock()

    def disclose(self, tools: Callable[[], Iterable[Tool]]) -> None:
        """Set the function that makes the tools with which an agent searches these skills."""
        self._disclose = tools

    @property
    def disclosure(self) -> tuple[Tool, ...]:
        """The tools with which an agent searches these skills.

        They, and the manager's own tools, are registered at the first request.
        """
        if self._disclosed is None:
            with self._reading:  # made once, even by several threads: these tools hold state
                if self._disclosed is None:
                    made = tuple(self._disclose())
                    for tool in (*made, *self._own()):
                        self._register(tool, rank=-1)
                    self._disclosed = made
        return self._disclosed

    def skill(self, name: str) -> Skill:
        """Find a skill by its name, its bare name if that is unique, or its declared name."""
        if name in self.skills:
            return self.skills[name]
        candidates = in_any_form(self.names(), name) or []
        if len(candidates) > 1:
            raise AmbiguousNameError(name, candidates)
        if not candidates:
            raise SkillNotFoundError(name, known=self.skills, hint=self._nowhere())
        return self.skills[candidates[0]]

    def names(self) -> dict[str, list[str]]:
        """Return every name that finds a skill, with the skills it finds."""
        names: dict[str, list[str]] = {}
        for name, skill in self.skills.items():
            for other in dict.fromkeys((name, name.rpartition(":")[2], skill.metadata.name)):
                names.setdefault(other, []).append(name)
        return names

    def loaded(self, name: str) -> Skill:
        """Find a skill with its body, as it is on disk or, if watched, in the served version."""
        skill = self.skill(name)
        if skill.file not in self._versions:
            skill = replace(skill)
        _ = skill.body  # the first access reads and caches it
        return skill

    @property
    def runs_commands(self) -> bool:
        """Whether an agent can run commands for these skills."""
        return any(tool.id == FOR_SKILL for tool in self._own())

    def served(self, name: str) -> "tuple[Skill, SkillCopy | None]":
        """Find a skill, and the copy of it that calls run from, if there is one."""
        skill = self.skill(name)
        version = self._versions.get(skill.file)
        return skill, version.copy if version else None

    def tools_of(self, skills: Iterable[Skill]) -> list[Tool]:
        """Return the tools of some skills, in order."""
        skills = list(skills)
        self._read(skills)
        found: list[Tool] = []
        for skill in skills:
            found += self._ready(skill, self._tools[skill.name].tools)
        return found

    def missing_for(self, skill: Skill) -> list[str]:
        """Return what the frontmatter of a skill requires and this machine lacks."""
        return self._stages.machine.missing_for_skill(skill)

    def tool(self, name: str) -> Tool:
        """Find a tool by id, wire name, or bare name; `missing` says what it lacks, also grants."""
        tool = self.find(name)
        if is_built_in(tool):
            return tool
        (ready,) = self._ready(self.skills[tool.skill], [tool])
        return ready

    def find(self, name: str) -> Tool:
        """Find a tool; read only the skills that this takes."""
        if name in BUILT_IN_NAMES:
            _ = self.disclosure
        if len(self._tools) < len(self.skills):
            self._read_for(name)
        if name not in self._registry:
            _ = self.disclosure  # registers these tools, so that the error can suggest them, too
        if name in self.skills and name not in self._registry:
            ids = [tool.id for tool in self._tools[name].tools]
            said = f"its tools: {', '.join(ids[:12])}" if ids else "it has no tools"
            raise UnknownToolError(name, hint=f"{name!r} is a skill; {said}")
        if not self.skills and name not in self._registry and (hint := self._nowhere()):
            raise UnknownToolError(name, hint=hint)
        return self._registry.get(name)

    def _read_for(self, name: str) -> None:
        if not self._registry.has_id(name):
            owners = [skill for owner, skill in self.skills.items() if name.startswith(f"{owner}.")]
            self._read(owners)
        # Only an id names its skill: to find any other name, all tools have to be read.
        if not self._registry.has_id(name):
            self._read(self.skills.values())

    def _nowhere(self) -> str:
        """Return a hint if there are no skills because a root that the user named is missing."""
        missing = [each.path for each in self._problems if each.code == "root-missing"]
        return "" if self.skills or not missing else f"there is no such folder: {missing[0]}"

    def read_all(self) -> None:
        """Read the tools of every skill now, so that no call has to wait for it."""
        self._read(self.skills.values())

    def to_run(self, name: str) -> Tool:
        """Find a tool for a call: it runs from a copy of its skill if there is one."""
        tool = self.find(name)
        skill = self.skills.get(tool.skill)
        version = self._versions.get(skill.file) if skill else None
        if version is None or version.copy is None:
            return tool
        known = self._copied.get(tool.id)
        if known is None or known[0] is not tool:
            known = self._copied[tool.id] = (tool, version.copy.holds(tool))
        return known[1]

    def tool_of_script(self, skill_name: str, script_path: str) -> Tool:
        """Find the tool that runs a script, by its path inside the skill."""
        skill = self.skill(skill_name)
        path = os.path.normpath(os.path.join(skill.home, script_path))
        beside = os.path.normpath(os.path.join(skill.home, "scripts", script_path))
        tools = self.tools_of([skill])
        for tool in tools:
            if isinstance(tool.runs, Script) and tool.runs.file in (path, beside):
                return tool
        files = [tool.runs.file for tool in tools if isinstance(tool.runs, Script)]
        raise UnknownToolError(
            script_path, known=[os.path.relpath(file, skill.home) for file in files]
        )

    def problems(self) -> list[Problem]:
        """Return what was found wrong: in skills, and in tools that were already read."""
        of_tools = [problem for read in list(self._tools.values()) for problem in read.problems]
        return [*self._problems, *of_tools, *self._registry.problems()]

    def _take(self, part: Discovered) -> None:
        self.found += part.found
        self.skipped += part.skipped
        self._stamps |= part.stamps
        self._problems += part.problems
        self.all_skills += part.skills
        of_part: dict[str, Skill] = {}
        for skill in part.skills:
            around = of_part.get(skill.name)
            if around is not None and skill.home.is_relative_to(around.home):
                # A variant for another agent, inside the skill that has the scripts.
                self._problems.append(_shadowing(skill, around))
                continue
            earlier = self.skills.pop(skill.name, None)
            if earlier is not None:
                self._problems.append(_shadowing(earlier, skill))
            self.skills[skill.name] = of_part[skill.name] = skill

    def _read(self, skills: Iterable[Skill]) -> None:
        with self._reading:
            skills = [skill for skill in skills if skill.name not in self._tools]
            if not skills:
                return  # the usual case, and opening the index costs more than all the rest
            served = {s.name: self._versions[s.file] for s in skills if s.file in self._versions}
            unread = [skill for skill in skills if skill.name not in served]
            found = self._reader().read(unread, self._stamps)
            found |= {name: version.tools for name, version in served.items()}
            for name, read in found.items():
                for tool in read.tools:
                    self._register(tool, rank=self._ranks[name])
                self._tools[name] = read

    def _register(self, tool: Tool, *, rank: int) -> None:
        if self._caller is not None:
            bind(tool, self._caller)
        self._registry.register(tool, rank=rank)

    def _ready(self, skill: Skill, tools: Iterable[Tool]) -> Iterator[Tool]:
        """Yield tools of one skill under their current names, with what each lacks to be run."""
        named = [self._registry.named(tool) for tool in tools]
        machine = self._stages.machine
        lacking = machine.missing_for_skill(skill)
        refused = self._stages.refusals.of_skill(named)
        for tool in named:
            missing = [*machine.missing(tool), *lacking, *refused.get(tool.id, ())]
            yield replace(tool, missing=tuple(dict.fromkeys(missing))) if missing else tool


def _shadowing(earlier: Skill, later: Skill) -> Problem:
    if os.path.realpath(earlier.file) == os.path.realpath(later.file):
        message = f"skill {later.name!r} is the same file as {earlier.file}"
        return Problem(path=later.file, code="skill-alias", severity="info", message=message)
    message = f"skill {later.name!r} at {later.file} is used instead of this one"
    return Problem(path=earlier.file, code="skill-shadowed", severity="warning", message=message)


_MOST_WORKSPACES = 4_096


class SkillLibrary:
    """Serves the current catalogue; a reader may keep it, because it is replaced, never changed.

    A missing root is reported if the user `named` the roots. `own` makes tools that belong to no
    skill; it has to be set before the first request.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        index: Index,
        caller: Caller,
        *,
        named: bool,
        stages: LaterStages,
    ) -> None:
        self.roots = tuple(map(str, roots))
        self.index = index
        self.own: Callable[[], Iterable[Tool]] = tuple
        self.discloses = False  # whether iterating yields the tools that search skills, too
        self._caller = caller
        self._named = named
        self._stages = stages
        self._current: Catalogue | None = None
        # Weak references: a catalogue that is no longer served must be freed, with its copies,
        # when its last call ends.
        self._kept: BoundedCache[Path, tuple[weakref.ref[Catalogue], tuple[Path, ...]]]
        self._kept = BoundedCache(_MOST_WORKSPACES)
        self._watcher: SkillWatcher | None = None

    @cached_property
    def reader(self) -> "ToolReader":
        """Reads the tools of skills; made at first use, because listing skills does not need it."""
        from skillpouch.discovery.tool_reading import ToolReader

        return ToolReader(self.index, self._stages.complete)

    @property
    def current(self) -> Catalogue:
        return self._current or self._load()

    @property
    def version(self) -> object:
        """An object that is replaced whenever the skills may have changed."""
        return self.current

    def get(self, name: str) -> Tool:
        """Find a tool for a call."""
        return self.current.to_run(name)

    @property
    def knows_skills(self) -> bool:
        """Whether there is a skill to run commands for."""
        return bool(self.current.skills)

    def skill_named(self, name: str) -> "tuple[Skill, SkillCopy | None]":
        """Find a skill for a call, and the copy of it that calls run from, if there is one."""
        return self.current.served(name)

    def __iter__(self) -> Iterator[Tool]:
        catalogue = self.current
        yield from (each for each in self.own() if each.id != FOR_SKILL or self.knows_skills)
        if self.discloses:
            yield from catalogue.disclosure
        yield from catalogue.tools_of(catalogue.skills.values())

    def kept_in(self, workspace: Path) -> tuple[Path, ...]:
        """Return the folders and files of skills that no tool may write inside a workspace.

        A root inside the workspace is read-only as a whole. If a root is the workspace or a folder
        above it, only the folders of its skills are: tools work on the rest.
        """
        catalogue = self.current
        known = self._kept.get(workspace)
        if known is not None and known[0]() is catalogue:
            return known[1]
        roots = [Path(os.path.realpath(root)) for root in self.roots]
        kept = [root for root in roots if workspace in root.parents]
        if any(workspace.is_relative_to(root) for root in roots):
            homes = {Path(os.path.realpath(skill.home)) for skill in catalogue.all_skills}
            kept += sorted(home for home in homes if workspace in home.parents)
            kept += [workspace / name for name in OWN_FILES if workspace in homes]
        self._kept[workspace] = (weakref.ref(catalogue), tuple(kept))
        return tuple(kept)

    def discover(self) -> None:
        """Walk the roots; if they are watched, wait until the current files are served."""
        if self._watcher is not None:
            self._watcher.refresh()
        else:
            self._load()

    def discovered(self) -> list[Discovered]:
        """Return what lies below each root."""
        follow_links_anew()
        boundaries = [os.path.realpath(root) for root in self.roots]
        return [self._find(root, boundaries) for root in self.roots]

    def catalogue(
        self, parts: Iterable[Discovered], versions: "Mapping[str, SkillVersion] | None" = None
    ) -> Catalogue:
        """Make a catalogue of what was found; it is not served before `publish`."""
        made = Catalogue(
            parts,
            lambda: self.reader,
            stages=self._stages,
            caller=self._caller,
            own=self.own,
            versions=versions,
        )
        # A function instead of `made`: tools that referred to their own catalogue would make a
        # cycle, and keep it, with its copies, until the next garbage collection.
        made.disclose(partial(self._stages.disclosure, made.skills, lambda: self.current))
        return made

    def publish(self, catalogue: Catalogue) -> None:
        """Serve another catalogue from now on."""
        self._current = catalogue

    def watched_by(self, watcher: "SkillWatcher | None") -> None:
        """Set or clear the watcher; raise AlreadyWatchedError if there is another."""
        from skillpouch.discovery.watching.watcher import AlreadyWatchedError

        if watcher is not None and self._watcher is not None:
            raise AlreadyWatchedError
        self._watcher = watcher
        if watcher is None:
            self._current = None  # the next request discovers again, without copies

    def _load(self) -> Catalogue:
        catalogue = self._current = self.catalogue(self.discovered())
        return catalogue

    def _find(self, root: str, boundaries: list[str]) -> Discovered:
        found = find_skills(root, boundaries, self.index)
        if not self._named or os.path.isdir(root):
            return found
        message = "no such folder to search for skills"
        problem = Problem(path=root, code="root-missing", severity="warning", message=message)
        return replace(found, problems=(problem, *found.problems))
