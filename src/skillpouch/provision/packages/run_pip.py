"""Runs pip in a process that can start no other program.

`--only-binary` does not apply to a package that a wheel requires by address: pip would build it,
running its code in another process. Installing wheels needs no other process.
"""

import os
import runpy
import sys

_STARTING = (
    *("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.spawn"),
    *("os.system", "pty.spawn"),
)


def _refuse(event: str, _details: object) -> None:
    # An OSError, because pip handles that when it cannot run a program to ask about this machine.
    if event in _STARTING:
        raise PermissionError(1, "only wheels are installed: nothing is built")


def _run(folder: str, words: list[str]) -> None:
    sys.argv = [folder, *words]
    sys.addaudithook(_refuse)
    if folder:
        runpy.run_path(os.path.join(folder, "__pip-runner__.py"), run_name="__main__")
    else:
        runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    _run(sys.argv[1], sys.argv[2:])
