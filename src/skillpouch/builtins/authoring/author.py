"""Author: makes, saves and removes the tools that one agent defines, and no other tools."""

import errno
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from skillpouch.builtins.authoring.request import MARK, ToolRequest, skill_files
from skillpouch.checks.report import check_skills
from skillpouch.declarations.skill_md import read_skill_md
from skillpouch.discovery.text_skills.active import ActiveSkills, read_skill_in
from skillpouch.discovery.text_skills.folders import Files, Forget, keep, let_go
from skillpouch.errors import AmbiguousNameError, ToolFaultError, UnknownToolError
from skillpouch.registry.registry import BUILT_IN_NAMES, ToolOverlay
from skillpouch.runtime.memoize import Shared
from skillpouch.runtime.removal import remove_tree
from skillpouch.tools import Tool
from skillpouch.untrusted_files import CannotReadError, make_folder, make_folder_in

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_OURS = ".skillpouch"  # no skill is searched for in this folder


class SavedSkills:
    """The skills below one root that `define_tool` wrote, and no others."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # The real folder, resolved now: later a tool might replace the root by a link.
        self._real = os.path.realpath(root)

    def make_root(self) -> None:
        """Make the folder before any tool runs: a missing folder cannot be made read-only."""
        with suppress(OSError):  # `save` reports the error
            os.close(make_folder(self._real))

    def save(self, name: str, files: Files) -> Path:
        """Write a skill into a new folder and return the folder; raise when it already exists."""
        home = self.root / name
        try:
            with self._opened("drafts") as (root, drafts):
                _save(name, files, root, drafts)
        except FileExistsError:
            raise ToolFaultError(
                "conflict", f"{home} already exists", hint="choose another name"
            ) from None
        except OSError as error:
            raise _unwritable(home, error) from None
        return home

    def set_aside(self, home: Path) -> Path:
        """Move a skill to a folder where people can find it; return its new folder."""
        stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
        aside = f"{home.name}-{stamp}-{secrets.token_hex(3)}"
        try:
            with self._opened("removed") as (root, removed):
                os.rename(home.name, aside, src_dir_fd=root, dst_dir_fd=removed)
        except OSError as error:
            raise _unwritable(home, error) from None
        return self.root / _OURS / "removed" / aside

    @contextmanager
    def _opened(self, name: str) -> Iterator[tuple[int, int]]:
        """Open the root and a folder of ours in it: a later rename or link changes neither."""
        opened: list[int] = []
        try:
            opened.append(make_folder(self._real))
            opened.append(make_folder_in(opened[0], _OURS))
            opened.append(make_folder_in(opened[1], name))
            yield opened[0], opened[2]
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise
            message = f"{self.root} is no longer the folder it was"
            raise ToolFaultError("denied", message) from None
        finally:
            for folder in opened:
                os.close(folder)

    def __iter__(self) -> Iterator[Path]:
        """Yield the folders of the skills that were saved here."""
        if self.root.is_dir():
            yield from (home for home in sorted(self.root.iterdir()) if self.has(home))

    def has(self, home: Path) -> bool:
        """Tell whether an agent saved this skill: skills written by people are not touched."""
        if os.path.realpath(home.parent) != self._real or home.is_symlink():
            return False
        try:
            file = read_skill_md(f"{home}/SKILL.md", home.name)
        except CannotReadError:
            return False
        marks = file.metadata.frontmatter.get("metadata")
        return isinstance(marks, dict) and marks.get(MARK[0]) == MARK[1]


def _save(name: str, files: Files, root: int, drafts: int) -> None:
    """Write a draft, then rename it: atomic, and nothing is overwritten."""
    draft = f"{name}-{secrets.token_hex(6)}"
    folder = make_folder_in(drafts, draft)
    try:
        for path, text in files.items():
            _write_new(folder, path, text.encode())
        # mkdir(2) fails if the name is taken. The rename onto the new, empty folder is atomic; onto
        # anything else it would fail, rename(2): ENOTEMPTY, ENOTDIR.
        os.mkdir(name, dir_fd=root)
        os.rename(draft, name, src_dir_fd=drafts, dst_dir_fd=root)
    finally:
        os.close(folder)
        with suppress(OSError):
            remove_tree(draft, within=drafts)


def _write_new(folder: int, path: str, data: bytes) -> None:
    """Write a new file below an open folder, and fsync it; raise FileExistsError if it exists."""
    *above, name = path.split("/")
    opened = [os.dup(folder)]
    try:
        for part in above:
            opened.append(make_folder_in(opened[-1], part))
        descriptor = os.open(name, _NEW, 0o666, dir_fd=opened[-1])
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(descriptor)
    finally:
        for each in opened:
            os.close(each)


def _unwritable(home: Path, error: OSError) -> ToolFaultError:
    return ToolFaultError("denied", f"{home} cannot be written: {error.strerror or error}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Defined:
    """A new tool; `home` is the folder of its skill, if that was saved."""

    tool: Tool
    home: Path | None = None


class Author(Shared):
    """The tools that one agent has defined. `root` is the folder for persistent skills.

    `is_skill` tells whether a skill of a name exists, with tools or without; `changed` is called
    after a skill was saved or removed.
    """

    def __init__(
        self,
        added: ToolOverlay,
        root: Path,
        *,
        forget: Forget = lambda _: None,
        is_skill: Callable[[str], bool] = lambda _: False,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self._added = added
        self._temporary = ActiveSkills(added, forget)
        self._saved = SavedSkills(root)
        # Skill → its folder, for saved skills whose tools are added.
        self._homes: dict[str, Path] = {}
        self._is_skill = is_skill
        self._changed = changed
        self._lock = threading.Lock()

    def load(self) -> None:
        """Add the tools that were saved earlier, where no discovery finds them."""
        for home in self._saved:
            self._add(home)

    def make_root(self) -> None:
        """Make the folder that skills are saved in, so that it can be read-only for tools."""
        self._saved.make_root()

    def define(self, request: ToolRequest) -> Defined:
        """Make a tool that can be called at once; raise ToolFaultError when that fails."""
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
        """Remove a defined tool; return the new folder of its skill, if it was saved."""
        with self._lock:
            tool = self._find(name)
            if tool.skill in self._temporary.names():
                self._temporary.remove(tool.skill)
                return None
            if not tool.home or not self._saved.has(Path(tool.home)):
                message = f"{tool.id} was not made by define_tool, so it cannot be removed"
                raise ToolFaultError("denied", message)
            aside = self._saved.set_aside(Path(tool.home))
            self._homes.pop(tool.skill, None)
            self._added.drop(tool.skill)
            self._changed()
            return aside

    def close(self) -> None:
        """Remove the tools that were not saved."""
        self._temporary.close()

    def _add(self, home: Path) -> None:
        self._added.put(home.name, read_skill_in(home, home.name).read.tools)
        self._homes[home.name] = home

    def _find(self, name: str) -> Tool:
        if name in BUILT_IN_NAMES:
            raise ToolFaultError(
                "denied", f"{name} is one of Skillpouch's own tools, so it cannot be removed"
            )
        try:
            return self._added.get(name)
        except UnknownToolError as error:
            raise ToolFaultError("not_found", str(error), hint=error.advice) from None
        except AmbiguousNameError as error:
            raise ToolFaultError("invalid_argument", str(error), hint=error.advice) from None

    def _require_free(self, request: ToolRequest) -> None:
        """Refuse a name that is taken, unless by an earlier version of the same tool."""
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
