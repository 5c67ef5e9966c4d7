"""Makes a forked process its own: its streams, and what modules have noted of their process."""

from __future__ import annotations

import io
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ANSWER = 3
_CHARACTER_DEVICE = 0o020000  # of a file mode, as `stat` names it
_KIND = 0o170000


def take_streams(fds: list[int]) -> None:
    """Put descriptors in their places; the interpreter's own streams are on pipes."""
    for place, fd in enumerate(fds):
        os.dup2(fd, place, place < _ANSWER)
    for fd in fds:
        if fd >= len(fds):  # the others are places themselves, and taken by now
            os.close(fd)
    if os.fstat(0).st_mode & _KIND == _CHARACTER_DEVICE:
        sys.stdin = sys.__stdin__ = _standard_input()  # type: ignore[misc]


def _standard_input() -> Any:
    """Look at the input anew: it is /dev/null, which can do what a pipe cannot."""
    before = sys.stdin
    raw = io.FileIO(0, "rb", closefd=False)
    raw.name = "<stdin>"
    made: Any = io.TextIOWrapper(io.BufferedReader(raw), before.encoding, before.errors, "\n")
    made.mode = "r"
    return made


def forget_parent() -> None:
    """Set anew what must differ between processes and does not look after itself."""
    modules = sys.modules
    if "numpy.random" in modules:
        modules["numpy.random"].seed()  # its old global generator
    if "multiprocessing.process" in modules:
        process = modules["multiprocessing.process"]
        process.current_process().authkey = os.urandom(32)
    if "threading" in modules:
        modules["threading"].main_thread()._set_native_id()
    if "logging" in modules:
        logging: Any = modules["logging"]
        in_ns = isinstance(logging._startTime, int)  # since 3.13
        logging._startTime = time.time_ns() if in_ns else time.time()
