"""Reads the files in which a skill declares packages, and reports what is wrong with them."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from skillpouch.errors import SkillpouchError
from skillpouch.signatures.shebang import language_of, source_text
from skillpouch.untrusted_files import (
    DECLARATION_BYTES,
    CannotReadError,
    Stamp,
    look,
    read_inside,
    require_inside,
)


class DependencyError(SkillpouchError):
    """Packages that a script declares are missing and could not be installed; nothing ran."""

    code = "dependency"


class RequirementRefusedError(DependencyError):
    """A declaration of packages that Skillpouch does not install."""

    code = "requirement_refused"

    def __init__(self, path: str, reason: str, *, line: int | None = None) -> None:
        self.path = path
        self.line = line
        self.reason = reason
        where = f"{path}:{line}" if line else path
        super().__init__(
            f"{where}: {reason}",
            hint="name packages and versions only; they come from where you get packages yourself",
        )


class InstallError(DependencyError):
    """An environment could not be built; `output` is the end of the installer's output."""

    code = "install_failed"

    def __init__(
        self, skill: str, requirements: Sequence[str], reason: str, *, output: str = "", hint: str
    ) -> None:
        self.skill = skill
        self.requirements = tuple(requirements)
        self.reason = reason
        self.output = output
        wanted = ", ".join(requirements)
        said = f"\n{output}" if output else ""
        super().__init__(f"cannot install {wanted} for {skill}: {reason}{said}", hint=hint)


class DeclaredFiles:
    """Files of one skill. `seen` has every path that was looked up, with its stamp or None.

    While nothing in `seen` has changed, reading again gives the same result. `texts` are files
    that a declaration contains and that are not on disk, by the path that they would have.
    """

    def __init__(self, home: str, texts: Mapping[str, str] | None = None) -> None:
        self.home = Path(home)
        self.texts = dict(texts or {})
        self.seen: dict[str, Stamp | None] = {}
        self.by_folder: dict[str, Any] = {}  # what the files around a folder declare
        self._read: dict[str, str | None] = {}  # several scripts of a skill share these files

    def read(self, path: Path | str, most: int = DECLARATION_BYTES) -> str | None:
        """Return the text of a file, None if there is none; refuse a link out of the skill.

        A script may have any encoding; any other file must be UTF-8.
        """
        name = str(path)
        if name in self.texts:
            return self.texts[name]
        if name not in self._read:
            self._read[name] = self._read_file(name, most)
        return self._read[name]

    def _read_file(self, name: str, most: int) -> str | None:
        self.seen[name] = look(name)
        if self.seen[name] is None and not os.path.lexists(name):
            return None
        try:
            content = read_inside(name, str(self.home), most)
        except CannotReadError as error:
            raise RequirementRefusedError(name, error.reason) from None
        self.seen[name] = content.stamp
        if language := language_of(name):
            return source_text(content.data, language)
        try:
            return content.data.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise RequirementRefusedError(name, "it is not UTF-8 text") from None

    def has_folder(self, path: Path) -> bool:
        """Tell whether the skill contains such a folder; a link that leads outside is none."""
        # Its stamp changes more often than needed, with every file in it; a new reading is cheap.
        self.seen[str(path)] = look(str(path))
        try:
            require_inside(str(path), str(self.home))
        except CannotReadError:
            return False
        return path.is_dir()
