"""A nursery: prepares for one script, then keeps a child waiting for each of its calls."""

from __future__ import annotations

import gc
import os

from kitbag.execution.nursery.child import Child
from kitbag.execution.nursery.lessons import Lessons
from kitbag.execution.nursery.preparation import Preparation
from kitbag.execution.nursery.program import Program
from kitbag.execution.zygote import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from typing import Any


class Nursery:
    """Talks to its slot; to the host only through it."""

    def __init__(
        self,
        nest: _socket.socket,
        jobs: _socket.socket,
        wanted: dict[str, Any],
        fresh: frozenset[str],
    ) -> None:
        self._nest = nest
        self._lessons = Lessons()
        self._preparation = Preparation(wanted, fresh)
        program = Program(self._preparation.compiled, wanted["runner"], self._lessons)
        self._child = Child(nest, jobs, dict(os.environ), program, wanted["skipped"])

    def serve(self) -> None:
        unfit = self._preparation.prepare()
        if unfit:
            self._nest.send(wire.UNFIT + b" %d" % unfit)
            return
        self._child.rehearse()
        self._nest.send(wire.READY)
        while self._serve_one():
            self._lessons.learn(self._preparation.load_more)

    def _serve_one(self) -> bool:
        """Keep one child waiting and tell how it ended; whether another is wanted."""
        self._lessons.begin()
        gc.collect()
        gc.freeze()  # what a call has made can then be told from what was there
        pid = os.fork()
        if pid == 0:
            self._child.serve()
        _, status, usage = os.wait4(pid, 0)
        times = (int(usage.ru_utime * 1000), int(usage.ru_stime * 1000))
        code = os.waitstatus_to_exitcode(status)
        self._nest.send(wire.ENDED + b" %d %d %d %d" % (code, *times, usage.ru_maxrss))
        return bool(self._nest.recv(16))
