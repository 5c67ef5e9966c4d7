"""Proposes packages for imports that no file declares, from the text of a script alone."""

import ast
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from posixpath import dirname, join, normpath
from typing import Literal, NamedTuple

from skillpouch.signatures.python.outline import (
    BLOCKS,
    UnreadableError,
    parse_python,
    with_plain_lines,
)
from skillpouch.trust.grant import split_package
from skillpouch.trust.package_names import (
    SHARED_FOLDERS,
    is_installed_by_nobody,
    is_part_of_node,
    known_package,
)

# A longer script is a bundle, which contains the packages it needs.
_LONGEST = 120_000
_BUILT_IN = ("node:", "bun:", "deno:", "cloudflare:", "file:", "data:", "http:", "https:", "jsr:")
_NOT_PACKAGES = ("#", "/", "@/", "~/", "$")  # a build tool or the package itself rewrites these


def javascript_packages(text: str) -> tuple[dict[str, int], tuple[str, ...]]:
    """Return package → line, and the relative paths of the program's own modules."""
    if len(text) > _LONGEST:
        return {}, ()
    packages: dict[str, int] = {}
    own = []
    # Imported here, so that a call of a Python script does not load the reader of JavaScript.
    from skillpouch.signatures.javascript.statements import imported_modules
    from skillpouch.signatures.javascript.tokens import read_tokens

    for module in sorted(imported_modules(read_tokens(text))):
        if module.startswith("."):
            own.append(module)
        elif name := _package(module):
            line = text.count("\n", 0, max(0, text.find(module))) + 1
            packages.setdefault(name, line)
    return packages, tuple(own)


def _package(module: str) -> str:
    """Return the package that a module belongs to; "" if no package is needed."""
    if module.startswith((*_BUILT_IN, *_NOT_PACKAGES)) or is_part_of_node(module):
        return ""
    words = module.removeprefix("npm:").split("/")
    name = "/".join(words[:2] if module.removeprefix("npm:").startswith("@") else words[:1])
    spelt, _ = split_package(f"npm:{name}")
    return spelt.removeprefix("npm:")


_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


class Import(NamedTuple):
    """One imported module; a relative one starts with dots. `names` follow `from … import`.

    One that is `inside` a function is imported only when that is called.
    """

    module: str
    line: int
    optional: bool = False
    names: tuple[str, ...] = ()
    inside: bool = False


def python_imports(text: str) -> list[Import]:
    """Return the imports of a script in order; none if it is not valid Python.

    An import is optional if `except ImportError` follows it, or if it is only for type checkers.
    """
    try:
        tree = parse_python(with_plain_lines(text))
    except UnreadableError:
        return []
    found: list[Import] = []
    pending: list[tuple[ast.AST, bool, bool]] = [(tree, False, False)]
    while pending:
        node, optional, inside = pending.pop()
        inside = inside or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        found += [each._replace(inside=inside) for each in _imports(node, optional=optional)]
        pending += [
            (child, optional or _is_spared(node, block, inside=inside), inside)
            for block, child in _inside(node)
        ]
    return sorted(found, key=lambda each: each.line)


def _inside(node: ast.AST) -> Iterable[tuple[str, ast.AST]]:
    blocks = BLOCKS.get(type(node), ())
    return ((block, child) for block in blocks for child in getattr(node, block))


