"""Runs pip in a process that can start no other program.

`--only-binary` does not hold for a package that a wheel asks for by address: pip would build it,
with code of that package, in a process of its own. Installing wheels needs no process at all.
"""

import os
import runpy
import sys

_STARTING = (
    *("subprocess.Popen", "os.posix_spawn", "os.fork", "os.forkpty", "os.exec", "os.spawn"),
    *("os.system", "pty.spawn"),
)


def _refuse(event: str, _details: object) -> None:
    # An OSError, because that is what pip expects when it asks a program about this machine.
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
