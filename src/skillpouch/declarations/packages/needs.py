"""Which packages one script declares; the same on every machine, and nothing is fetched."""

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from skillpouch.declarations.packages.declared_files import DeclaredFiles, RequirementRefusedError
from skillpouch.declarations.packages.package_json import Manifest, read_manifest
from skillpouch.declarations.packages.pyproject import read_project
from skillpouch.declarations.packages.requirements import (
    NotARequirementError,
    NotASpecifierError,
    Requirement,
    parse_requirement,
    read_requirements,
    satisfies,
)
from skillpouch.signatures.python.pep723 import Malformed, read_block, read_table
from skillpouch.tools import Script
from skillpouch.untrusted_files import SCRIPT_BYTES

# Settings of uv in a script block that choose where packages come from: all are refused.
_UV_SOURCES = ("index", "index-url", "extra-index-url", "find-links", "no-index", "sources")


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonNeeds:
    """Packages, and the version of Python; without `requires_python` any version is fine."""

    declared_in: str
    requirements: tuple[Requirement, ...] = ()
    constraints: tuple[Requirement, ...] = ()
    requires_python: str = ""
    prereleases: bool = False
    hashes_required: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The packages as a person writes them; the version of Python if there are none."""
        names = tuple(str(requirement) for requirement in self.requirements)
        return names or (f"Python {self.requires_python}",)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeNeeds:
    """Packages of npm."""

    declared_in: str
    manifest: Manifest = field(repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The packages as a person writes them."""
        return self.manifest.packages


Needs = PythonNeeds | NodeNeeds


def declared_needs(script: Script, home: str) -> Needs | None:
    """Return what a script needs besides its interpreter, None when it needs nothing.

    Raises:
        RequirementRefusedError: the declaration cannot be read, or asks for what is not allowed.
    """
    return read_needs(script, DeclaredFiles(home))


def read_needs(script: Script, files: DeclaredFiles) -> Needs | None:
    """Do what `declared_needs` does, and record in `files` everything that was looked up."""
    if script.language == "python":
        return _python_needs(script, files)
    if script.language in ("javascript", "typescript"):
        return _node_needs(script, files)
    return None


def _python_needs(script: Script, files: DeclaredFiles) -> PythonNeeds | None:
    # A block in the script is about this script; the files around it may be for something else.
    needs = _of_block(script, files)
    if needs is None:
        folder = _folder_of(script)
        if folder not in files.by_folder:  # the scripts of a skill are in few folders
            files.by_folder[folder] = _of_files(folder, files)
        needs = files.by_folder[folder]
    if needs is None or not (needs.requirements or needs.requires_python):
        return None
    try:
        satisfies((3,), needs.requires_python)
    except NotASpecifierError as error:
        raise RequirementRefusedError(needs.declared_in, str(error)) from None
    return needs


def _of_block(script: Script, files: DeclaredFiles) -> PythonNeeds | None:
    text = files.read(script.file, SCRIPT_BYTES) or ""
    block = read_block(text)
    if block is None:
        return None
    if isinstance(block, Malformed):
        raise RequirementRefusedError(script.file, block.reason, line=block.line)
    table = read_table(text)
    line = table[1] if isinstance(table, tuple) else 1
    try:
        requirements = [parse_requirement(package) for package in block.packages]
        if isinstance(table, tuple):
            _refuse_sources(table[0])
    except NotARequirementError as error:
        raise RequirementRefusedError(script.file, str(error), line=line) from None
    return PythonNeeds(
        declared_in=script.file,
        requirements=tuple(sorted(set(requirements))),
        requires_python=block.requires_python,
    )


def _refuse_sources(table: dict[str, object]) -> None:
    tool = table.get("tool")
    settings = tool.get("uv") if isinstance(tool, dict) else None
    named = set(settings) if isinstance(settings, dict) else set()
    for name in sorted(named.intersection(_UV_SOURCES)):
        raise NotARequirementError(
            f"tool.uv.{name}: a skill does not choose where packages come from"
        )


def _of_files(inner: str, files: DeclaredFiles) -> PythonNeeds | None:
    """Return what the file nearest to a folder declares; requirements.txt before pyproject.toml.

    It may be the pinned form of what pyproject.toml says; `requires-python` is only said there.
    """
    for folder in _folders(inner, files.home, also=files.home / "scripts"):
        path = folder / "requirements.txt"
        listed = read_requirements(files, path)
        project = read_project(files, folder / "pyproject.toml")
        requires = project.requires_python if project else ""
        if listed is not None:
            return PythonNeeds(
                declared_in=str(path),
                requirements=tuple(sorted(set(listed.requirements))),
                constraints=tuple(sorted(set(listed.constraints))),
                requires_python=requires,
                prereleases=listed.prereleases,
                hashes_required=listed.hashes_required,
            )
        if project is not None:
            return PythonNeeds(
                declared_in=str(folder / "pyproject.toml"),
                requirements=tuple(sorted(set(project.requirements))),
                requires_python=requires,
            )
    return None


def _node_needs(script: Script, files: DeclaredFiles) -> NodeNeeds | None:
    folders = _folders(_folder_of(script), files.home)
    # A skill that ships its packages needs no others: its author tested it with these.
    if any(files.has_folder(folder / "node_modules") for folder in folders):
        return None
    for folder in folders:
        path = folder / "package.json"
        manifest = read_manifest(files, path)
        if manifest is not None:
            found = NodeNeeds(declared_in=str(path), manifest=manifest)
            return found if found.names else None
    return None


def _folder_of(script: Script) -> str:
    return script.file.rpartition("/")[0]


@lru_cache(maxsize=64)  # the scripts of a skill are in few folders
def _folders(inner: str, home: Path, also: Path | None = None) -> tuple[Path, ...]:
    """Return the folders a declaration may be in, the nearest to the script first."""
    root = str(home)
    if inner != root and not inner.startswith(f"{root}/"):
        return ()
    around = []
    while inner != root:
        around.append(Path(inner))
        inner = inner.rpartition("/")[0]
    return (*around, *([also] if also and also not in around else []), home)
