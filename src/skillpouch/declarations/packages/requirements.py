"""Reads requirements on Python packages: PEP 508, requirements.txt, requires-python."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from skillpouch.declarations.packages.declared_files import DeclaredFiles, RequirementRefusedError

_NAME = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_SPECIFIER = r"(?:~=|===?|!=|<=?|>=?)\s*[A-Za-z0-9][A-Za-z0-9.*+!_-]*"
_SPECIFIERS = rf"{_SPECIFIER}(?:\s*,\s*{_SPECIFIER})*\s*,?"
_REQUIREMENT = re.compile(
    rf"(?P<name>{_NAME})\s*(?:\[(?P<extras>[^\]]*)\])?\s*"
    rf"(?:(?P<bare>{_SPECIFIERS})|\(\s*(?P<wrapped>{_SPECIFIERS})\s*\))?\s*(?:;(?P<marker>.*))?\Z"
)
# Only the tokens that a marker may have. Installers split a line at " -" and expand "${NAME}", even
# between quotes: a marker must contain neither.
_MARKER_TOKEN = re.compile(
    r"""\s*(?:(?P<word>[a-z_]+(?:\.[a-z_]+)?)|(?P<operator>~=|===?|!=|<=?|>=?|[()])
    |'(?P<single>[\w .+*,!:~/()-]*)'|"(?P<double>[\w .+*,!:~/()-]*)")\s*""",
    re.VERBOSE,
)
_MARKER_WORDS = frozenset(
    (
        *("and", "or", "in", "not", "extra", "os_name", "sys_platform"),
        *("python_version", "python_full_version", "implementation_name", "implementation_version"),
        *("platform_machine", "platform_python_implementation", "platform_release"),
        *("platform_system", "platform_version"),
    )
)
_ARCHIVE = re.compile(r"\.(?:whl|zip|tar\.\w+|tgz)\Z", re.IGNORECASE)
_MOST_CHARACTERS = 1_000


class NotARequirementError(ValueError):
    """A requirement that Skillpouch does not install; the message says why."""


@dataclass(frozen=True, slots=True, order=True)
class Requirement:
    """A package by name. If it is pinned, its files must have one of the `hashes`."""

    name: str
    extras: tuple[str, ...] = ()
    specifiers: tuple[str, ...] = ()
    marker: str = ""
    hashes: tuple[str, ...] = ()

    def __str__(self) -> str:
        extras = f"[{','.join(self.extras)}]" if self.extras else ""
        marker = f"; {self.marker}" if self.marker else ""
        return f"{self.name}{extras}{','.join(self.specifiers)}{marker}"

    @property
    def line(self) -> str:
        """The requirement as a line for an installer."""
        return " ".join([str(self), *(f"--hash={value}" for value in self.hashes)])


def parse_requirement(text: str, hashes: tuple[str, ...] = ()) -> Requirement:
    """Return the requirement; raise NotARequirementError for everything but a named package."""
    text = text.strip()
    if len(text) > _MOST_CHARACTERS:
        raise NotARequirementError(f"{len(text):,} characters are too many for a requirement")
    found = _REQUIREMENT.match(text)
    if found is None or _ARCHIVE.search(text.partition(";")[0].strip()):
        raise NotARequirementError(_why_not(text))
    specifiers = found["bare"] or found["wrapped"] or ""
    return Requirement(
        name=normal_name(found["name"]),
        extras=_extras(found["extras"] or "", text),
        specifiers=tuple(sorted({"".join(part.split()) for part in specifiers.split(",") if part})),
        marker=_marker(found["marker"] or "", text),
        hashes=tuple(sorted(hashes)),
    )


def normal_name(name: str) -> str:
    """Return a name in the form in which names of packages are compared, PEP 503."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _extras(text: str, whole: str) -> tuple[str, ...]:
    extras = [part.strip() for part in text.split(",") if part.strip()]
    if not all(re.fullmatch(_NAME, extra) for extra in extras):
        raise NotARequirementError(f"{whole!r} names extras that cannot be read")
    return tuple(sorted({normal_name(extra) for extra in extras}))


