"""Prepares a prefork server for its script: compiles it, and loads imports without side effects."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import atexit
import gc
import os
import sys

from skillpouch.execution.preforked import protocol
from skillpouch.execution.preforked.interpreter_exit import flush_quietly
from skillpouch.execution.preforked.program import Compiled
from skillpouch.execution.preforked.protocol import FIRST_FREE, PRINTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Import = tuple[str, tuple[str, ...]]
    from skillpouch.execution.preforked.variables import Variables


# PyCF_ONLY_AST of compile(): `import ast` would load re and enum into every child.
_ONLY_AST = 0x400
# Imports of further or larger files are left to the calls: reading ahead must not take longer than
# it saves.
_MOST_FILES = 64
_LARGEST_FILE = 2_000_000
# The functions that run in every call; others may never be called.
_ENTRIES = ("main", "handler")


def imports_of(files: list[str], folders: list[str]) -> list[Import]:
    """Return what `files`, and the skill's modules that they import, import from outside."""
    reader = _Reader(folders)
    for file in files:
        reader.read(file)
    return list(reader.found)


class _Reader:
    def __init__(self, folders: list[str]) -> None:
        self._folders = folders
        # Searched last, so the standard library is never found there.
        self._root = os.environ.get("SKILL_BASE_DIR", "")
        self._seen: set[str] = set()
        self.found: dict[Import, None] = {}

    def read(self, file: str) -> None:
        if file in self._seen or len(self._seen) >= _MOST_FILES:
            return
        self._seen.add(file)
        for name, members in _imports(_parse(file)):
            own = [path for folder in self._folders_for(name) for path in _files_of(folder, name)]
            for path in own:
                self.read(path)
            if not own:
                self.found[name, members] = None

    def _folders_for(self, name: str) -> list[str]:
        is_last = self._root and _is_not_standard(name)
        return [*self._folders, self._root] if is_last else self._folders


def _parse(file: str) -> Any:
    try:
        if os.path.getsize(file) > _LARGEST_FILE:
            return None
        with open(file, "rb") as source:
            return compile(source.read(), file, "exec", _ONLY_AST, True)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None  # the call itself will report it


def _files_of(folder: str, module: str) -> list[str]:
    """Return the files of the skill that importing `module` would run."""
    found = []
    path = folder
    for part in module.split("."):
        path = path + "/" + part
        candidates = (path + ".py", path + "/__init__.py")
        found += [candidate for candidate in candidates if os.path.isfile(candidate)]
    return found


def _imports(tree: Any) -> Iterator[Import]:
    for node in _statements(tree.body if tree is not None else []):
        kind = type(node).__name__
        if kind == "Import":
            for alias in node.names:
                yield alias.name, ()
        elif kind == "ImportFrom" and not node.level and node.module:
            yield node.module, tuple(alias.name for alias in node.names if alias.name != "*")


def _statements(body: list[Any]) -> Iterator[Any]:
    for node in body:
        yield node
        for inner in _blocks(node):
            yield from _statements(inner)


def _blocks(node: Any) -> list[list[Any]]:
    """Return the blocks of a statement that run in every call; import hints cover the others."""
    kind = type(node).__name__
    if kind == "If" and _asks_for_main(node.test):
        return [node.body]
    if kind in ("Try", "TryStar"):
        return [node.body, node.orelse, node.finalbody]
    if kind == "With" or (kind.endswith("FunctionDef") and node.name in _ENTRIES):
        return [node.body]
    return []


def _asks_for_main(test: Any) -> bool:
    """Tell whether a condition is `__name__ == "__main__"`."""
    return getattr(getattr(test, "left", None), "id", "") == "__name__"


def import_effects() -> list[Any]:
    """Return state that an import may change besides `sys.modules`, to compare before and after."""
    logging = sys.modules.get("logging")
    return [
        atexit._ncallbacks(),
        dict(os.environ),
        list(sys.path),
        list(sys.meta_path),
        sys.excepthook,
        sys.getrecursionlimit(),
        [_signal.getsignal(number) for number in _signal.valid_signals()],
        (logging.root.level, list(logging.root.handlers)) if logging else None,
    ]


