"""Finds what a skill's scripts need by their imports: packages, and variables of its modules."""

import ast
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from posixpath import dirname, join, normpath

from skillpouch.declarations.packages.declared_files import DeclaredFiles, RequirementRefusedError
from skillpouch.declarations.packages.needs import PythonNeeds, read_needs
from skillpouch.discovery.walk import is_skipped_folder
from skillpouch.needs import Need
from skillpouch.signatures import read_signature
from skillpouch.signatures.python.outline import UnreadableError, parse_python
from skillpouch.signatures.shebang import EXTENSIONS, language_of, source_text
from skillpouch.signatures.signature import Signature
from skillpouch.skills import Skill
from skillpouch.tools import Script, Tool
from skillpouch.trust.grant import split_package
from skillpouch.trust.inferred_packages import (
    Proposal,
    infer_packages,
    modules_beside,
    own_modules,
)
from skillpouch.trust.package_names import installed_in, modules_brought_by, name_of
from skillpouch.trust.requested import (
    has_plain_default,
    home_paths_in,
    kind_of,
    line_of,
    needs_no_grant,
    paths_in_home,
)
from skillpouch.untrusted_files import DECLARATION_BYTES, SCRIPT_BYTES, CannotReadError, read_inside

_SOURCES = (".py", ".js", ".mjs", ".cjs", ".ts")
_TEXTS = (*EXTENSIONS, ".md", ".json", ".yml", ".yaml", ".toml", ".ini", ".cfg", ".env", ".txt")
_MOST_FILES = 2_000
_MOST_SOURCED = 50


def package_asks(skill: Skill, tools: Iterable[Tool]) -> tuple[Need, ...]:
    """Return the undeclared packages that the scripts of some tools need."""
    return package_needs(propose_packages(skill, tools))


def package_needs(proposals: Iterable[Proposal]) -> tuple[Need, ...]:
    """Return proposals as needs, without optional ones."""
    return tuple(
        Need(
            kind="packages",
            value=each.package,
            declared=False,
            asked_in=f"{each.asked_in} (imports {each.imported})",
        )
        for each in proposals
        if not each.optional
    )


def propose_packages(skill: Skill, tools: Iterable[Tool]) -> tuple[Proposal, ...]:
    """Return every undeclared package that the scripts of some tools import, optional ones, too."""
    home = str(skill.home)
    scripts = {tool.runs.file: tool.runs for tool in tools if isinstance(tool.runs, Script)}
    files = _Files(home)
    found: dict[str, Proposal] = {}
    for file, script in scripts.items():
        path = os.path.relpath(file, home)
        if not path.endswith(_SOURCES):
            continue
        declared = _declared(path, script, files, home)
        proposals = infer_packages(
            path,
            files,
            declared=declared,
            installed=_Installed(),
            provided=modules_brought_by,
            may_hold=partial(_may_hold, os.path.realpath(home)),
        )
        known = {split_package(package)[0] for package in declared}
        for each in _as_told(proposals, files):
            if split_package(each.package)[0] in known:
                continue  # declared by the name that its own file tells
            earlier = found.get(each.package)
            if earlier is None or (earlier.optional and not each.optional):
                found[each.package] = each
    return tuple(sorted(found.values(), key=lambda each: (each.optional, each.package.lower())))


def _as_told(proposals: Iterable[Proposal], files: "_Files") -> Iterator[Proposal]:
    """Yield proposals; a guess becomes the package that its own file tells to install.

    `import swisseph` beside "pip install pyswisseph": anybody could publish what is only guessed.
    """
    for each in proposals:
        path = each.asked_in.rpartition(":")[0]
        told = installed_in(files.read(path)) if each.confidence == "guess" else {}
        top = each.imported.partition(".")[0].replace("_", "").lower()
        like = [name for name in told if top in re.sub(r"[-_.]", "", name).lower()]
        if len(like) == 1 and not like[0].startswith("npm:"):
            yield replace(each, package=like[0], confidence="exact")
        else:
            yield each


def _may_hold(home: str, folder: str, module: str) -> bool:
    """Tell whether a folder beside a skill holds a module, or is not there itself."""
    path = os.path.normpath(join(home, folder))
    return not os.path.isdir(path) or _holds(path, module)


