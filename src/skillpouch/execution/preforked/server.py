"""PreforkServer: prepares for one script, then keeps a forked child waiting for the next call."""

from __future__ import annotations

import gc
import os
import sys

from skillpouch.execution.preforked.child import Child
from skillpouch.execution.preforked.import_hints import ImportHints
from skillpouch.execution.preforked.prefault import Pages
from skillpouch.execution.preforked.preparation import Preparation
from skillpouch.execution.preforked.program import MainProgram
from skillpouch.execution.preforked.startup.sitecustomize import make_importable
from skillpouch.execution.preforked.variables import Variables
from skillpouch.execution.zygote import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from typing import Any


class PreforkServer:
    """Serves the calls of one script; reports to its sandbox, never directly to the host."""

    def __init__(
        self,
        control: _socket.socket,
        jobs: _socket.socket,
        wanted: dict[str, Any],
        fresh: frozenset[str],
    ) -> None:
        self._control = control
        self._hints = ImportHints()
        self._pages = Pages()
        variables = Variables()
        self._preparation = Preparation(wanted, fresh, variables)
        compiled = self._preparation.compiled
        self._runner: str = wanted["runner"]
        self._script: str = wanted["files"][-1]
        self._program = MainProgram(
            compiled, self._runner, wanted["program"], self._hints, self._pages
        )
        self._child = Child(jobs, variables, self._program, self._pages)
        # Keeps the server alive in a child, which leaves this frame: destroying it would write to,
        # and so copy, its memory.
        self._program.keeps = self

    def serve(self) -> MainProgram | None:
        """Serve until the sandbox ends; in a child, return the program to run."""
        ineligible = self._preparation.prepare()
        if ineligible:
            self._control.send(wire.INELIGIBLE + b" %d" % ineligible)
            return None
        # os.wait4 imports `resource` for its result; a script that did not import it must not find
        # it.
        hidden = "" if "resource" in sys.modules else "resource"
        root = "" if sys.flags.ignore_environment else os.environ.get("SKILL_BASE_DIR", "")
        if root:
            make_importable(root)
        self._program.prepare(self._script, root, hidden)
        self._child.warm_up(self._runner)
        self._control.send(wire.READY)
        self._settle()
        while True:
            pid = self._fork()
            if pid == 0:
                return self._child.serve()
            if not self._tell_end_of(pid):
                return None
            self._learn()

    def _learn(self) -> None:
        """Use the notes of the child that has ended."""
        if self._hints.are_over:
            self._pages.learn()
            return
        if self._hints.learn(self._preparation.load_more):
            self._settle()
        if not self._hints.left:
            # No more modules will be loaded, so the next call touches the same pages as all later
            # ones.
            self._pages.want()

    def _settle(self) -> None:
        """Freeze what exists now, so that it can be told from the objects of a call.

        The collector does not visit frozen objects, so a child does not write to them, and the
        kernel does not copy their pages.
        """
        self._hints.begin(self._program.hidden)
        gc.collect()
        gc.freeze()

    def _fork(self) -> int:
        self._child.expect()
        self._hints.expect()
        gc.freeze()
        return os.fork()

    def _tell_end_of(self, pid: int) -> bool:
        """Wait for a child and report its end; return whether another is wanted."""
        _, status, usage = os.wait4(pid, 0)
        times = (int(usage.ru_utime * 1e6), int(usage.ru_stime * 1e6))
        code = os.waitstatus_to_exitcode(status)
        self._control.send(wire.ENDED + b" %d %d %d %d" % (code, *times, usage.ru_maxrss))
        return bool(self._control.recv(16))  # wire.NEXT, or b"" when the sandbox has ended