def _imports(node: ast.AST, *, optional: bool) -> list[Import]:
    if isinstance(node, ast.Import):
        return [Import(alias.name, node.lineno, optional) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        names = tuple(alias.name for alias in node.names)
        return [Import("." * node.level + (node.module or ""), node.lineno, optional, names)]
    return []


def _is_spared(node: ast.AST, block: str, *, inside: bool) -> bool:
    """Tell whether a script can continue if the imports in this part of a statement fail.

    In a function that says itself what it misses it can: only some calls come to it.
    """
    if isinstance(node, ast.Try | ast.TryStar):
        # What the handler imports instead is as optional as the import that failed.
        caught = _names_imports if inside else _catches_imports
        return block != "finalbody" and any(map(caught, node.handlers))
    if isinstance(node, ast.If) and block == "body":
        test = node.test
        return getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"
    return False


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    return (handler.type is None or _names_imports(handler)) and not _gives_up(handler)


def _names_imports(handler: ast.ExceptHandler) -> bool:
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {getattr(each, "id", getattr(each, "attr", "")) for each in caught}
    return bool(names & _CAUGHT)


def _gives_up(handler: ast.ExceptHandler) -> bool:
    """Tell whether a handler ends the script: then the import that failed is not optional."""
    last = handler.body[-1]
    if isinstance(last, ast.Raise):
        return True
    called = last.value.func if _is_call(last) else None  # type: ignore[attr-defined]  # an Expr
    return getattr(called, "id", getattr(called, "attr", "")) in {"exit", "_exit", "quit"}


def _is_call(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)


Confidence = Literal["exact", "known", "installed", "guess"]
_JAVASCRIPT = (".js", ".mjs", ".cjs", ".ts")
_MOST_FOLLOWED = 200  # files that are read for one script


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """A package that a script seems to need.

    `confidence`: `exact`, the import names the package; `known`, Skillpouch's table has it;
    `installed`, on this machine the module belongs to it; `guess`, only the name of the import.
    """

    package: str  # as pip writes it, or `npm:name`
    imported: str
    asked_in: str  # file:line
    confidence: Confidence
    optional: bool = False


def infer_packages(
    script: str,
    files: Mapping[str, str],
    *,
    declared: Iterable[str] = (),
    installed: Mapping[str, Iterable[str]] | None = None,
    provided: Callable[[str], Collection[str] | None] = lambda _package: None,
    may_hold: Callable[[str, str], bool] = lambda _folder, _module: True,
) -> tuple[Proposal, ...]:
    """Return the packages that a script and its sibling modules import beyond what is declared.

    `files` are the texts of the skill by path; `installed` maps modules to packages of this
    machine, like `importlib.metadata.packages_distributions()`; `provided` returns the modules that
    a declared package and what it requires have, None if that is not known; `may_hold` tells of a
    folder beside the skill whether a module may be in it. Reads and runs nothing.
    """
    follow = _Following(files=files, installed=installed or {}, may_hold=may_hold)
    if script.endswith(_JAVASCRIPT):
        follow.javascript(script)
    else:
        follow.python(script)
    known = {split_package(package)[0] for package in declared} - {""}
    found = [
        each
        for each in follow.proposals()
        if split_package(each.package)[0] not in known
        if not any(_brings(package, each, provided) for package in sorted(known))
    ]
    return tuple(sorted(found, key=lambda each: (each.optional, each.package.lower())))


def own_modules(script: str, files: Mapping[str, str]) -> list[str]:
    """Return the files of the skill that a script imports, and those that these import."""
    follow = _Following(files=files, installed={})
    if script.endswith(_JAVASCRIPT):
        follow.javascript(script)
    else:
        follow.python(script)
    return sorted(follow.seen - {script})


def modules_beside(script: str, files: Mapping[str, str]) -> tuple[dict[str, str], set[str]]:
    """Return module → file:line of imports that folders beside the skill may hold, and these."""
    follow = _Following(files=files, installed={})
    if not script.endswith(_JAVASCRIPT):
        follow.python(script)
    return follow.beside, follow.outside


def _brings(
    declared: str, proposal: Proposal, provided: Callable[[str], Collection[str] | None]
) -> bool:
    """Tell whether a declared package brings the module for which another one is proposed.

    `opencv-python` beside a declared `opencv-python-headless` would replace files of it. Where the
    modules of the declared package are not known, its name has to do: a variant of a package has
    all words of its name (`psycopg2-binary`), and a package is often named like its module.
    """
    if declared.startswith("npm:") or proposal.package.startswith("npm:"):
        return False
    top = proposal.imported.partition(".")[0]
    modules = provided(declared)
    if modules is not None and top not in SHARED_FOLDERS:
        return top in modules
    if declared.startswith("types-") or declared.endswith("-stubs"):  # PEP 561: no code at all
        return False
    words = set(split_package(proposal.package)[0].split("-"))
    return words <= set(declared.split("-")) or split_package(top)[0] == declared


@dataclass(slots=True, kw_only=True)
class _Following:
    """Follows the imports of one script through the modules of its own skill."""

    files: Mapping[str, str]
    installed: Mapping[str, Iterable[str]]
    may_hold: Callable[[str, str], bool] = lambda _folder, _module: True
    found: dict[str, Proposal] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)
    outside: set[str] = field(default_factory=set)  # folders beside the skill, on its search path
    beside: dict[str, str] = field(default_factory=dict)  # modules that they may hold, file:line

    def proposals(self) -> list[Proposal]:
        return list(self.found.values())

    def python(self, script: str) -> None:
        pending = [(script, False)]
        places = {dirname(script), "scripts", ""}
        while pending and len(self.seen) < _MOST_FOLLOWED:
            path, optional = pending.pop()
            if path in self.seen:
                continue
            self.seen.add(path)
            text = self.files.get(path, "")
            if "sys.path" in text:  # the script probably adds a folder of the skill to it
                places |= {folder for file in self.files for folder in _above(file)}
                self.outside |= {each for each in added_folders(text, path) if _leads_out(each)}
            for each in python_imports(text):
                own = self._own(each, path, places)
                pending += [(file, optional or each.optional) for file in own if file in self.files]
                if not own:
                    # A function of another file may never be called.
                    is_later = each.inside and path != script
                    self._propose(each, path, optional=optional or each.optional or is_later)

    def javascript(self, script: str) -> None:
        pending = [script]
        while pending and len(self.seen) < _MOST_FOLLOWED:
            path = pending.pop()
            if path in self.seen:
                continue
            self.seen.add(path)
            packages, siblings = javascript_packages(self.files.get(path, ""))
            for name, line in packages.items():
                self._keep(
                    Proposal(
                        package=f"npm:{name}",
                        imported=name,
                        asked_in=f"{path}:{line}",
                        confidence="exact",
                    )
                )
            pending += [file for each in siblings for file in self._sibling(path, each)]

    def _own(self, imported: Import, path: str, places: set[str]) -> list[str]:
        """Return the files of the skill that an import may load; [] if it needs a package.

        A folder without `__init__.py` is importable, too, so some of these files may not exist.
        """
        dots = len(imported.module) - len(imported.module.lstrip("."))
        parts = [part for part in imported.module[dots:].split(".") if part]
        if dots:
            base = dirname(path)
            for _ in range(dots - 1):
                base = dirname(base)
            return self._module(base, parts, imported.names) or [join(base, "__init__.py")]
        for place in sorted(places, key=lambda each: each != dirname(path)):
            if found := self._module(place, parts, imported.names):
                return found
        return []

    def _module(self, base: str, parts: list[str], names: tuple[str, ...]) -> list[str]:
        if parts and not self._is_module(join(base, parts[0])):
            return []
        target = join(base, *parts) if parts else base
        wanted = [target, *(join(base, *parts[:n]) for n in range(1, len(parts)))]
        wanted += [join(target, name) for name in names]
        return [file for each in wanted for file in (f"{each}.py", join(each, "__init__.py"))]

    def _is_module(self, target: str) -> bool:
        return f"{target}.py" in self.files or any(
            file.startswith(f"{target}/") and file.endswith(".py") for file in self.files
        )

    def _propose(self, imported: Import, path: str, *, optional: bool) -> None:
        for module in _modules(imported):
            if is_installed_by_nobody(module) or module in SHARED_FOLDERS:
                continue
            package, confidence = self._package(module)
            if confidence == "guess" and any(self.may_hold(each, module) for each in self.outside):
                # Probably its own: anybody could publish a package of that name.
                self.beside.setdefault(module, f"{path}:{imported.line}")
                continue
            self._keep(
                Proposal(
                    package=package,
                    imported=module,
                    asked_in=f"{path}:{imported.line}",
                    confidence=confidence,
                    optional=optional,
                )
            )

    def _package(self, module: str) -> tuple[str, Confidence]:
        known = known_package(module)
        if known:
            return known, "known"
        top = module.partition(".")[0]
        here = sorted(self.installed.get(top, ()))
        if len(set(here)) == 1:
            return here[0], "installed"
        return top, "guess"

    def _keep(self, proposal: Proposal) -> None:
        name = split_package(proposal.package)[0]
        earlier = self.found.get(name)
        # A package that is needed in one place is needed, even if it is optional in another.
        if name and (earlier is None or (earlier.optional and not proposal.optional)):
            self.found[name] = proposal

    def _sibling(self, path: str, target: str) -> list[str]:
        base = normpath(join(dirname(path), target))
        stem = base.removesuffix(".js")
        spelt = [base, *(f"{stem}{end}" for end in _JAVASCRIPT), f"{base}/index.js"]
        return [file for file in spelt if file in self.files][:1]