def _holds(folder: str, module: str) -> bool:
    top = join(folder, module.partition(".")[0])
    return os.path.isfile(f"{top}.py") or os.path.isdir(top)


def folder_asks(skill: Skill, tools: Iterable[Tool]) -> tuple[Need, ...]:
    """Return the folders beside a skill in which its scripts look for modules that are there."""
    home = os.path.realpath(skill.home)
    files = _Files(str(skill.home))
    found: dict[str, Need] = {}
    for tool in tools:
        if not isinstance(tool.runs, Script) or not tool.runs.file.endswith(".py"):
            continue
        modules, folders = modules_beside(os.path.relpath(tool.runs.file, skill.home), files)
        for module, where in modules.items():
            for folder in sorted(os.path.normpath(join(home, each)) for each in folders):
                if _holds(folder, module):
                    asked = f"{where} (imports {module})"
                    need = Need(kind="read", value=folder, declared=False, asked_in=asked)
                    found.setdefault(folder, need)
    return tuple(found.values())


def module_asks(skill: Skill, tools: Iterable[Tool]) -> tuple[Need, ...]:
    """Return the variables that modules of a skill read, and not the scripts that import them."""
    files = _Files(str(skill.home))
    found: dict[str, Need] = {}
    for tool in tools:
        for name, path in _module_variables(tool, files).items():
            where = f"{path}{line_of(name, files.read(path))}"
            kind = "setting" if has_plain_default(name, files.read(path)) else kind_of(name)
            need = Need(kind=kind, value=name, declared=False, asked_in=where)
            if not needs_no_grant(name):
                found.setdefault(name, need)
    return tuple(found.values())


def variables_without_default(tool: Tool) -> list[str]:
    """Return the variables that a script and its modules read and may fail without.

    A setting that has a default in the text is none of them; a secret is, whatever its default.
    """
    if not isinstance(tool.runs, Script) or not tool.home:
        return list(tool.variables)
    files = _Files(tool.home)
    own = os.path.relpath(tool.runs.file, tool.home)
    places = {**dict.fromkeys(tool.variables, own), **_module_variables(tool, files)}
    return [
        name
        for name, path in sorted(places.items())
        if not has_plain_default(name, files.read(path))
    ]


def home_paths_of(tool: Tool) -> list[str]:
    """Return the paths below the user's home that a script and its modules name."""
    found = paths_in_home(tool)
    if isinstance(tool.runs, Script) and tool.home and tool.runs.file.endswith(_SOURCES):
        files = _Files(tool.home)
        own = own_modules(os.path.relpath(tool.runs.file, tool.home), files)
        found += [path for each in own for path in home_paths_in(files.read(each))]
    return list(dict.fromkeys(found))


def variables_read(tool: Tool) -> list[str]:
    """Return the variables that a script and its modules read."""
    if not isinstance(tool.runs, Script) or not tool.home:
        return list(tool.variables)
    return [*tool.variables, *_module_variables(tool, _Files(tool.home))]


def with_variables(tool: Tool) -> Tool:
    """Return a tool of a script with the variables that the script itself reads."""
    if not isinstance(tool.runs, Script):
        return tool
    text = _Files(tool.home).read(os.path.relpath(tool.runs.file, tool.home))
    return replace(tool, variables=read_signature(text, tool.runs.language).variables)


_ADDRESS = re.compile(r"https?://(?:[^\s/@'\"`]*@)?([A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+)")
# `URL="https://…"`, and the programs that fetch.
_SHELL_USE = re.compile(r"""=["']?https?://|\b(?:curl|wget|https?|git|gh|ssh|nc)[ ]""")
_COMMENT = re.compile(r"^[ \t]*(?:#|//|\*|/\*).*$", re.MULTILINE)


def hosts_in_code(tool: Tool) -> Iterator[str]:
    """Yield the hosts of addresses in a script and in its modules; comments do not count."""
    if not isinstance(tool.runs, Script) or not tool.home:
        return
    files = _Files(tool.home)
    path = os.path.relpath(tool.runs.file, tool.home)
    modules = own_modules(path, files) if path.endswith(_SOURCES) else ()
    sourced = _sourced(path, files) if tool.runs.language == "shell" else ()
    for each in dict.fromkeys((path, *modules, *sourced)):
        yield from (host.lower() for host in _ADDRESS.findall(_code_of(files.read(each), each)))


