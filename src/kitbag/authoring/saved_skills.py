"""Skills that an agent saves: put in their place at once, never over another, moved aside to go."""

import os
import secrets
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from kitbag.authoring.skill_files import MARK
from kitbag.declarations.skill_md import read_skill_md
from kitbag.removal import remove_tree
from kitbag.text_skills.folders import Files
from kitbag.untrusted_files import CannotReadError, ToolFaultError

_OURS = ".kitbag"  # no skill is ever looked for in it


class SavedSkills:
    """The skills below one root that `define_tool` wrote, and no others."""

    def __init__(self, root: Path) -> None:
        self.root = root
        # What the root is now: a tool might put a link in its place to be written through.
        self._real = os.path.realpath(root)

    def save(self, name: str, files: Files) -> Path:
        """Write a skill into its folder and return that; raise when there is something already."""
        home = self.root / name
        try:
            draft = self._ours("drafts") / f"{name}-{secrets.token_hex(6)}"
            try:
                _write(draft, files)
                # Only who makes the folder may fill it; a rename onto an empty one is atomic.
                home.mkdir()
                draft.rename(home)
            finally:
                with suppress(OSError):
                    remove_tree(draft)
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
        try:
            aside = self._ours("removed") / f"{home.name}-{stamp}-{secrets.token_hex(3)}"
            home.rename(aside)
        except OSError as error:
            raise _unwritable(home, error) from None
        return aside

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

    def _ours(self, name: str) -> Path:
        self.root.mkdir(parents=True, exist_ok=True)
        folder = self.root / _OURS / name
        folder.mkdir(parents=True, exist_ok=True)
        if os.path.realpath(folder) != f"{self._real}/{_OURS}/{name}":
            raise ToolFaultError("denied", f"{self.root} is no longer the folder it was")
        return folder


def _write(draft: Path, files: Files) -> None:
    for path, text in files.items():
        file = draft / path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", encoding="utf-8", newline="") as opened:
            opened.write(text)
            opened.flush()
            os.fsync(opened.fileno())


def _unwritable(home: Path, error: OSError) -> ToolFaultError:
    return ToolFaultError("denied", f"{home} cannot be written: {error.strerror or error}")
