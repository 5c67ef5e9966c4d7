"""The skills below some roots: found when first asked for, replaced as a whole when they change."""

import os
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skillpouch.builtins.disclosure.tools import disclosure_tools
from skillpouch.discovery.catalogue import Catalogue
from skillpouch.discovery.discovery import Discovered, find_skills
from skillpouch.discovery.index import Index
from skillpouch.policy.refusals import Refusals
from skillpouch.problems import Problem
from skillpouch.provision.readiness import Machine
from skillpouch.skills import OWN_FILES
from skillpouch.tools import Caller, Tool
from skillpouch.untrusted_files import follow_links_anew

if TYPE_CHECKING:
    from skillpouch.discovery.skill_versions import SkillVersion
    from skillpouch.discovery.watching.watcher import SkillWatcher

_MOST_WORKSPACES = 4_096


class SkillLibrary:
    """Whoever asks gets one catalogue and keeps it: it never changes under a reader.

    A root of `roots` that does not exist is a problem when it was `named`. `own` are tools that
    belong to no skill, said before anything is asked for.
    """

    def __init__(
        self,
        roots: Sequence[Path],
        index: Index,
        caller: Caller,
        *,
        named: bool,
        machine: Machine | None = None,
        refusals: Refusals | None = None,
    ) -> None:
        self.roots = tuple(map(str, roots))
        self.index = index
        self.own: tuple[Tool, ...] = ()
        self.discloses = False  # whether its list begins with what finds skills
        self._caller = caller
        self._named = named
        self._machine = machine or Machine()
        self._refusals = refusals or Refusals()
        self._current: Catalogue | None = None
        # Weakly: a catalogue that is no longer served goes, with its copies, when its calls end.
        self._kept: dict[Path, tuple[weakref.ref[Catalogue], tuple[Path, ...]]] = {}
        self._watcher: SkillWatcher | None = None

    @property
    def current(self) -> Catalogue:
        return self._current or self._load()

    @property
    def version(self) -> object:
        """What is another object when the skills may be others."""
        return self.current

    def get(self, name: str) -> Tool:
        """Find a tool as a call runs it."""
        return self.current.to_run(name)

    def __iter__(self) -> Iterator[Tool]:
        catalogue = self.current
        yield from self.own
        if self.discloses:
            yield from catalogue.disclosure
        yield from catalogue.tools_of(catalogue.skills.values())

    def kept_in(self, workspace: Path) -> tuple[Path, ...]:
        """Return what of the skills no tool may write inside a workspace.

        A root that lies in it, as a whole; of a root that is the workspace, or holds it, the
        folder of each skill, for the rest of it is what tools work on.
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
        if len(self._kept) > _MOST_WORKSPACES:
            self._kept.clear()
        self._kept[workspace] = (weakref.ref(catalogue), tuple(kept))
        return tuple(kept)

    def discover(self) -> None:
        """Walk the roots; where they are watched, wait until what is there is served."""
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
        """Make a catalogue of what was found, which nobody sees until it is published."""
        made = Catalogue(
            parts,
            self.index,
            machine=self._machine,
            refusals=self._refusals,
            caller=self._caller,
            own=self.own,
            versions=versions,
        )
        # They ask for what is served when they are called: a catalogue whose own tools held it
        # would stay, with the copies it serves, until the collector comes by.
        made.disclose(disclosure_tools(made.skills, lambda: self.current))
        return made

    def publish(self, catalogue: Catalogue) -> None:
        """Serve another catalogue from now on."""
        self._current = catalogue

    def watched_by(self, watcher: "SkillWatcher | None") -> None:
        """Hear who watches; raise AlreadyWatchedError when somebody does."""
        from skillpouch.discovery.watching.watcher import AlreadyWatchedError

        if watcher is not None and self._watcher is not None:
            raise AlreadyWatchedError
        self._watcher = watcher
        if watcher is None:
            self._current = None  # found anew, without copies

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
