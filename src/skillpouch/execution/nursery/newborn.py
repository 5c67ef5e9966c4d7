"""Makes a forked process its own: its streams, and what modules have noted of their process."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import io
import os
import sys
import time
from posix import close, dup2  # now: to look into a module costs each child memory of its own

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ANSWER = 3


def take_streams(fds: list[int], *, feeds: bool) -> None:
    """Put descriptors in their places; the interpreter's own streams are on pipes."""
    for place, fd in enumerate(fds):
        dup2(fd, place, place < _ANSWER)
    for fd in fds:
        if fd >= len(fds):  # the others are places themselves, and taken by now
            close(fd)
    if not feeds:
        sys.stdin = sys.__stdin__ = _standard_input()  # type: ignore[misc]


def _standard_input() -> Any:
    """Look at the input anew: it is /dev/null, which can do what a pipe cannot."""
    before = sys.stdin
    raw = io.FileIO(0, "rb", closefd=False)
    raw.name = "<stdin>"
    made: Any = io.TextIOWrapper(io.BufferedReader(raw), before.encoding, before.errors, "\n")
    made.mode = "r"
    return made


def start_afresh(argv: list[str], environment: dict[bytes, bytes], given: int) -> None:
    """Become a Python that has loaded nothing: what was loaded here is not this call's."""
    for fd in range(given):
        os.set_inheritable(fd, True)
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
    os.execve(argv[0], argv, environment)  # noqa: S606 - confined like everything here


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
