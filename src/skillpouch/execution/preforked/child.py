"""Child: waits for its call in a forked process, and becomes what a fresh Python would be."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import io
import mmap
import os
import sys
import time
from _socket import timeout
from posix import (  # now: to look into a module costs each child memory of its own
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


_ANSWER = 3  # the descriptor of the answer file: a program that a call starts does not get it


def take_streams(fds: list[int], *, feeds: bool) -> None:
    """Put descriptors in their places, where the interpreter's own streams already look."""
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
    # The interpreter ignores both, and ignored signals stay ignored through an exec, signal(7).
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


# How long a child waits for its call before it gets ready for one. The first is longer than a host
# takes to send the next of several calls; the second is for a host that has many calls waiting, and
# sends the next as soon as it gets the processor.
_MOMENT_SECONDS = 0.004
_IN_A_CROWD_SECONDS = 0.1
_WARMUPS = 20  # more often than an interpreter runs code before it specialises it, PEP 659


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
        self._in_crowd = False  # whether other calls waited with the last one
        self._seen = mmap.mmap(-1, 1)  # the same, shared by all children and their prefork server
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
        """In the prefork server, before a child is forked: see how long it should wait."""
        in_crowd = bool(self._seen[0])
        if in_crowd != self._in_crowd:
            self._in_crowd = in_crowd
            self._jobs.settimeout(_IN_A_CROWD_SECONDS if in_crowd else _MOMENT_SECONDS)

    def serve(self) -> MainProgram:
        """Wait for a call; return what is to be run for it."""
        closerange(CONTROL, FIRST_FREE)  # a call must not talk to the sandbox as its server does
        setsid()  # as a program that was started afresh
        if self._pages.wanted:
            self._pages.watch()
        self.begin(self._jobs)
        self._seen.close()  # before the call's own code runs, which could leave something there
        return self._program

    def allows(self, changed: dict[bytes, bytes], removed: list[bytes]) -> bool:
        """Tell whether a call with these variables can be served by what is loaded here."""
        return self._variables.allow(changed, removed)

    def begin(self, jobs: _socket.socket) -> None:
        """Take the next call, and become its process."""
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
        # Pages are copied when first written to: better while nobody waits. In a crowd this
        # would only keep the processor from other calls.
        self._get_ready()
        return wire.receive(jobs)
