"""The first file of a prefork server: loads what a script imports, then forks a child per call.

It is confined like the calls themselves, and not trusted either. The frame of this file is the only
one below those of the script. Its name is a trick: `warnings` skips frames of files whose names
contain "importlib" and "_bootstrap", so a warning points to the same line as in a fresh
interpreter.
"""

from __future__ import annotations

import sys

_FRESH = frozenset(sys.modules)  # the modules that every Python has loaded at this point

import gc  # noqa: E402
from _socket import socket  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from skillpouch.execution.preforked.program import MainProgram

_PACKAGES = (
    "skillpouch",
    "skillpouch.execution",
    "skillpouch.execution.preforked",
    "skillpouch.execution.zygote",
)


def main() -> MainProgram | None:
    """Serve; return the program to run in a child, None in the server at its end."""
    _import_only_these_folders()
    from skillpouch.execution.preforked.protocol import CONTROL, JOBS
    from skillpouch.execution.preforked.server import PreforkServer
    from skillpouch.execution.zygote import wire

    control, jobs = socket(fileno=CONTROL), socket(fileno=JOBS)
    message = wire.receive(jobs)
    if message is None:
        return None
    prefork = PreforkServer(control, jobs, message.value(), _FRESH)
    _forget_own_modules()
    return prefork.serve()


def _import_only_these_folders() -> None:
    here = __file__.rpartition("/")[0]
    around = here.rpartition("/")[0]
    for name, folder in zip(_PACKAGES, ("", "", here, around + "/zygote")):
        package = type(sys)(name)
        package.__path__ = [folder] if folder else []
        sys.modules[name] = package
    if sys.path[:1] == [here]:
        del sys.path[0]  # each call puts the folder of its script there


def _forget_own_modules() -> None:
    """Remove our modules from `sys.modules`: a script may want to import the real skillpouch."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "skillpouch"]:
        del sys.modules[name]


if __name__ == "__main__":
    program = main()
    if program is not None:
        try:
            exec(program.code(), program.module)
        except BaseException as error:
            program.error = error
        program.end()
        gc.collect()
        program.let_go()
        gc.collect()
        program.leave()
