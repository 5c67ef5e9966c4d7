"""Runs pip in a process that can start no other program.

`--only-binary` does not apply to a package that a wheel requires by address: pip would build it,
running its code in another process. Installing wheels needs no other process.

With `source:FOLDER` before its words, pip only fetches the source of a package: when it is about to
start the first process of a build, the source is moved to that folder, and pip ends.
"""

import os
import runpy
import sys
from glob import glob
from tempfile import gettempdir

_STARTING = (
    *("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.spawn"),
    *("os.system", "pty.spawn"),
)
_SOURCE = "source:"
_MARKS = ("pyproject.toml", "setup.py")


def _refuse(event: str, _details: object) -> None:
    # An OSError, because pip handles that when it cannot run a program to ask about this machine.
    if event in _STARTING:
        raise PermissionError(1, "only wheels are installed: nothing is built")


def _end_with_source(target: str) -> None:
    """Move the unpacked source, and end: what pip does next would run code of it."""
    # pip unpacks below a folder of its own in TMPDIR. Before, it asks other programs about this
    # machine; then there is no source yet.
    for mark in _MARKS:
        for found in glob(os.path.join(gettempdir(), "pip-*", "*", mark)):
            os.rename(os.path.dirname(found), target)
            os._exit(0)


def _run(folder: str, words: list[str]) -> None:
    target = ""
    if words[0].startswith(_SOURCE):
        target = words.pop(0).removeprefix(_SOURCE)
    sys.argv = [folder, *words]

    def watch(event: str, details: object) -> None:
        if target and event in _STARTING:
            _end_with_source(target)
        _refuse(event, details)

    sys.addaudithook(watch)
    if folder:
        runpy.run_path(os.path.join(folder, "__pip-runner__.py"), run_name="__main__")
    else:
        runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run(sys.argv[1], sys.argv[2:])
