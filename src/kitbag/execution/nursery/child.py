"""One forked child: waits for its call and becomes what a fresh Python would be."""

from __future__ import annotations

import mmap
import os
import select

from kitbag.execution.nursery.dress_rehearsal import rehearse_call
from kitbag.execution.nursery.newborn import forget_parent, start_afresh, take_streams
from kitbag.execution.nursery.preparation import close_witness
from kitbag.execution.nursery.rehearsal import rehearse
from kitbag.execution.zygote import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

    from kitbag.execution.nursery.pages import Pages
    from kitbag.execution.nursery.program import Program
    from kitbag.execution.nursery.variables import Variables

_MOMENT_MS = 4
_IN_A_CROWD_MS = 100  # the next call is there as soon as the host comes to sending it
_REHEARSALS = 20  # until the interpreter has specialised what it runs


class Child:
    """Serves exactly one call."""

    def __init__(
        self,
        nest: _socket.socket,
        jobs: _socket.socket,
        variables: Variables,
        program: Program,
        skipped: int,
        pages: Pages,
    ) -> None:
        self._nest = nest
        self._jobs = jobs
        self._variables = variables
        self._program = program
        self.skipped = skipped  # words of a command that started the interpreter
        self._pages = pages
        self._crowd = mmap.mmap(-1, 1)  # shared by all children: whether others waited with it
        self._calls = select.poll()
        self._calls.register(jobs.fileno(), select.POLLIN)

    def rehearse(self, runner: str) -> None:
        for _ in range(_REHEARSALS):
            rehearse()
            rehearse_call(self, self._program, runner)

    def _is_wanted(self) -> bool:
        """Tell whether a call comes within a moment."""
        return bool(self._calls.poll(_IN_A_CROWD_MS if self._crowd[0] else _MOMENT_MS))

    def _get_ready(self) -> None:
        if self._pages.known:
            self._pages.make_ready()
        else:
            rehearse()

    def serve(self) -> Program:
        """Wait for a call; return what is to be run for it."""
        self._nest.close()
        close_witness()
        os.setsid()
        if self._pages.wanted:
            self._pages.watch()
        elif not self._is_wanted():
            # Pages are copied when first written to: better while nobody waits. In a crowd
            # this would only keep the processor from other calls.
            self._get_ready()
        self.begin(self._jobs)
        return self._program

    def allows(self, environment: dict[str, str]) -> bool:
        """Tell whether a call with these variables can be served by what is loaded here."""
        return self._variables.allow(environment)

    def begin(self, jobs: _socket.socket) -> None:
        """Take the next call, and become its process."""
        message = wire.receive(jobs)
        if message is None:
            os._exit(0)
        _, argv, environment, folder, self._crowd[0] = message.value()
        jobs.close()
        take_streams(message.fds)
        os.chdir(folder)
        if not self.allows(environment):
            start_afresh(argv, environment, len(message.fds))
        self._variables.take(environment)
        forget_parent()
        self._program.become(argv, self.skipped)
