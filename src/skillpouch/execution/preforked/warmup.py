"""Does in advance what every call does, so that its memory is prepared before the call."""

from __future__ import annotations

import io
import marshal
import os
import sys
from _socket import AF_UNIX, SOCK_SEQPACKET, socketpair

from skillpouch.execution.preforked.c_functions import flush_c_output
from skillpouch.execution.preforked.interpreter_exit import status_of, write_out
from skillpouch.execution.zygote import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any

    from skillpouch.execution.preforked.child import Child
    from skillpouch.execution.preforked.program import MainProgram


_SCRIPT = os.devnull  # a file that always exists and is empty
_SOURCE = "def handler(arguments):\n    return arguments\n"
_STREAMS = (0, 1, 2)
_VARIABLES = {
    b"SKILLPOUCH_ARGUMENTS": b"variable",
    b"SKILLPOUCH_SCRIPTS": b"",
    b"TOOL_ARGS": b"{}",
}


class Unchanged:
    """Restores what a call changes in its process."""

    def __init__(self, program: MainProgram) -> None:
        self._all_words = program.all_words

    def __enter__(self) -> None:
        self._lists = [(each, list(each)) for each in (sys.argv, self._all_words, sys.path)]
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
        # An import has changed something, so that the trial fails.
        return isinstance(error, Exception)


def warm_up_call(child: Child, program: MainProgram, runner: str) -> None:
    """Do the steps of a child here: receive a call, set it up, and call its function."""
    for each in (child, program, *vars(child).values(), *vars(program).values()):
        _look_up_all(each)
    if not child.allows(_VARIABLES, []):
        return  # such a call would execute a fresh interpreter here
    with Unchanged(program):
        answer = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        try:
            _receive(child, runner, {**_VARIABLES, b"SKILLPOUCH_ANSWER": b"%d" % answer})
            main = program.module.get("main")
            if main is not None:
                main()
            status_of(None)
            write_out()
        finally:
            os.close(answer)
            program.module = {}


def _receive(child: Child, runner: str, variables: dict[bytes, bytes]) -> None:
    theirs, ours = socketpair(AF_UNIX, SOCK_SEQPACKET)
    words = (runner or _SCRIPT, "handler", _SCRIPT)
    job: tuple[Any, ...] = (words, variables, [], os.getcwd(), 1, 0)
    wire.send_value(theirs, wire.RUN, job, _STREAMS)
    theirs.close()
    child.begin(ours)


def _look_up_all(thing: object) -> None:
    """Look up every attribute once: afterwards it is in the interpreter's type cache."""
    if type(thing).__module__.startswith(__package__):
        for name in vars(type(thing)):
            getattr(thing, name, None)


def warmup_code() -> tuple[str, Any]:
    """Return the script of the warm-up call, and its code."""
    return _SCRIPT, compile(_SOURCE, _SCRIPT, "exec")


_PROGRAM = """
def work(word="x"):
    return {"ok": [word, 1, 1.5, True, None]}
class Thing:
    def __init__(self): self.found = [work() for _ in range(2)]
try:
    text = "".join(sorted("%s" % key for key in Thing().found[0]))
    raise ValueError(text)
except ValueError as error:
    text = str(error)
"""


def warm_up() -> None:
    try:
        _warm_up()
    except BaseException:
        return  # an import has changed something; the call itself will meet the error


def _warm_up() -> None:
    # The first compile() of a process builds the classes of the syntax tree, which takes 2 ms.
    exec(compile(_PROGRAM, "<warmup>", "exec"), {"__name__": "warmup"})
    stream = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    stream.write("x")
    stream.flush()
    with open("/dev/null", "rb") as nothing:
        nothing.read()
    for number in range(12):
        os.environ["SKILLPOUCH_WARMUP_%d" % number] = "1"
    for number in range(12):
        os.environ.pop("SKILLPOUCH_WARMUP_%d" % number)
    flush_c_output()
    marshal.loads(marshal.dumps({"a": [1, "b"]}))  # noqa: S302 - our own
    json = sys.modules.get("json")
    if json is not None:
        text = json.dumps({"a": [1, "b", None, True, 1.5]}, allow_nan=False)
        json.loads(text.encode())
