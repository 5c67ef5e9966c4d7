"""The first file a nursery runs: it loads what a script imports, then forks a child per call.

It is confined like the calls themselves, and trusted as little.
"""

from __future__ import annotations

import sys

_FRESH = frozenset(sys.modules)  # what every Python has loaded by now

import _socket  # noqa: E402
import gc  # noqa: E402
import os  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from kitbag.execution.nursery.child import Child

_NEST, _JOBS = 3, 4
_PACKAGES = ("kitbag", "kitbag.execution", "kitbag.execution.nursery", "kitbag.execution.zygote")


def main() -> None:
    _import_only_these_folders()
    from kitbag.execution.nursery.child import Child
    from kitbag.execution.nursery.preparation import prepare
    from kitbag.execution.zygote import wire

    nest, jobs = _socket.socket(fileno=_NEST), _socket.socket(fileno=_JOBS)
    message = wire.receive(jobs)
    if message is None:
        return
    wanted = message.value()
    environment = dict(os.environ)
    compiled, unfit = prepare(wanted, _FRESH)
    if unfit:
        nest.send(wire.UNFIT + b" %d" % unfit)
        return
    child = Child(nest, jobs, environment, compiled, wanted["skipped"])
    _forget_own_modules()
    child.rehearse()
    gc.collect()
    gc.freeze()  # what a call has made can then be told from what was there
    nest.send(wire.READY)
    _fork_for_ever(nest, child, wire.ENDED)


def _import_only_these_folders() -> None:
    here = __file__.rpartition("/")[0]
    around = here.rpartition("/")[0]
    for name, folder in zip(_PACKAGES, ("", "", here, around + "/zygote")):
        package = type(sys)(name)
        package.__path__ = [folder] if folder else []
        sys.modules[name] = package
    del sys.path[0]  # this folder; a call puts that of its script there


def _forget_own_modules() -> None:
    """Leave no name behind that a script could find: it may want the real kitbag."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "kitbag"]:
        del sys.modules[name]


def _fork_for_ever(nest: _socket.socket, child: Child, ended: bytes) -> None:
    """Keep one child waiting; tell how it ended, and wait to be told that all of it is gone."""
    while True:
        pid = os.fork()
        if pid == 0:
            child.serve()
        _, status, usage = os.wait4(pid, 0)
        times = (int(usage.ru_utime * 1000), int(usage.ru_stime * 1000))
        code = os.waitstatus_to_exitcode(status)
        nest.send(ended + b" %d %d %d %d" % (code, *times, usage.ru_maxrss))
        if not nest.recv(16):
            return


if __name__ == "__main__":
    main()
