"""Which modules a script imports when it runs, read from its text and never from running it."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    Import = tuple[str, tuple[str, ...]]  # a module, and the names taken from it

_ONLY_AST = 0x400  # of compile(): `import ast` would load re and enum into every child
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
