"""Makes a nursery ready for its script: compiles it, loads its imports, sees that nothing shows.

What a call does must not depend on whether its imports happened before it or in it.
"""

from __future__ import annotations

import os
import sys

from skillpouch.execution.nursery import unfit
from skillpouch.execution.nursery.compiled import Compiled
from skillpouch.execution.nursery.descriptors import FIRST_FREE, PRINTED
from skillpouch.execution.nursery.ending import flush_quietly
from skillpouch.execution.nursery.imports import imports_of
from skillpouch.execution.nursery.traces import keeps_random_numbers, traces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from skillpouch.execution.nursery.variables import Variables

_OUTPUT = 1
_PIPE_BYTES = 1 << 20  # more than a pipe holds
_LOOKED_AT = 256  # descriptors: an import that opens one gets the lowest number


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
            return unfit.UNREADABLE  # a Python that starts afresh says it best
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
        before = traces()
        failed = self._load([(name, ()) for name in others])
        return not failed and (traces(), self._variables.count_read()) == (before, read)

    def _load(self, imports: list[tuple[str, tuple[str, ...]]]) -> int:
        self._variables.watch()
        try:
            loaded = all(_import(name, members) for name, members in imports)
        finally:
            self._variables.stop_watching()
        if not loaded:
            return unfit.PRINTED if _has_printed() else unfit.FAILED
        if self._variables.all_were_read():
            return unfit.VARIABLES
        if keeps_random_numbers():
            return unfit.RANDOM
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


def _is_not_standard(name: str) -> bool:
    return name.partition(".")[0] not in getattr(sys, "stdlib_module_names", ())


def _what_shows(here: str) -> int:
    """Return what importing did besides importing."""
    flush_quietly()
    if _has_printed():
        return unfit.PRINTED
    if os.getcwd() != here:
        return unfit.MOVED
    is_open = any(_is_open(fd) for fd in range(FIRST_FREE, _LOOKED_AT))
    return unfit.FILES_OPEN if is_open else 0


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
            return unfit.SHADOWED
    return 0
