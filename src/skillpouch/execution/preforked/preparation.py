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


_ONLY_AST = 0x400  # of compile(): `import ast` would load re and enum into every child
# Beyond these, calls import for themselves: reading ahead must not take longer than it saves.
_MOST_FILES = 64
_LARGEST_FILE = 2_000_000
# What runs whenever the script does; other functions may never be called.
_ENTRIES = ("main", "handler")


def imports_of(files: list[str], folders: list[str]) -> list[Import]:
    """Return what `files`, and the modules of the skill that they import, import from elsewhere."""
    reader = _Reader(folders)
    for file in files:
        reader.read(file)
    return list(reader.found)


class _Reader:
    def __init__(self, folders: list[str]) -> None:
        self._folders = folders
        self._seen: set[str] = set()
        self.found: dict[Import, None] = {}

    def read(self, file: str) -> None:
        if file in self._seen or len(self._seen) >= _MOST_FILES:
            return
        self._seen.add(file)
        for name, members in _imports(_parse(file)):
            own = [path for folder in self._folders for path in _files_of(folder, name)]
            for path in own:
                self.read(path)
            if not own:
                self.found[name, members] = None


def _parse(file: str) -> Any:
    try:
        if os.path.getsize(file) > _LARGEST_FILE:
            return None
        with open(file, "rb") as source:
            return compile(source.read(), file, "exec", _ONLY_AST, True)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return None  # the call itself will say so


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
    """Return the blocks of a statement that run in every call; the others are learned from."""
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
    """Return what an import may change besides `sys.modules`, to be compared before and after."""
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
    """Tell whether a module has a generator of its own: all calls would get the same numbers.

    The one that `random` keeps for everybody is seeded anew in every child, by itself.
    """
    random = sys.modules.get("random")
    if random is None:
        return False
    return any(
        type(thing) is random.Random and thing is not random._inst
        for thing in gc.get_referrers(random.Random)
    )


_OUTPUT = 1
_PIPE_BYTES = 1 << 20  # a pipe holds 64 KiB, pipe(7)
_LOOKED_AT = 256  # descriptors: whoever opens one gets the lowest free number, open(2)


class Preparation:
    """What a script needs, and what may not show when it is there."""

    def __init__(self, wanted: dict[str, Any], fresh: frozenset[str], variables: Variables) -> None:
        self._files: list[str] = wanted["files"]
        self._folders: list[str] = wanted["folders"]
        self._fresh = fresh
        self._variables = variables
        self._here = os.getcwd()
        self.compiled = Compiled()

    def prepare(self) -> int:
        """Compile the script and load its imports; why it cannot be served here, or 0."""
        os.set_blocking(_OUTPUT, False)  # nobody reads what is printed here
        try:
            for file in self._files:
                self._compile(file)
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            return protocol.UNREADABLE  # a Python that starts afresh says it best
        sys.argv[:] = self._files[-1:]
        imports = imports_of(self._files, self._folders)
        _has_printed()  # warnings about what was only read
        return self._load(imports)

    def _compile(self, file: str) -> None:
        self.compiled.add(file)
        if _has_printed():
            self.compiled.drop(file)  # with a warning, which is the call's to print

    def load_more(self, names: list[str]) -> bool:
        """Load what some calls were seen to load; whether nothing of it shows in the others."""
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
    """Load a module or see that there is none; whether nothing is left half loaded.

    No thread can be started here: the threads of a process share a PID namespace, so clone(2) fails
    after setns(2) has sent its children to another, pid_namespaces(7). A fork would lose them.
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
    """Return what importing did besides importing."""
    flush_quietly()
    if _has_printed():
        return protocol.HAS_PRINTED
    if os.getcwd() != here:
        return protocol.MOVED
    is_open = any(_is_open(fd) for fd in range(FIRST_FREE, _LOOKED_AT))
    return protocol.FILES_OPEN if is_open else 0


def _has_printed() -> bool:
    """Tell whether anything was printed since this was asked last."""
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
    """Tell whether the skill has a file that a fresh Python would find instead of a loaded one."""
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