def keeps_random_numbers() -> bool:
    """Tell whether a module has its own random generator: all calls would get the same numbers.

    The global one of `random` is seeded again in every child, by a fork handler of `random`.
    """
    random = sys.modules.get("random")
    if random is None:
        return False
    return any(
        type(thing) is random.Random and thing is not random._inst
        for thing in gc.get_referrers(random.Random)
    )


_OUTPUT = 1
_PIPE_BYTES = 1 << 20  # more than a pipe holds by default, 64 KiB, pipe(7)
_LOOKED_AT = 256  # descriptors that are checked: open(2) returns the lowest free number


class Preparation:
    """Loads what a script needs, and checks that no call could notice it."""

    def __init__(self, wanted: dict[str, Any], fresh: frozenset[str], variables: Variables) -> None:
        self._files: list[str] = wanted["files"]
        self._folders: list[str] = wanted["folders"]
        self._fresh = fresh
        self._variables = variables
        self._here = os.getcwd()
        self.compiled = Compiled()

    def prepare(self) -> int:
        """Compile the script and load its imports; return 0, or why it cannot be served here."""
        # Printing must not block: the pipe is only checked, not read continuously.
        os.set_blocking(_OUTPUT, False)
        try:
            for file in self._files:
                self._compile(file)
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            return protocol.UNREADABLE  # a fresh Python will report the error
        sys.argv[:] = self._files[-1:]
        imports = imports_of(self._files, self._folders)
        _has_printed()  # discards warnings about files that were only parsed
        return self._load(imports)

    def _compile(self, file: str) -> None:
        self.compiled.add(file)
        if _has_printed():
            # Compiling printed a warning, which each call must print itself.
            self.compiled.drop(file)

    def load_more(self, names: list[str]) -> bool:
        """Load modules that some calls loaded; return whether other calls cannot notice that."""
        others = [name for name in names if _is_not_standard(name)]
        read = self._variables.count_read()
        if self._load([(name, ()) for name in names if name not in others]):
            return False
        before = import_effects()
        failed = self._load([(name, ()) for name in others])
        return not failed and (import_effects(), self._variables.count_read()) == (before, read)

    def _load(self, imports: list[tuple[str, tuple[str, ...]]]) -> int:
        self._variables.watch()
        try:
            loaded = all(_import(name, members) for name, members in imports)
        finally:
            self._variables.stop_watching()
        if not loaded:
            return protocol.HAS_PRINTED if _has_printed() else protocol.FAILED
        if self._variables.all_were_read():
            return protocol.VARIABLES
        if keeps_random_numbers():
            return protocol.RANDOM
        return _what_shows(self._here) or _shadowed(self._folders, self._fresh)


def _import(name: str, members: tuple[str, ...]) -> bool:
    """Load a module, or find that it does not exist; False if it failed halfway.

    No thread can be started here, which is right, because a fork would lose it: threads must share
    a PID namespace, so clone(2) fails after setns(2) has selected another one for children,
    pid_namespaces(7).
    """
    try:
        __import__(name, {}, {}, members, 0)
    except ModuleNotFoundError as error:
        return name.startswith(error.name or "?")
    except BaseException:
        return False
    return True


def _is_not_standard(name: str) -> bool:
    return name.partition(".")[0] not in getattr(sys, "stdlib_module_names", ())


def _what_shows(here: str) -> int:
    """Return the side effect of the imports that calls could notice, 0 if there is none."""
    flush_quietly()
    if _has_printed():
        return protocol.HAS_PRINTED
    if os.getcwd() != here:
        return protocol.MOVED
    is_open = any(_is_open(fd) for fd in range(FIRST_FREE, _LOOKED_AT))
    return protocol.FILES_OPEN if is_open else 0


def _has_printed() -> bool:
    """Tell whether anything was printed since the last check."""
    try:
        return bool(os.read(PRINTED, _PIPE_BYTES))
    except BlockingIOError:
        return False


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _shadowed(folders: list[str], fresh: frozenset[str]) -> int:
    """Return SHADOWED if a file of the skill would take the place of a loaded module, else 0."""
    ours = ("skillpouch",)
    loaded = {name.partition(".")[0] for name in sys.modules if name not in fresh}
    loaded -= {*ours, *sys.builtin_module_names}
    for folder in folders:
        try:
            names = {name.partition(".")[0] for name in os.listdir(folder)}
        except OSError:
            continue
        if loaded & names:
            return protocol.SHADOWED
    return 0
