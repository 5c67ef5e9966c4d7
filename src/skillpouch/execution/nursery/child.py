"""One forked child: waits for its call and becomes what a fresh Python would be."""

from __future__ import annotations

import mmap
from _socket import timeout
from posix import O_RDONLY, _exit, chdir, closerange, setsid
from posix import open as open_file

from skillpouch.execution.nursery.descriptors import FIRST_FREE, NEST
from skillpouch.execution.nursery.dress_rehearsal import rehearse_call
from skillpouch.execution.nursery.newborn import forget_parent, start_afresh, take_streams
from skillpouch.execution.nursery.rehearsal import rehearse
from skillpouch.execution.zygote import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

    from skillpouch.execution.nursery.pages import Pages
    from skillpouch.execution.nursery.program import Program
    from skillpouch.execution.nursery.variables import Variables

# How long a child waits for its call before it gets ready for one.
_MOMENT_SECONDS = 0.004
_IN_A_CROWD_SECONDS = 0.1  # the next call is there as soon as the host comes to sending it
_REHEARSALS = 20  # until the interpreter has specialised what it runs


class Child:
    """Serves exactly one call."""

    def __init__(
        self,
        jobs: _socket.socket,
        variables: Variables,
        program: Program,
        pages: Pages,
    ) -> None:
        self._jobs = jobs
        self._variables = variables
        self._program = program
        self._pages = pages
        self._in_crowd = False  # whether other calls waited with the last one
        self._seen = mmap.mmap(-1, 1)  # the same, shared by all children and their nursery
        jobs.settimeout(_MOMENT_SECONDS)

    def rehearse(self, runner: str) -> None:
        for _ in range(_REHEARSALS):
            rehearse()
            rehearse_call(self, self._program, runner)

    def _get_ready(self) -> None:
        if self._pages.known:
            self._pages.make_ready()
        elif not self._pages.wanted:
            rehearse()

    def expect(self) -> None:
        """In the nursery, before a child is forked: see how long it should wait."""
        in_crowd = bool(self._seen[0])
        if in_crowd != self._in_crowd:
            self._in_crowd = in_crowd
            self._jobs.settimeout(_IN_A_CROWD_SECONDS if in_crowd else _MOMENT_SECONDS)

    def serve(self) -> Program:
        """Wait for a call; return what is to be run for it."""
        closerange(NEST, FIRST_FREE)
        setsid()
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
