"""Makes a nursery ready for its script: compiles it, loads its imports, sees that nothing shows.

What a call does must not depend on whether its imports happened before it or in it.
"""

from __future__ import annotations

import os
import sys

from kitbag.execution.nursery import unfit
from kitbag.execution.nursery.compiled import Compiled
from kitbag.execution.nursery.imports import imports_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PRINTED = 5
_FIRST_FREE = 6
_LOOKED_AT = 256  # descriptors: an import that opens one gets the lowest number


class Preparation:
    """What a script needs, and what may not show when it is there."""

    def __init__(self, wanted: dict[str, Any], fresh: frozenset[str]) -> None:
        self._files: list[str] = wanted["files"]
        self._folders: list[str] = wanted["folders"]
        self._fresh = fresh
        self._here = os.getcwd()
        self.compiled = Compiled()

    def prepare(self) -> int:
        """Compile the script and load its imports; why it cannot be served here, or 0."""
        try:
            for file in self._files:
                self.compiled.add(file)
        except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
            return unfit.UNREADABLE  # a Python that starts afresh says it best
        sys.argv[:] = self._files[-1:]
        return self._load(imports_of(self._files, self._folders))

    def load_more(self, names: list[str]) -> bool:
        """Load what calls were seen to load; whether nothing shows."""
        return not self._load([(name, ()) for name in names])

    def _load(self, imports: list[tuple[str, tuple[str, ...]]]) -> int:
        for name, members in imports:
            if not _import(name, members):
                return unfit.FAILED
        return _what_shows(self._here) or _shadowed(self._folders, self._fresh)


def _import(name: str, members: tuple[str, ...]) -> bool:
    """Load a module or see that there is none; whether nothing is left half loaded.

    No thread can be started here: the kernel refuses them to a process whose children are born
    into another process table.
    """
    try:
        __import__(name, {}, {}, members, 0)
    except ModuleNotFoundError as error:
        return name.startswith(error.name or "?")
    except BaseException:
        return False
    return True


def close_witness() -> None:
    """Close, in a child, what only the nursery looks at."""
    os.close(_PRINTED)


def _what_shows(here: str) -> int:
    """Return what importing did besides importing."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if _has_printed():
        return unfit.PRINTED
    if os.getcwd() != here:
        return unfit.MOVED
    is_open = any(_is_open(fd) for fd in range(_FIRST_FREE, _LOOKED_AT))
    return unfit.FILES_OPEN if is_open else 0


def _has_printed() -> bool:
    try:
        return bool(os.read(_PRINTED, 1))
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
    ours = ("kitbag",)
    loaded = {name.partition(".")[0] for name in sys.modules if name not in fresh}
    loaded -= {*ours, *sys.builtin_module_names}
    for folder in folders:
        try:
            names = {name.partition(".")[0] for name in os.listdir(folder)}
        except OSError:
            continue
        if loaded & names:
            return unfit.SHADOWED
    return 0