def _code_of(text: str, path: str) -> str:
    """Return the lines that may hold an address to reach: no comments, no messages of a shell."""
    if path.endswith(".py"):
        return "\n".join(_python_texts(text))
    code = _COMMENT.sub("", text)
    if language_of(path) != "shell":
        return code
    return "\n".join(line for line in code.splitlines() if _SHELL_USE.search(line))


def _python_texts(source: str) -> Iterator[str]:
    """Yield the texts of a Python program that are values, not its docstrings."""
    try:
        tree = parse_python(source)
    except UnreadableError:
        return
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.value


_RUNNER = re.compile(
    r"(?:^|[\s(;&|!])((?:npx|bunx|uvx)[ ](?:-\S+[ ])*[\w@][\w@./-]*"
    r"|(?:npm|pnpm|yarn)[ ](?:audit|ci|outdated|view)\b)"
)
_STARTER = re.compile(r"run|call|check|open|system|exec|spawn|cmd|shell", re.IGNORECASE)
_JS_COMMAND = re.compile(r"\b(?:exec|spawn)\w*\(\s*[`'\"]([^\n]*)")


def fetched_by_code(tool: Tool) -> tuple[dict[str, str], list[str]]:
    """Return what a script installs by commands of its own, and the runners that it uses (npx)."""
    if not isinstance(tool.runs, Script) or not tool.home:
        return {}, []
    path = os.path.relpath(tool.runs.file, tool.home)
    commands = "\n".join(_commands_in(_Files(tool.home).read(path), path))
    return installed_in(commands), _RUNNER.findall(commands)


def _commands_in(text: str, path: str) -> Iterator[str]:
    """Yield the commands that a program starts, as far as they are written out."""
    language = language_of(path)
    if language == "python":
        yield from _python_commands(text)
    elif language == "shell":
        for line in _COMMENT.sub("", text).splitlines():
            yield re.sub(r"\"[^\"]*\"|'[^']*'", "", line)  # no messages
    else:
        yield from (found[1] for found in _JS_COMMAND.finditer(text))


def _python_commands(text: str) -> Iterator[str]:
    try:
        tree = parse_python(text)
    except UnreadableError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and node.args:
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            first = node.args[0]
            words = first.elts if isinstance(first, ast.List) else [first]
            texts = [each.value for each in words if isinstance(each, ast.Constant)]
            if _STARTER.search(called):
                yield " ".join(each for each in texts if isinstance(each, str))


_READS_VARIABLES = ("environ", "getenv", "process.env", "Deno.env", "Bun.env")


def _module_variables(tool: Tool, files: "_Files") -> dict[str, str]:
    """Return variable → module of the skill that reads it, except what the script reads itself."""
    if not isinstance(tool.runs, Script):
        return {}
    path = os.path.relpath(tool.runs.file, tool.home)
    found: dict[str, str] = {}
    if tool.runs.language == "shell":
        found = _sourced_variables(path, files)
    for module in own_modules(path, files) if path.endswith(_SOURCES) else ():
        text, language = files.get(module, ""), language_of(module)
        if language is not None and any(word in text for word in _READS_VARIABLES):
            for name in read_signature(text, language).variables:
                found.setdefault(name, module)
    return {name: module for name, module in found.items() if name not in tool.variables}


def _sourced_variables(script: str, files: "_Files") -> dict[str, str]:
    """Return variable → shell file of the skill that reads it, of those that a script sources.

    What one of them sets itself is not asked for.
    """
    found: dict[str, str] = {}
    sourced = _sourced(script, files)
    texts = [files.read(path) for path in (script, *sourced)]
    for path, signature in sourced.items():
        for name in signature.variables:
            if not any(re.search(rf"(?:^|[\s;]){name}=(?!\S*\$\{{?{name}\b)", t) for t in texts):
                found.setdefault(name, path)
    return found


