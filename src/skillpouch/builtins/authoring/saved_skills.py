"""Skills that an agent saves: put in their place at once, never over another, moved aside to go."""

import errno
import os
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from skillpouch.builtins.authoring.skill_files import MARK
from skillpouch.declarations.skill_md import read_skill_md
from skillpouch.discovery.text_skills.folders import Files
from skillpouch.errors import ToolFaultError
from skillpouch.runtime.removal import remove_tree
from skillpouch.untrusted_files import CannotReadError, make_folder, make_folder_in, write_new

_OURS = ".skillpouch"  # no skill is ever looked for in it


class SavedSkills:
    """The skills below one root that `define_tool` wrote, and no others."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # What the root is now: a tool might put a link in its place to be written through.
        self._real = os.path.realpath(root)

    def make_root(self) -> None:
        """Make the folder before any tool runs: what is not there yet cannot be kept from them."""
        with suppress(OSError):  # whoever saves a skill is told
            os.close(make_folder(self._real))

    def save(self, name: str, files: Files) -> Path:
        """Write a skill into its folder and return that; raise when there is something already."""
        home = self.root / name
        try:
            with self._opened("drafts") as (root, drafts):
                _save(name, files, root, drafts)
        except FileExistsError:
            raise ToolFaultError(
                "conflict", f"{home} is there already", hint="choose another name"
            ) from None
        except OSError as error:
            raise _unwritable(home, error) from None
        return home

    def set_aside(self, home: Path) -> Path:
        """Move a skill out of sight, where a person finds it; return where it is now."""
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
        """Hold the root open, and a folder of ours in it: a rename or a link moves neither."""
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
        """Tell whether a skill was saved here by an agent: somebody's own is not to be touched."""
        if os.path.realpath(home.parent) != self._real or home.is_symlink():
            return False
        try:
            file = read_skill_md(f"{home}/SKILL.md", home.name)
        except CannotReadError:
            return False
        marks = file.metadata.frontmatter.get("metadata")
        return isinstance(marks, dict) and marks.get(MARK[0]) == MARK[1]


def _save(name: str, files: Files, root: int, drafts: int) -> None:
    """Write a draft, then put it in its place: all of it at once, and over nothing."""
    draft = f"{name}-{secrets.token_hex(6)}"
    folder = make_folder_in(drafts, draft)
    try:
        for path, text in files.items():
            write_new(folder, path, text.encode())
        # Only who makes the folder may fill it; a rename onto an empty one is atomic, and onto
        # anything else it fails (rename(2): ENOTEMPTY, ENOTDIR).
        os.mkdir(name, dir_fd=root)
        os.rename(draft, name, src_dir_fd=drafts, dst_dir_fd=root)
    finally:
        os.close(folder)
        with suppress(OSError):
            remove_tree(draft, within=drafts)


def _unwritable(home: Path, error: OSError) -> ToolFaultError:
    return ToolFaultError("denied", f"{home} cannot be written: {error.strerror or error}")
