"""Runs a file the way `python FILE …` does, in a process that is already running."""

from __future__ import annotations

import builtins
import os
import sys
from _frozen_importlib_external import SourceFileLoader

from kitbag.execution.nursery.compiled import compile_file
from kitbag.execution.nursery.ending import INTERRUPTED, end_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kitbag.execution.nursery.compiled import Compiled
    from kitbag.execution.nursery.lessons import Lessons


class Program:
    """Files that may be run; some of them are compiled already."""

    def __init__(self, compiled: Compiled, runner: str, lessons: Lessons) -> None:
        self._compiled = compiled
        self._runner = runner  # calls functions of a script, and is given its code
        self._lessons = lessons

    def run(self, words: list[str]) -> None:
        """Run `words[0]` as the main program and end this process as it would end."""
        file = words[0]
        sys.argv[:] = words
        _take_path(file)
        module = _main_module(file)
        if file == self._runner:
            module["COMPILED"] = self._compiled
        status = self._status_of_running(file, module)
        end_process(status, module, self._lessons)

    def _status_of_running(self, file: str, module: dict[str, Any]) -> int:
        try:
            exec(self._compiled.get(file) or compile_file(file), module)
        except SystemExit as error:
            return _status_of(error)
        except BaseException as error:
            return _complain(error)
        return 0


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
    _tell(error.with_traceback(trace))
    return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1


def _tell(error: BaseException) -> None:
    try:
        sys.excepthook(type(error), error, error.__traceback__)
    except SystemExit:
        return
    except BaseException as failure:
        print("Error in sys.excepthook:", file=sys.stderr)  # noqa: T201 - as Python does
        sys.__excepthook__(type(failure), failure, failure.__traceback__)
        print("\nOriginal exception was:", file=sys.stderr)  # noqa: T201
        sys.__excepthook__(type(error), error, error.__traceback__)


_OWN_FILES = (__file__, __file__.replace("program.py", "compiled.py"))