def _sourced(script: str, files: "_Files") -> dict[str, Signature]:
    """Return the shell files of the skill that a script sources, and those that they source."""
    found: dict[str, Signature] = {}
    pending, seen = [script], {script}
    while pending and len(seen) < _MOST_SOURCED:
        path = pending.pop()
        signature = found[path] = read_signature(files.read(path), "shell")
        sourced = {normpath(join(dirname(path), each)) for each in signature.imports}
        pending += sorted(sourced - seen)
        seen |= sourced
    del found[script]
    return found


class _Files(Mapping[str, str]):
    """The source texts of a skill by path, each read at its first use."""

    def __init__(self, home: str, endings: tuple[str, ...] = _SOURCES) -> None:
        self._home = home
        self._paths = dict.fromkeys(_sources(home, endings))
        self.read = cache(self._read)

    def __getitem__(self, path: str) -> str:
        if path not in self._paths:
            raise KeyError(path)
        return self.read(path)

    def __iter__(self) -> Iterator[str]:
        return iter(self._paths)

    def __len__(self) -> int:
        return len(self._paths)

    def __contains__(self, path: object) -> bool:
        return path in self._paths

    def _read(self, path: str, most: int = SCRIPT_BYTES) -> str:
        try:
            content = read_inside(f"{self._home}/{path}", self._home, most)
        except CannotReadError:
            return ""
        return source_text(content.data, language_of(path))


def sources_of(home: str) -> Mapping[str, str]:
    """Return the source texts of a skill by path, each read when it is looked at."""
    return _Files(home)


def texts_of(home: str) -> Mapping[str, str]:
    """Return what the files of a skill say by path: sources in any language, prose, settings."""
    return _Files(home, _TEXTS)


def _sources(home: str, endings: tuple[str, ...]) -> Iterator[str]:
    count = 0
    for folder, folders, names in os.walk(home):
        folders[:] = sorted(name for name in folders if not is_skipped_folder(name))
        for name in sorted(names):
            if name.endswith(endings):
                count += 1
                if count > _MOST_FILES:
                    return
                yield os.path.relpath(Path(folder, name), home)


def _declared(path: str, script: Script, files: _Files, home: str) -> list[str]:
    """Return what a script declares: its own block, else the nearest file that lists packages.

    The names in a file that is refused count, too: a refused declaration is not an undeclared one.
    """
    if not path.endswith(".py"):
        return [f"npm:{name}" for name in _package_json(path, files)]
    if script.dependencies is not None:
        return [name_of(package) for package in script.dependencies.packages]
    try:
        needs = read_needs(script, DeclaredFiles(home))
    except RequirementRefusedError:
        return _named_in_requirements(path, files)
    return [each.name for each in needs.requirements] if isinstance(needs, PythonNeeds) else []


def _named_in_requirements(path: str, files: _Files) -> list[str]:
    for folder in (dirname(path), "scripts", ""):
        text = files.read(f"{folder}/requirements.txt" if folder else "requirements.txt")
        if text:
            return [name_of(line) for line in text.splitlines()]
    return []


def _package_json(path: str, files: _Files) -> list[str]:
    folder = path
    while folder:
        folder = dirname(folder)
        text = files.read(f"{folder}/package.json" if folder else "package.json", DECLARATION_BYTES)
        if text:
            return _dependencies(text)
    return []


def _dependencies(text: str) -> list[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    kinds = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies")
    tables = [value.get(kind) for kind in kinds] if isinstance(value, dict) else []
    return [name for table in tables if isinstance(table, dict) for name in table]


class _Installed(Mapping[str, list[str]]):
    """Module → packages of this machine that provide it, read at the first look-up.

    Reading takes the metadata of every installed package, and most scripts need no look-up.
    """

    def __getitem__(self, module: str) -> list[str]:
        return _installed()[module]

    def __iter__(self) -> Iterator[str]:
        return iter(_installed())

    def __len__(self) -> int:
        return len(_installed())

    def __bool__(self) -> bool:
        return True  # without reading the metadata, as `__len__` would


@cache
def _installed() -> Mapping[str, list[str]]:
    from importlib.metadata import packages_distributions

    return packages_distributions()
