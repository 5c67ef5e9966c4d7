"""Decides which files below scripts/ are tools, and says why another is not."""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from itertools import islice
from posixpath import normpath
from typing import Any, NamedTuple

from skillpouch.problems import Problem, Severity
from skillpouch.runtime.garbage_collection import no_garbage_collection
from skillpouch.signatures import read_signature
from skillpouch.signatures.shebang import EXTENSIONS, Language, read_shebang, source_text
from skillpouch.signatures.signature import Interface, Signature
from skillpouch.untrusted_files import (
    SCRIPT_BYTES,
    CannotReadError,
    Stamp,
    read_inside,
    require_inside,
    stamp_of,
)

MAX_DEPTH = 5
_MOST_ENTRIES = 5_000  # in one folder
_SKIPPED = {"__pycache__", "node_modules"}
_TEST_NAME = re.compile(r"(?:test[_-].*|.*[_-]test|.*\.(?:test|spec)|conftest)\.\w+", re.IGNORECASE)
_TEST_FOLDERS = frozenset({"test", "tests", "__tests__", "spec"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptFile:
    """A script of a skill; `path` is relative to the skill, with forward slashes.

    `package` is an `__init__.py` in the same folder that imports it, and is not a script itself.
    """

    path: str
    language: Language
    signature: Signature
    shebang: tuple[str, ...] = ()
    package: str = ""

    def reading_input(self) -> "ScriptFile":
        """Return the script as one that may read input, since a file that it imports may."""
        return replace(self, signature=replace(self.signature, takes_nothing=False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The patterns of `metadata: {skillpouch: {scripts: {include, exclude}}}`, which always win."""

    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @classmethod
    def of(cls, frontmatter: Any) -> "Selection":
        found: Any = frontmatter
        for key in ("metadata", "skillpouch", "scripts"):
            found = found.get(key) if isinstance(found, dict) else None
        found = found if isinstance(found, dict) else {}
        return cls(include=_patterns(found.get("include")), exclude=_patterns(found.get("exclude")))

    def includes(self, path: str) -> bool:
        return _matches(path, self.include)

    def excludes(self, path: str) -> bool:
        return _matches(path, self.exclude)


@dataclass(slots=True, kw_only=True)
class ScriptsFolder:
    """Reads the scripts of one skill and remembers the stamps of all files and folders it read."""

    home: str
    selection: Selection = field(default_factory=Selection)
    named: Iterable[str] = ()  # scripts elsewhere in the skill that SKILL.md runs by name
    problems: list[Problem] = field(default_factory=list)
    stamps: dict[str, Stamp] = field(default_factory=dict)
    unread: bool = False  # a file exists that could not be read
    _read: dict[str, ScriptFile | None] = field(default_factory=dict)
    _packages: set[str] = field(default_factory=set)  # folders with an __init__.py

    def paths(self) -> list[str]:
        """List the scripts below scripts/, and included or named ones elsewhere."""
        found = [*self._walk("scripts", 0), *self.named]
        if any(not pattern.startswith("scripts/") for pattern in self.selection.include):
            elsewhere = self._walk("", 0)
            found += [path for path in elsewhere if self.selection.includes(path)]
        return [path for path in dict.fromkeys(found) if not self.selection.excludes(path)]

    def read(self, path: str) -> ScriptFile | None:
        """Read the signature of a script; None if the file cannot be read at all."""
        if path not in self._read:
            self._read[path] = self._read_file(path)
        return self._read[path]

    def stamp_folders(self, folders: Iterable[str]) -> None:
        """Remember folders in which a script was sought: one that appears there is a change."""
        for folder in folders:
            with suppress(OSError):
                self.stamps[folder] = stamp_of(os.stat(f"{self.home}/{folder}"))

    def _walk(self, folder: str, depth: int) -> Iterable[str]:
        entries = self._list(folder)
        # Files of a nested skill belong to that one; a virtual environment holds libraries.
        if depth and any(entry.name.lower() in ("skill.md", "pyvenv.cfg") for entry in entries):
            return
        for entry in entries:
            path = f"{folder}/{entry.name}" if folder else entry.name
            if entry.name.startswith((".", "__init__.")) or entry.name in _SKIPPED:
                continue
            if not entry.is_dir(follow_symlinks=False):
                if os.path.splitext(entry.name)[1].lower() in EXTENSIONS:
                    yield path
            elif depth < MAX_DEPTH:
                yield from self._walk(path, depth + 1)
            elif folder:
                message = f"not searched for scripts: more than {MAX_DEPTH} levels deep"
                self._report(path, "too-deep", "info", message)

    def _list(self, folder: str) -> list[os.DirEntry[str]]:
        full = f"{self.home}/{folder}" if folder else self.home
        try:
            if folder and os.path.islink(full):
                require_inside(full, self.home)
            self.stamps[folder] = stamp_of(os.stat(full))
            with os.scandir(full) as listing:
                entries = sorted(islice(listing, _MOST_ENTRIES), key=lambda entry: entry.name)
        except FileNotFoundError:
            return []
        except OSError as error:
            reason = CannotReadError.of(error)
            if reason.code != "absent":
                message = f"not searched for scripts: {reason.reason}"
                self._report(folder, f"script-{reason.code}", "error", message)
            self.unread = True
            return []
        if len(entries) == _MOST_ENTRIES:
            message = f"only {_MOST_ENTRIES:,} of its entries were looked at"
            self._report(folder, "too-many-files", "warning", message)
        self._packages.update(folder for entry in entries if entry.name == "__init__.py")
        return entries

    def _read_file(self, path: str) -> ScriptFile | None:
        full = f"{self.home}/{path}"
        language = EXTENSIONS[os.path.splitext(path)[1].lower()]
        try:
            content = read_inside(full, self.home, SCRIPT_BYTES)
        except CannotReadError as error:
            if error.code != "too-large":
                self._report(path, f"script-{error.code}", "error", f"no tool: {error.reason}")
                self.unread = True
                return None
            # Still a tool: a script that is too large to be read can run.
            self.stamps[path] = stamp_of(os.stat(full))
            return ScriptFile(path=path, language=language, signature=_unread(error.reason))
        self.stamps[path] = content.stamp
        text = source_text(content.data, language)
        # A syntax tree has thousands of nodes, all of them in use: collecting garbage finds none.
        with no_garbage_collection():
            signature = read_signature(
                text,
                language,
                filename=os.path.basename(path),
                module_text=partial(self._module_text, path.rpartition("/")[0] or "."),
            )
        return ScriptFile(
            path=path,
            language=language,
            signature=signature,
            shebang=read_shebang(text),
            package=self._package_of(path),
        )

    def _module_text(self, folder: str, module: str) -> str:
        """Return the text of a Python module that a script in a folder imports, "" for none."""
        for path in _files_of_module(folder, module):
            try:
                content = read_inside(f"{self.home}/{path}", self.home, SCRIPT_BYTES)
            except CannotReadError:
                continue
            self.stamps[path] = content.stamp
            return source_text(content.data, "python")
        return ""

    def _package_of(self, path: str) -> str:
        folder, _, name = path.rpartition("/")
        if folder not in self._packages or name == "__init__.py":
            return ""
        package = self.read(f"{folder}/__init__.py")
        module = f".{name.removesuffix('.py')}"
        imports = package.signature.imports if package else frozenset()
        absolute = f"{folder.rpartition('/')[2]}{module}"
        return package.path if package and not imports.isdisjoint({module, absolute}) else ""

    def _report(self, path: str, code: str, severity: Severity, message: str) -> None:
        full = f"{self.home}/{path}"
        self.problems.append(Problem(path=full, code=code, severity=severity, message=message))


def _unread(reason: str) -> Signature:
    return Signature(reader="none", interface=Interface(convention="stdin"), uncertain=reason)


def _patterns(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, list) else [value]
    return tuple(item for item in items if isinstance(item, str) and item)


def _matches(path: str, patterns: tuple[str, ...]) -> bool:
    inside = path.removeprefix("scripts/")
    return any(fnmatchcase(path, p) or fnmatchcase(inside, p) for p in patterns)


class Drop(NamedTuple):
    """Why a script is no tool, and the line that shows it."""

    reason: str
    line: int | None = None


def reasons_to_drop(scripts: Iterable[ScriptFile]) -> dict[str, Drop]:
    """Return path → reason for each script that is certainly not a tool; in doubt it is one."""
    known = {script.path: script for script in scripts}
    importers = _importers(known)
    reasons: dict[str, Drop] = {}
    for path, script in known.items():
        signature = script.signature
        importer = importers.get(path) or script.package
        if signature.is_test or (tested := _tested(script, known)):
            reasons[path] = Drop("a test, not a tool" if signature.is_test else f"a test {tested}")
        elif importer and (signature.is_submodule or not signature.has_entry):
            reason = f"a module that {importer} imports, with nothing to run itself"
            reasons[path] = Drop(reason, signature.defines_line)
        elif not signature.has_entry and not _sources_what_runs(script, known):
            reason = f"nothing in it runs: {signature.defines}"
            reasons[path] = Drop(reason, signature.defines_line)
    return reasons


def _tested(script: ScriptFile, known: Mapping[str, ScriptFile]) -> str:
    """Say what a file tests that is named like a test; `test_api.py` alone may try a service."""
    folder, _, name = script.path.rpartition("/")
    if not _TEST_NAME.fullmatch(name):
        return ""
    if not _TEST_FOLDERS.isdisjoint(folder.split("/")):
        return f"in {folder}"
    others = (path for path in _own_imports(script, known) if path and path != script.path)
    tested = next(others, "")
    return f"of {tested}" if tested else ""


def _sources_what_runs(script: ScriptFile, known: Mapping[str, ScriptFile]) -> bool:
    """Tell whether a shell script may do all its work in files that it sources."""
    return script.language == "shell" and any(
        not target or known[target].signature.has_entry for target in _own_imports(script, known)
    )


def judged_by_imports(scripts: Iterable[ScriptFile]) -> list[ScriptFile]:
    """Return the scripts; those that import a file which may read input may read it themselves."""
    known = {script.path: script for script in scripts}
    deaf = {path for path, script in known.items() if script.signature.takes_nothing}
    while doubtful := {path for path in deaf if set(_own_imports(known[path], known)) - deaf}:
        deaf -= doubtful
    return [
        script if not script.signature.takes_nothing or path in deaf else script.reading_input()
        for path, script in known.items()
    ]


def _own_imports(script: ScriptFile, known: Mapping[str, ScriptFile]) -> Iterator[str]:
    """Yield the scripts of the skill that one imports, "" for each that is not found."""
    folder = script.path.rpartition("/")[0] or "."
    for module in script.signature.imports:
        targets = [path for path in _targets(folder, module, script.language) if path in known]
        if targets:
            yield targets[-1]
        elif _is_own(module, script.language, known):
            yield ""


def _is_own(module: str, language: Language, known: Mapping[str, ScriptFile]) -> bool:
    """Tell whether a module that is no known script may still be a file of the skill."""
    if language != "python" or module.startswith("."):
        return module.startswith((".", "/", "~")) and not module.endswith(".json")
    top = module.partition(".")[0]
    return any(top in path.split("/")[:-1] for path in known)


def _importers(known: Mapping[str, ScriptFile]) -> dict[str, str]:
    """Return path → the first other script that imports it."""
    found: dict[str, str] = {}
    names = {path.rpartition("/")[2].removesuffix(".py") for path in known}
    for importer, script in known.items():
        folder = importer.rpartition("/")[0] or "."
        for module in script.signature.imports:
            if script.language == "python" and names.isdisjoint(module.split(".")):
                continue  # nearly always: no file of the skill has any of these names
            for target in _targets(folder, module, script.language):
                if target in known and target != importer:
                    found.setdefault(target, importer)
    return found


def _targets(folder: str, module: str, language: str) -> list[str]:
    if language == "python":
        return _python_targets(folder, module)
    if not module.startswith("."):
        return []
    plain = normpath(f"{folder}/{module}")
    if language == "shell":
        # `$SKILL/scripts/x.sh`: the folder before it is known only at run time.
        return [plain, f"{plain}.sh", *([normpath(module)] if "/" in module[2:] else [])]
    return [plain, *(f"{plain}{suffix}" for suffix in (".js", ".mjs", ".cjs", ".ts", ".sh"))]


def _python_targets(folder: str, module: str) -> list[str]:
    if module.startswith("."):
        dots = len(module) - len(module.lstrip("."))
        base = normpath(f"{folder}/{'../' * (dots - 1)}")
        return _module_files(base, module.lstrip("."))
    # Python finds modules in the script's own folder, in scripts/ and in the skill's folder.
    return [path for base in (folder, "scripts", ".") for path in _module_files(base, module)]


def _module_files(base: str, module: str) -> list[str]:
    parts = [part for part in module.split(".") if part]
    # `import a.b` names a/b.py; `from a import b` may name a.py or a/b.py.
    return [normpath(f"{base}/{'/'.join(parts[:end])}.py") for end in range(1, len(parts) + 1)]


def _files_of_module(folder: str, module: str) -> Iterator[str]:
    """Yield the files that may be a module, in the order in which Python would look for them."""
    name = module.lstrip(".")
    dots, inside = len(module) - len(name), name.replace(".", "/")
    bases = [f"{folder}/{'../' * (dots - 1)}"] if dots else [folder, "scripts", "."]
    for base in bases if inside else ():
        found = normpath(f"{base}/{inside}")
        if not found.startswith("../"):
            yield from (f"{found}.py", f"{found}/__init__.py")
