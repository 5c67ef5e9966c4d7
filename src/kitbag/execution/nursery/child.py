"""One forked child: waits for its call, becomes what a fresh Python would be, and runs it."""

from __future__ import annotations

import os
import sys
import time

from kitbag.execution.nursery.preparation import close_witness
from kitbag.execution.nursery.rehearsal import rehearse
from kitbag.execution.zygote import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

    from kitbag.execution.nursery.program import Program

_ANSWER = 3
_REHEARSALS = 20  # until the interpreter has specialised what it runs


class Child:
    """Serves exactly one call."""

    def __init__(
        self,
        nest: _socket.socket,
        jobs: _socket.socket,
        environment: dict[str, str],
        program: Program,
        skipped: int,
    ) -> None:
        self._nest = nest
        self._jobs = jobs
        self._environment = environment
        self._program = program
        self._skipped = skipped  # words of a command that started the interpreter

    def rehearse(self) -> None:
        for _ in range(_REHEARSALS):
            rehearse()

    def serve(self) -> None:
        """Wait for a call and run it; never returns."""
        self._nest.close()
        close_witness()
        os.setsid()
        rehearse()  # pages are copied when first written to: better while nobody waits
        message = wire.receive(self._jobs)
        if message is None:
            os._exit(0)
        _, argv, environment, folder = message.value()
        self._jobs.close()
        _take_streams(message.fds)
        os.chdir(folder)
        self._take_environment(environment)
        _reseed()
        self._program.run(argv[self._skipped :])

    def _take_environment(self, wanted: dict[str, str]) -> None:
        """Change what differs, so that what an import has set stays."""
        before, now = self._environment, os.environ
        for name in before:
            if name not in wanted:
                del now[name]
        for name, value in wanted.items():
            if before.get(name) != value:
                now[name] = value
        if wanted.get("TZ") != before.get("TZ"):
            time.tzset()


def _take_streams(fds: list[int]) -> None:
    for place, fd in enumerate(fds):
        os.dup2(fd, place, place < _ANSWER)
    for fd in fds:
        if fd >= len(fds):  # the others are places themselves, and taken by now
            os.close(fd)


def _reseed() -> None:
    """Give numpy's old global generator a seed of its own; the others look after themselves."""
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
