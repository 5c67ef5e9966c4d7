"""Runs a file the way `python FILE …` does, in a process that is already running."""

from __future__ import annotations

import builtins
import os
import sys
from _frozen_importlib_external import SourceFileLoader  # type: ignore[import-not-found]

from kitbag.execution.nursery.compiled import compile_file
from kitbag.execution.nursery.ending import INTERRUPTED, end_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kitbag.execution.nursery.compiled import Compiled

def run_program(words: list[str], compiled: Compiled) -> None:
    """Run `words[0]` as the main program and end this process as it would end."""
    file = words[0]
    sys.argv[:] = words
    _take_path(file)
    module = _main_module(file)
    try:
        code = compiled.get(file) or compile_file(file)
        if file != words[-1]:
            module["COMPILED"] = compiled
        exec(code, module)
        status = 0
    except SystemExit as error:
        status = _status_of(error)
    except BaseException as error:
        status = _complain(error)
    end_process(status, module)


def _take_path(file: str) -> None:
    """Set the module search path as a fresh Python would have it for this file."""
    given = os.environ.get("PYTHONPATH", "")
    if given and not sys.flags.ignore_environment:
        sys.path[0:0] = given.split(os.pathsep)
    if not getattr(sys.flags, "safe_path", sys.flags.isolated):
        sys.path.insert(0, file.rpartition("/")[0])


def _main_module(file: str) -> dict[str, Any]:
    module = type(sys)("__main__")
    sys.modules["__main__"] = module
    module.__dict__.update(
        __builtins__=builtins,
        __file__=file,
        __cached__=None,
        __loader__=SourceFileLoader("__main__", file),
        __annotations__={},
    )
    return module.__dict__


def _status_of(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)  # noqa: T201 - as Python does
    return 1


def _complain(error: BaseException) -> int:
    """Print the traceback from the script's own first line on; the exit status it means."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename in _OWN_FILES:
        trace = trace.tb_next
    try:
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    except BaseException:  # noqa: S110 - a hook that fails has had its chance
        pass
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


_OWN_FILES = (__file__, __file__.replace("program.py", "compiled.py"))
