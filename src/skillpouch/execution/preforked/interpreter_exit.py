"""Ends a process exactly as the interpreter does at the end of a program."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import atexit
import io
import os
import sys
import warnings  # noqa: F401 - needed at the end for coroutines that were never awaited
from gc import get_objects
from posix import _exit

from skillpouch.execution.preforked.c_functions import flush_c_output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Any


INTERRUPTED = -2  # not an exit status: SIGINT ends the process
_LARGEST = 2**63
_NOT_A_STATUS = 255
_HERE = __file__.rpartition("/")[0] + "/"


def status_of(error: BaseException | None) -> int:
    """Print an error as Python does; return its exit status."""
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        return _status_of_exit(error.code)
    return _tell(error)


def own_part(trace: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that belongs to the program."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE):
        trace = trace.tb_next
    return trace


def say(text: str) -> None:
    """Write to standard error; ignore errors, because the program may have replaced it."""
    try:
        sys.stderr.write(text)
    except BaseException:
        return


def show(error: BaseException) -> None:
    error.__traceback__ = own_part(error.__traceback__)
    sys.__excepthook__(type(error), error, error.__traceback__)


def _status_of_exit(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF if -_LARGEST <= code < _LARGEST else _NOT_A_STATUS
    try:
        text = str(code)
    except BaseException:
        text = ""
    if sys.stderr is None:
        os.write(2, text.encode(errors="backslashreplace") + b"\n")
    else:
        say(text)
        say("\n")
    return 1


def _tell(error: BaseException) -> int:
    trace = own_part(error.__traceback__)
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    failure = _call_hook(error, trace)
    if isinstance(failure, SystemExit):
        return _status_of_exit(failure.code)
    if failure is not None:
        say("Error in sys.excepthook:\n")
        show(failure)
        say("\nOriginal exception was:\n")
        show(error)
    return INTERRUPTED if type(error) is KeyboardInterrupt else 1


def _call_hook(error: BaseException, trace: TracebackType | None) -> BaseException | None:
    """Call `sys.excepthook`; return the error that it raised itself."""
    if not hasattr(sys, "excepthook"):
        say("sys.excepthook is missing\n")
        show(error)
        return None
    try:
        sys.excepthook(type(error), error, trace)
    except BaseException as failure:
        return failure
    return None


_FLUSH_FAILED = 120  # Python's exit status when it cannot flush its output at the end
# The message names the moment, in older versions the object.
_NAMES_THE_MOMENT: bool = sys.version_info >= (3, 13)
_FILES = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
_LAST = ("last_type", "last_value", "last_traceback", "last_exc")


def flush_quietly() -> None:
    """Flush standard output and error, as Python does before it prints its own messages."""
    for stream in (sys.stderr, sys.stdout):
        try:
            stream.flush()
        except BaseException:  # noqa: S112 - `finish` tries again and reports it
            continue


def finish(status: int) -> int:
    """Do what Python does before it finalizes; return the status, which may have changed."""
    _wait_for_threads()
    atexit._run_exitfuncs()
    return status if _flush_output() else _FLUSH_FAILED


def let_go(known: frozenset[str]) -> None:
    """Drop the program's modules and references, so that its objects become garbage."""
    sys.stdin, sys.stdout, sys.stderr = sys.__stdin__, sys.__stdout__, sys.__stderr__
    if "signal" in sys.modules:
        _reset_signals()
    for name in _LAST:
        # `pop`, because a failed lookup would create an exception first.
        sys.__dict__.pop(name, None)
    forget_added(sys.modules, known)
    sys.modules.pop("__main__", None)
    sys.meta_path = None  # type: ignore[assignment]  # as in a Python that is finalizing


def _reset_signals() -> None:
    """Reset the program's signal handlers, and so drop what they refer to."""
    for number in range(1, _signal.NSIG):
        if callable(_signal.getsignal(number)):
            _signal.signal(number, _signal.SIG_DFL)


def forget_added(names: dict[str, Any], known: frozenset[str]) -> None:
    """Delete the names that were added: the last ones, unless a program has reordered them.

    Checking all names would touch their memory, which the kernel would then copy.
    """
    added = []
    for name in reversed(names):
        if name in known:
            break
        added.append(name)
    if len(names) - len(added) != len(known):
        added = [name for name in names if name not in known]
    for name in added:
        del names[name]


def write_out() -> None:
    """Flush all output that is left."""
    flush_quietly()
    _flush_files()
    flush_c_output()


def leave(status: int) -> None:
    """End the process."""
    if status == INTERRUPTED:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        os.kill(os.getpid(), _signal.SIGINT)
    _exit(status)


def _wait_for_threads() -> None:
    threading = sys.modules.get("threading")
    if threading is None:
        return
    try:
        threading._shutdown()
    except BaseException as error:
        _ignore("on threading shutdown", threading, error)


def _flush_output() -> bool:
    done = True
    try:
        if sys.stdout is not None and not getattr(sys.stdout, "closed", False):
            sys.stdout.flush()
    except BaseException as error:
        done = False
        _ignore("on flushing sys.stdout", sys.stdout, error)
    try:
        if sys.stderr is not None and not getattr(sys.stderr, "closed", False):
            sys.stderr.flush()
    except BaseException:
        done = False
    return done


def _ignore(when: str, thing: object, error: BaseException) -> None:
    """Report an error that can no longer be handled, as Python does."""
    message = f"Exception ignored {when}" if _NAMES_THE_MOMENT else None
    if sys.unraisablehook is sys.__unraisablehook__:
        say(f"{message}:\n" if message else f"Exception ignored in: {thing!r}\n")
        show(error)
        return
    namespace: Any = type(sys.implementation)
    told = namespace(
        exc_type=type(error),
        exc_value=error,
        exc_traceback=error.__traceback__,
        err_msg=message,
        object=None if message else thing,
    )
    try:
        sys.unraisablehook(told)
    except BaseException as failure:
        show(failure)


def _flush_files() -> None:
    """Flush open files; only objects of the call are searched, because older ones are frozen."""
    for thing in get_objects():
        if isinstance(thing, _FILES):
            try:
                thing.flush()
            except BaseException:  # noqa: S112 - closed, or a broken pipe
                continue
