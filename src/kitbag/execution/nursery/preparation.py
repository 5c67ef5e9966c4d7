"""Makes a nursery ready for its script: compiles it, loads what it imports, sees that nothing shows.

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

_STATE, _PRINTED = 5, 6
_FIRST_FREE = 7
_LOOKED_AT = 256  # descriptors: an import that opens one gets the lowest number


def prepare(wanted: dict[str, Any], fresh: frozenset[str]) -> tuple[Compiled, int]:
    """Return the script's code, and why it cannot be served here; 0 when it can."""
    compiled = Compiled()
    try:
        for file in wanted["files"]:
            compiled.add(file)
    except (OSError, ValueError, SyntaxError, RecursionError, MemoryError):
        return compiled, unfit.UNREADABLE  # with its message, from a Python that starts afresh
    here = os.getcwd()
    sys.argv[:] = [wanted["files"][-1]]
    _preload(imports_of(wanted["files"], wanted["folders"]))
    reason = _what_shows(here) or _shadowed(wanted["folders"], fresh)
    os.close(_STATE)
    os.close(_PRINTED)
    return compiled, reason


def _preload(imports: list[tuple[str, tuple[str, ...]]]) -> None:
    for name, members in imports:
        try:
            __import__(name, {}, {}, members, 0)
        except BaseException:  # noqa: S112 - whatever it is, the call meets it again
            continue


def _what_shows(here: str) -> int:
    """Return what importing did besides importing."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    try:
        os.read(_PRINTED, 1)
    except BlockingIOError:
        pass  # noqa: S110 - nothing was printed
    else:
        return unfit.PRINTED
    if os.getcwd() != here:
        return unfit.MOVED
    if any(_is_open(fd) for fd in range(_FIRST_FREE, _LOOKED_AT)):
        return unfit.FILES_OPEN
    # Threads do not survive a fork, and some are known to no Python module.
    return 0 if b"\nThreads:\t1\n" in os.pread(_STATE, 8192, 0) else unfit.THREADS


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