def _above(file: str) -> Iterator[str]:
    folder = dirname(file)
    while folder:
        yield folder
        folder = dirname(folder)
    yield ""


def _leads_out(folder: str) -> bool:
    return folder == ".." or folder.startswith("../")


def added_folders(text: str, path: str) -> set[str]:
    """Return the folders that a script adds to `sys.path`, as far as they follow from its own path.

    They are relative to the folder of the skill, as `path` is; some may lead out of it.
    """
    try:
        tree = parse_python(with_plain_lines(text))
    except UnreadableError:
        return set()
    known: dict[str, set[str]] = {"__file__": {path}}
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                known[name] = known.get(name, set()) | _paths(value, known)
            case ast.For(target=ast.Name(id=name), iter=ast.Tuple(elts=each) | ast.List(elts=each)):
                known[name] = {path for part in each for path in _paths(part, known)}
            case ast.Call(func=ast.Attribute(value=adds, attr="insert" | "append"), args=words):
                if words and ast.unparse(adds) == "sys.path":
                    found |= _paths(words[-1], known)
            case _:
                pass
    return found


_SAME = frozenset({"str", "fspath", "abspath", "realpath", "normpath", "resolve", "absolute"})


def _paths(  # noqa: C901, PLR0911 - one for each way to write a path
    node: ast.expr, known: Mapping[str, set[str]]
) -> set[str]:
    """Return the paths that an expression may be; none if they do not follow from `known`."""
    match node:
        case ast.Name(id=name):
            return known.get(name, set())
        case ast.Attribute(value=value, attr="parent"):
            return {_up(path, 1) for path in _paths(value, known)}
        case ast.Subscript(
            value=ast.Attribute(value=value, attr="parents"), slice=ast.Constant(value=int(count))
        ):
            return {_up(path, count + 1) for path in _paths(value, known)}
        case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=str(word))):
            return {normpath(join(path, word)) for path in _paths(left, known)}
        case ast.Call(func=ast.Attribute(attr="join" | "joinpath") as called, args=args):
            words = args if called.attr == "join" else [called.value, *args]
            return _joined(words, known)
        case ast.Call(func=ast.Attribute(attr="dirname"), args=[value]):
            return {_up(path, 1) for path in _paths(value, known)}
        case ast.Call(func=ast.Name(id="Path" | "str") | ast.Attribute(attr="Path"), args=[value]):
            return _paths(value, known)
        case ast.Call(func=ast.Attribute(attr=name), args=[value]) if name in _SAME:
            return _paths(value, known)
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=[]) if name in _SAME:
            return _paths(value, known)
        case _:
            return set()


def _joined(words: Sequence[ast.expr], known: Mapping[str, set[str]]) -> set[str]:
    values = (each.value for each in words[1:] if isinstance(each, ast.Constant))
    parts = [value for value in values if isinstance(value, str)]
    if len(parts) != len(words) - 1:
        return set()
    return {normpath(join(path, *parts)) for path in _paths(words[0], known)}


def _up(path: str, count: int) -> str:
    return normpath(join(path, *[".."] * count))


def _modules(imported: Import) -> list[str]:
    """Return the modules of an import; `from google.cloud import x` imports google.cloud.x."""
    if imported.module in SHARED_FOLDERS:
        return [f"{imported.module}.{name}" for name in imported.names] or [imported.module]
    return [imported.module]
