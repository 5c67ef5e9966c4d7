"""Goes through a call that does nothing, before there is any.

What an interpreter looks up, or specialises, for the first time it writes down, and each child
would have to copy the memory in which it does. A nursery that has seen every step leaves less.
"""

from __future__ import annotations

import os
import sys
from _socket import AF_UNIX, SOCK_SEQPACKET, socketpair

from kitbag.execution.zygote import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    from kitbag.execution.nursery.child import Child
    from kitbag.execution.nursery.program import Program

_SCRIPT = os.devnull  # a file that is always there, and says nothing
_SOURCE = "def handler(arguments):\n    return arguments\n"
_STREAMS = (0, 1, 2)
_VARIABLES = {
    "KITBAG_ANSWER": "0",
    "KITBAG_ARGUMENTS": "variable",
    "KITBAG_SCRIPTS": "",
    "TOOL_ARGS": "{}",
}


class Unchanged:
    """Puts back what a call changes in its process."""

    def __enter__(self) -> None:
        self._lists = [(each, list(each)) for each in (sys.argv, sys.orig_argv, sys.path)]
        self._argv = sys.argv
        self._variables = dict(os.environ)
        self._modules = dict(sys.modules)
        self._folder = os.getcwd()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        sys.argv = self._argv
        for each, items in self._lists:
            each[:] = items
        for name in [name for name in os.environ if name not in self._variables]:
            del os.environ[name]
        for name, value in self._variables.items():
            if os.environ.get(name) != value:
                os.environ[name] = value
        for name in [name for name in sys.modules if name not in self._modules]:
            del sys.modules[name]
        sys.modules["__main__"] = self._modules["__main__"]
        os.chdir(self._folder)
        return isinstance(error, Exception)  # an import has changed what is tried here


def rehearse_call(child: Child, program: Program, runner: str) -> None:
    """Have a child's steps done here: a call received and become, and its function called."""
    variables = {**os.environ, **_VARIABLES}
    if not child.allows(variables):
        return  # such a call would start another interpreter here
    with Unchanged():
        answer = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            _receive(child, runner, {**variables, "KITBAG_ANSWER": str(answer)})
            main = program.module.get("main")
            if main is not None:
                main()
        finally:
            os.close(answer)
            program.module = {}


def _receive(child: Child, runner: str, variables: dict[str, str]) -> None:
    theirs, ours = socketpair(AF_UNIX, SOCK_SEQPACKET)
    argv = [*sys.orig_argv[: child.skipped], runner or _SCRIPT, "handler", _SCRIPT]
    job: tuple[Any, ...] = (0, argv, variables, os.getcwd(), 0)
    wire.send_value(theirs, wire.RUN, job, _STREAMS)
    theirs.close()
    child.begin(ours)


def rehearsal_code() -> tuple[str, Any]:
    """Return the script that is called, and what it says."""
    return _SCRIPT, compile(_SOURCE, _SCRIPT, "exec")
