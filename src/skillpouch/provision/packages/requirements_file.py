"""Reads `requirements.txt`: packages by name, and nothing that says where they come from."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from skillpouch.provision.packages.declared_files import DeclaredFiles
from skillpouch.provision.packages.errors import RequirementRefusedError
from skillpouch.provision.packages.requirement import (
    NotARequirementError,
    Requirement,
    parse_requirement,
)

_HASH = re.compile(r"\s--hash(?:=|\s+)((?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96})|sha512:\w{128})")
_OPTION = re.compile(r"(--?[A-Za-z][A-Za-z-]*)(?:=|\s+)?(.*)\Z")
_MOST_FILES = 20
# Options that change nothing here: only wheels are ever installed.
_IDLE = ("--prefer-binary", "--only-binary")
_SOURCES = (
    "-i",
    "--index-url",
    "--pypi-url",
    "--extra-index-url",
    "--no-index",
    "-f",
    "--find-links",
    "--trusted-host",
    "--index",
    "--default-index",
)


@dataclass(slots=True, kw_only=True)
class Listed:
    """What a requirements file asks for, with all that it includes."""

    requirements: list[Requirement] = field(default_factory=list)
    constraints: list[Requirement] = field(default_factory=list)
    prereleases: bool = False
    hashes_required: bool = False


def read_requirements(files: DeclaredFiles, path: Path) -> Listed | None:
    """Return what the file lists, None when there is no file.

    Raises:
        RequirementRefusedError: a line that Skillpouch does not install, by file and number.
    """
    text = files.read(path)
    if text is None:
        return None
    reader = _Reader(files)
    reader.read(path, text, reader.listed.requirements)
    return reader.listed


class _Reader:
    def __init__(self, files: DeclaredFiles) -> None:
        self.listed = Listed()
        self._files = files
        self._read: set[tuple[str, int]] = set()

    def read(self, path: Path, text: str, target: list[Requirement]) -> None:
        """Add the lines of one file to `target`; a file that was read already adds nothing."""
        key = (str(path), id(target))
        if key in self._read:
            return
        self._read.add(key)
        for number, line in logical_lines(text):
            try:
                self._take(path, line, target)
            except NotARequirementError as error:
                raise RequirementRefusedError(str(path), str(error), line=number) from None

    def _take(self, path: Path, line: str, target: list[Requirement]) -> None:
        if "${" in line:
            raise NotARequirementError("variables are not filled in: write what is meant")
        if line.startswith("-"):
            self._option(path, line, target)
            return
        target.append(_requirement(line))

    def _option(self, path: Path, line: str, target: list[Requirement]) -> None:
        found = _OPTION.match(line)
        name, value = (found[1], found[2].strip()) if found else (line, "")
        if not name.startswith("--"):  # -rother.txt
            name, value = line[:2], line[2:].strip()
        if name in ("-r", "--requirement"):
            self._include(path, value, target)
        elif name in ("-c", "--constraint"):
            self._include(path, value, self.listed.constraints)
        elif name == "--pre":
            self.listed.prereleases = True
        elif name == "--require-hashes":
            self.listed.hashes_required = True
        elif name not in _IDLE:
            raise NotARequirementError(_why_refused(name))

    def _include(self, path: Path, value: str, target: list[Requirement]) -> None:
        if len(self._read) >= _MOST_FILES:
            raise NotARequirementError(f"more than {_MOST_FILES} files are included")
        if "://" in value:
            raise NotARequirementError(f"{value!r} is an address: include files of the skill only")
        included = Path(path.parent, value)
        if not value or (text := self._files.read(included)) is None:
            raise NotARequirementError(f"there is no file {value!r} to include")
        self.read(included, text, target)


def logical_lines(text: str) -> list[tuple[int, str]]:
    """Return the lines that say something, continued ones joined, with the number they begin at."""
    found = []
    number, pending = 0, ""
    for count, line in enumerate(text.splitlines(), 1):
        number = number or count
        is_comment = line.lstrip().startswith("#")
        # A comment ends what it stands in, and is never continued itself.
        if line.endswith("\\") and not is_comment:
            pending += line[:-1].strip(" ") + " "
            continue
        whole = re.sub(r"(?:^|\s)#.*\Z", "", pending + line).strip()
        if whole:
            found.append((number, whole))
        number, pending = 0, ""
    return [*found, (number, pending.strip())] if pending.strip() else found


def _requirement(line: str) -> Requirement:
    hashes = tuple(_HASH.findall(line))
    bare = _HASH.sub(" ", line) if hashes else line
    option = re.search(r"\s(--?[A-Za-z][\w-]*)", bare)
    if option:
        raise NotARequirementError(_why_refused(option[1]))
    return parse_requirement(bare, hashes)


def _why_refused(option: str) -> str:
    if option in _SOURCES:
        return f"{option}: a skill does not choose where packages come from"
    if option in ("-e", "--editable"):
        return f"{option}: only packages by name are installed"
    if option == "--hash":
        return "--hash needs sha256:, sha384: or sha512: and all of its digits"
    return f"{option} is not supported: a skill lists packages by name"
