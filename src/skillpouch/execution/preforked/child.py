"""Child: waits for its call in a forked process, and then looks like a fresh Python."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import io
import mmap
import os
import sys
import time
from _socket import timeout
from posix import (  # by name: looking into a module at call time would make each child copy memory
    O_RDONLY,
    _exit,
    chdir,
    close,
    closerange,
    dup2,
    setsid,
)
from posix import open as open_file

from skillpouch.execution.preforked.protocol import CONTROL, FIRST_FREE
from skillpouch.execution.preforked.warmup import warm_up, warm_up_call
from skillpouch.execution.zygote import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from typing import Any

    from skillpouch.execution.preforked.prefault import Pages
    from skillpouch.execution.preforked.program import MainProgram
    from skillpouch.execution.preforked.variables import Variables


_ANSWER = 3  # the descriptor of the answer file; programs that a call starts do not inherit it


def take_streams(fds: list[int], *, feeds: bool) -> None:
    """Move descriptors to 0, 1, 2 …, where the interpreter's own streams expect them."""
    for place, fd in enumerate(fds):
        dup2(fd, place, place < _ANSWER)
    for fd in fds:
        if fd >= len(fds):  # lower numbers are places themselves, and already replaced
            close(fd)
    if not feeds:
        sys.stdin = sys.__stdin__ = _standard_input()  # type: ignore[misc]


def _standard_input() -> Any:
    """Make a new `sys.stdin`: unlike the pipe it was made for, /dev/null can seek."""
    before = sys.stdin
    raw = io.FileIO(0, "rb", closefd=False)
    raw.name = "<stdin>"
    made: Any = io.TextIOWrapper(io.BufferedReader(raw), before.encoding, before.errors, "\n")
    made.mode = "r"
    return made


def start_afresh(argv: list[str], environment: dict[bytes, bytes], given: int) -> None:
    """Execute a fresh Python: what is loaded here does not fit this call."""
    for fd in range(given):
        os.set_inheritable(fd, True)
    # The interpreter ignores both, and ignored signals stay ignored through an exec, signal(7).
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
    os.execve(argv[0], argv, environment)  # noqa: S606 - confined like everything here


def forget_parent() -> None:
    """Reset state that must differ between processes and that no fork handler resets."""
    modules = sys.modules
    if "numpy.random" in modules:
        modules["numpy.random"].seed()  # seeds its legacy global generator
    if "multiprocessing.process" in modules:
        process = modules["multiprocessing.process"]
        process.current_process().authkey = os.urandom(32)
    if "threading" in modules:
        modules["threading"].main_thread()._set_native_id()
    if "logging" in modules:
        logging: Any = modules["logging"]
        in_ns = isinstance(logging._startTime, int)  # since 3.13
        logging._startTime = time.time_ns() if in_ns else time.time()


# How long a child waits for its call before it prepares memory for one (`_get_ready`). The first is
# longer than a host needs to send the next of several calls; the second is for a host with many
# waiting calls, which sends the next one as soon as it gets the processor.
_MOMENT_SECONDS = 0.004
_IN_A_CROWD_SECONDS = 0.1
_WARMUPS = 20  # more runs than the interpreter needs before it specialises code, PEP 659


class Child:
    """Serves exactly one call."""

    def __init__(
        self,
        jobs: _socket.socket,
        variables: Variables,
        program: MainProgram,
        pages: Pages,
    ) -> None:
        self._jobs = jobs
        self._variables = variables
        self._program = program
        self._pages = pages
        self._in_crowd = False  # whether other calls were waiting at the last call
        # The same flag, in memory shared by all children and their prefork server.
        self._seen = mmap.mmap(-1, 1)
        jobs.settimeout(_MOMENT_SECONDS)

    def warm_up(self, runner: str) -> None:
        for _ in range(_WARMUPS):
            warm_up()
            warm_up_call(self, self._program, runner)

    def _get_ready(self) -> None:
        if self._pages.known:
            self._pages.make_ready()
        elif not self._pages.wanted:
            warm_up()

    def expect(self) -> None:
        """In the prefork server, before a fork: set how long the child waits."""
        in_crowd = bool(self._seen[0])
        if in_crowd != self._in_crowd:
            self._in_crowd = in_crowd
            self._jobs.settimeout(_IN_A_CROWD_SECONDS if in_crowd else _MOMENT_SECONDS)

    def serve(self) -> MainProgram:
        """Wait for a call; return the program to run for it."""
        # A call must not be able to pose as the prefork server to its sandbox.
        closerange(CONTROL, FIRST_FREE)
        setsid()  # like a program that was started in a process of its own
        if self._pages.wanted:
            self._pages.watch()
        self.begin(self._jobs)
        self._seen.close()  # before the call's own code runs, which could write there
        return self._program

    def allows(self, changed: dict[bytes, bytes], removed: list[bytes]) -> bool:
        """Tell whether the modules loaded here may serve a call with these variables."""
        return self._variables.allow(changed, removed)

    def begin(self, jobs: _socket.socket) -> None:
        """Receive the next call, and set up this process for it."""
        message = self._receive(jobs)
        if message is None:
            _exit(0)
        words, changed, removed, folder, feeds, in_crowd = message.value()
        if in_crowd != self._in_crowd:
            self._seen[0] = in_crowd
        jobs.close()
        if not feeds:
            message.fds.insert(0, open_file("/dev/null", O_RDONLY))
        take_streams(message.fds, feeds=feeds)
        chdir(folder)
        if not self.allows(changed, removed):
            environment = self._variables.all_of(changed, removed)
            start_afresh(self._program.argv(words), environment, len(message.fds))
        self._program.become(words, changed)
        self._variables.take(changed, removed)
        forget_parent()

    def _receive(self, jobs: _socket.socket) -> wire.Message | None:
        try:
            return wire.receive(jobs)
        except timeout:
            jobs.settimeout(None)
        # No call came for a while. After a fork, pages are copied at the first write, fork(2):
        # better now than during a call. With many calls waiting, this would only take the processor
        # from them, hence the longer timeout.
        self._get_ready()
        return wire.receive(jobs)
