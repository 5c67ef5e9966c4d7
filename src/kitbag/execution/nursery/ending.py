"""Ends a process as an interpreter does when its program is over, without taking it apart.

Taking every module apart costs seven milliseconds and shows only in `__del__` of what is global.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import atexit
import gc
import io
import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from kitbag.execution.nursery.lessons import Lessons

INTERRUPTED = -2  # no status of its own: the signal ends the process
_FLUSH_FAILED = 120  # the status Python gives when its last words could not be written
_KEPT = ("__builtins__", "__name__")


def end_process(status: int, module: dict[str, Any], lessons: Lessons) -> None:
    """Do what Python does at exit, in its order, and leave with `status`."""
    lessons.write()
    _wait_for_threads()
    atexit._run_exitfuncs()
    if not _flush_output():
        status = _FLUSH_FAILED
    _let_go(module)
    if not _flush_output():
        status = _FLUSH_FAILED
    _flush_files()
    if status == INTERRUPTED:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        os.kill(os.getpid(), _signal.SIGINT)
    os._exit(status)


def _wait_for_threads() -> None:
    threading = sys.modules.get("threading")
    if threading is None:
        return
    try:
        threading._shutdown()
    except BaseException as error:
        _say(f"Exception ignored in: {threading!r}\n{type(error).__name__}: {error}\n")


def _let_go(module: dict[str, Any]) -> None:
    """Drop the globals of the program, those with an underscore first, so that `__del__` runs."""
    private = [name for name in module if name[:1] == "_" and name not in _KEPT]
    for name in (*private, *(name for name in list(module) if name[:1] != "_")):
        module[name] = None


def _flush_output() -> bool:
    done = True
    for stream in {id(each): each for each in (sys.stdout, sys.__stdout__)}.values():
        try:
            if stream is not None and not stream.closed:
                stream.flush()
        except BaseException as error:
            done = False
            _say(f"Exception ignored in: {stream!r}\n{type(error).__name__}: {error}\n")
    try:
        sys.stderr.flush()
    except BaseException:
        return done
    return done


def _say(text: str) -> None:
    try:
        sys.stderr.write(text)
    except BaseException:
        return


def _flush_files() -> None:
    """Write out files that nobody closed; only what the call has made is looked at."""
    for thing in gc.get_objects():
        if isinstance(thing, (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)):
            try:
                thing.flush()
            except BaseException:  # noqa: S112 - closed, or a pipe that is gone
                continue
