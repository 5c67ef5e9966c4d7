"""One forked child: waits for its call and becomes what a fresh Python would be."""

from __future__ import annotations

import sys
from _socket import SO_RCVTIMEO, SOL_SOCKET
from posix import _exit, chdir, closerange, setsid

from kitbag.execution.nursery.descriptors import FIRST_FREE, NEST
from kitbag.execution.nursery.dress_rehearsal import rehearse_call
from kitbag.execution.nursery.newborn import forget_parent, start_afresh, take_streams
from kitbag.execution.nursery.rehearsal import rehearse
from kitbag.execution.zygote import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

    from kitbag.execution.nursery.pages import Pages
    from kitbag.execution.nursery.program import Program
    from kitbag.execution.nursery.variables import Variables


def _time_value(microseconds: int) -> bytes:
    """Return what the kernel takes for a time of less than a second."""
    return bytes(8) + microseconds.to_bytes(8, sys.byteorder)


# How long a child waits for its call before it gets ready for one.
_FOR_EVER = _time_value(0)
_MOMENT = _time_value(4_000)
_IN_A_CROWD = _time_value(100_000)  # the next call is there as soon as the host comes to sending it
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
        self._wait_at_most(_MOMENT)

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
        """In the nursery, before a child is forked: see how long the last one left it to wait."""
        time = self._jobs.getsockopt(SOL_SOCKET, SO_RCVTIMEO, len(_MOMENT))
        self._in_crowd = time == _IN_A_CROWD
        if time == _FOR_EVER:
            self._wait_at_most(_MOMENT)

    def _wait_at_most(self, time: bytes) -> None:
        """Limit waiting on the line that all children share, for this one and the next."""
        self._jobs.setsockopt(SOL_SOCKET, SO_RCVTIMEO, time)

    def serve(self) -> Program:
        """Wait for a call; return what is to be run for it."""
        closerange(NEST, FIRST_FREE)
        setsid()
        if self._pages.wanted:
            self._pages.watch()
        self.begin(self._jobs)
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
            self._wait_at_most(_IN_A_CROWD if in_crowd else _MOMENT)
        jobs.close()
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
        except BlockingIOError:
            self._wait_at_most(_FOR_EVER)
            self._in_crowd = False
        # Pages are copied when first written to: better while nobody waits. In a crowd this
        # would only keep the processor from other calls.
        self._get_ready()
        return wire.receive(jobs)
