"""Author: makes tools for one agent and takes them away again, never touching anybody else's."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from skillpouch.builtins.authoring.request import ToolRequest
from skillpouch.builtins.authoring.saved_skills import SavedSkills
from skillpouch.builtins.authoring.skill_files import skill_files
from skillpouch.checks.report import check_skills
from skillpouch.discovery.text_skills.active import ActiveSkills
from skillpouch.discovery.text_skills.folders import Files, Forget, keep, let_go
from skillpouch.discovery.text_skills.reading import read_skill_in
from skillpouch.errors import AmbiguousNameError, ToolFaultError, UnknownToolError
from skillpouch.registry.overlay import AddedTools
from skillpouch.registry.registry import BUILT_IN_NAMES
from skillpouch.runtime.memoize import Shared
from skillpouch.tools import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Defined:
    """A tool that was made; `home` is where its skill was saved, if it was."""

    tool: Tool
    home: Path | None = None


class Author(Shared):
    """What one agent has defined. `root` is where it saves skills that are to stay.

    `is_skill` tells whether somebody has a skill of a name, with tools or without; `changed` is
    called when a skill was saved or moved aside.
    """

    def __init__(
        self,
        added: AddedTools,
        root: Path,
        *,
        forget: Forget = lambda _: None,
        is_skill: Callable[[str], bool] = lambda _: False,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._added = added
        self._temporary = ActiveSkills(added, forget)
        self._saved = SavedSkills(root)
        self._homes: dict[str, Path] = {}  # of skills that were saved and are added
        self._is_skill = is_skill
        self._changed = changed
        self._lock = threading.Lock()

    def load(self) -> None:
        """Add the tools that were saved earlier, for those who do not find them otherwise."""
        for home in self._saved:
            self._add(home)

    def make_root(self) -> None:
        """Make the folder that skills are saved in, so that tools find it read-only."""
        self._saved.make_root()

    def define(self, request: ToolRequest) -> Defined:
        """Make a tool that can be called at once; raise ToolFaultError when that cannot be."""
        files = skill_files(request)
        with self._lock:
            self._require_free(request)
            _check(request.skill, files)
            if not request.persistent:
                self._temporary.use_files(request.skill, files)
                return Defined(tool=self._added.get(f"{request.skill}.{request.name}"))
            home = self._saved.save(request.skill, files)
            self._temporary.remove(request.skill)
            self._add(home)
            self._changed()
            return Defined(tool=self._added.get(f"{request.skill}.{request.name}"), home=home)

    def remove(self, name: str) -> Path | None:
        """Take a tool away that was defined; return where its skill is now, if it was saved."""
        with self._lock:
            tool = self._find(name)
            if tool.skill in self._temporary.names():
                self._temporary.remove(tool.skill)
                return None
            if not tool.home or not self._saved.has(Path(tool.home)):
                message = f"{tool.id} was not made by define_tool, and stays"
                raise ToolFaultError("denied", message)
            aside = self._saved.set_aside(Path(tool.home))
            self._homes.pop(tool.skill, None)
            self._added.drop(tool.skill)
            self._changed()
            return aside

    def close(self) -> None:
        """Take away what was not saved."""
        self._temporary.close()

    def _add(self, home: Path) -> None:
        self._added.put(home.name, read_skill_in(home, home.name).read.tools)
        self._homes[home.name] = home

    def _find(self, name: str) -> Tool:
        if name in BUILT_IN_NAMES:
            raise ToolFaultError("denied", f"{name} is one of Skillpouch's own tools, and stays")
        try:
            return self._added.get(name)
        except UnknownToolError as error:
            raise ToolFaultError("not_found", str(error), hint=error.advice) from None
        except AmbiguousNameError as error:
            raise ToolFaultError("invalid_argument", str(error), hint=error.advice) from None

    def _require_free(self, request: ToolRequest) -> None:
        """Refuse a name that means something, unless it means an earlier try of the same tool."""
        own = request.skill in self._temporary.names()
        if request.name in BUILT_IN_NAMES:
            raise _taken(f"{request.name} is one of Skillpouch's own tools")
        found = self._meaning_of(request.name)
        if found and not (own and found == f"{request.skill}.{request.name}"):
            raise _taken(f"{request.name} means {found}")
        skills = (tool.skill for tool in self._added)
        if not own and (self._is_skill(request.skill) or request.skill in skills):
            raise _taken(f"there is a skill {request.skill!r}")

    def _meaning_of(self, name: str) -> str:
        try:
            return self._added.get(name).id
        except UnknownToolError:
            return ""
        except AmbiguousNameError as error:
            return " or ".join(error.candidates)


def _taken(why: str) -> ToolFaultError:
    hint = "choose another name, or, if it is yours, call remove_tool first"
    return ToolFaultError("conflict", why, hint=hint)


def _check(name: str, files: Files) -> None:
    """Refuse what `skillpouch check --strict` would complain about: secrets in code, above all."""
    kept = keep(files, name)
    try:
        checked = check_skills([kept.home], strict=True, progress=lambda _done, _all: None)
    finally:
        let_go(kept)
    if checked.problems:
        said = [f"{Path(p.path).name}: {p.message}" for p in checked.problems]
        raise ToolFaultError("invalid_argument", "; ".join(said[:4]))