def _marker(text: str, whole: str) -> str:
    tokens = []
    position = 0
    while position < len(text):
        token = _MARKER_TOKEN.match(text, position)
        if token is None or not _is_harmless(token):
            raise NotARequirementError(f"{whole!r} has a condition that cannot be understood")
        quoted = token["single"] if token["single"] is not None else token["double"]
        tokens.append(token["word"] or token["operator"] or f'"{quoted}"')
        position = token.end()
    return " ".join(tokens)


def _is_harmless(token: re.Match[str]) -> bool:
    if token["word"]:
        return token["word"] in _MARKER_WORDS
    return not re.search(r"(?:^|\s)-", token["single"] or token["double"] or "")


def _why_not(text: str) -> str:
    if re.search(r"\s@|@\s|://|\A(?:git|hg|svn|bzr)\+|\Afile:", text):
        return f"{text!r} is an address: only packages by name are installed"
    if text.startswith((".", "/", "~")) or re.search(r"[/\\]", text) or _ARCHIVE.search(text):
        return f"{text!r} is a local path: only packages by name are installed"
    return f"{text!r} is not a requirement such as 'pandas>=2,<3'"


_HASH = re.compile(r"\s--hash(?:=|\s+)((?:sha256:[0-9a-f]{64}|sha384:[0-9a-f]{96})|sha512:\w{128})")
_OPTION = re.compile(r"(--?[A-Za-z][A-Za-z-]*)(?:=|\s+)?(.*)\Z")
_MOST_FILES = 20
# Options that may be ignored: only wheels are ever installed.
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
    """What a requirements file and the files that it includes ask for."""

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
    """Return the lines that are not blank, continued ones joined, with the number of the first."""
    found = []
    number, pending = 0, ""
    for count, line in enumerate(text.splitlines(), 1):
        number = number or count
        is_comment = line.lstrip().startswith("#")
        # A comment ends a continued line, and a backslash at its own end continues nothing.
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


Version = tuple[int, ...]

_CLAUSE = re.compile(r"(~=|===?|!=|<=?|>=?)\s*v?(\d+(?:\.\d+)*)(\.\*)?\Z")


class NotASpecifierError(ValueError):
    """A text that is not a version specifier for Python."""


def satisfies(version: Version, specifiers: str) -> bool:
    """Tell whether a released Python, such as (3, 11, 7), satisfies all specifiers."""
    clauses = [clause.strip() for clause in specifiers.split(",") if clause.strip()]
    # All clauses are evaluated first: an invalid one is an error, whatever the others say.
    held = [_holds(version, clause) for clause in clauses]
    return all(held)


def _holds(version: Version, clause: str) -> bool:
    found = _CLAUSE.match(clause)
    if found is None:
        raise NotASpecifierError(f"{clause!r} is not a version of Python such as '>=3.11'")
    operator, wanted = found[1], tuple(int(part) for part in found[2].split(".")[:8])
    if found[3]:
        if operator not in ("==", "!="):
            raise NotASpecifierError(f"{clause!r}: only == and != take a '.*'")
        return (version[: len(wanted)] == wanted) == (operator == "==")
    if operator == "~=":
        if len(wanted) == 1:
            raise NotASpecifierError(f"{clause!r}: ~= needs two numbers at least")
        return _compare(version, ">=", wanted) and version[: len(wanted) - 1] == wanted[:-1]
    return _compare(version, operator, wanted)


def _compare(version: Version, operator: str, wanted: Version) -> bool:
    size = max(len(version), len(wanted))
    left, right = (each + (0,) * (size - len(each)) for each in (version, wanted))
    return {
        "==": left == right,
        "===": left == right,
        "!=": left != right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]
