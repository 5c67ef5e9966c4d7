"""What the exception that ended a program means: words on its standard error, an exit status."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

INTERRUPTED = -2  # no status of its own: the signal ends the process
_LARGEST = 2**63
_NOT_A_STATUS = 255
_HERE = __file__.rpartition("/")[0] + "/"


def status_of(error: BaseException | None) -> int:
    """Tell the user of an error as Python would; the exit status that it means."""
    if error is None:
        return 0
    if isinstance(error, SystemExit):
        return _status_of_exit(error.code)
    return _tell(error)


def own_part(trace: TracebackType | None) -> TracebackType | None:
    """Return the part of a traceback that is the program's."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_HERE):
        trace = trace.tb_next
    return trace


def say(text: str) -> None:
    """Write to standard error, whatever has become of it."""
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
    """Call `sys.excepthook`; what it raised itself."""
    if not hasattr(sys, "excepthook"):
        say("sys.excepthook is missing\n")
        show(error)
        return None
    try:
        sys.excepthook(type(error), error, trace)
    except BaseException as failure:
        return failure
    return None
