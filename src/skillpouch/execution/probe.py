"""Finds out what this machine can protect, once per process."""

import os
import socket
import threading
from contextlib import nullcontext

from skillpouch.execution.cgroups import find_parent, trial
from skillpouch.execution.machine import Machine, read_report
from skillpouch.execution.zygote import wire
from skillpouch.execution.zygotes import start_program

_PATIENCE_SECONDS = 20.0
_lock = threading.Lock()
_known: dict[int, Machine] = {}  # by process: a fork may have gone somewhere else since


def probe() -> Machine:
    """Return what was seen to deny, in throw-away processes; other systems than Linux: nothing."""
    with _lock:
        machine = _known.get(os.getpid())
        if machine is None:
            machine = _known[os.getpid()] = _try()
        return machine


def _try() -> Machine:
    if not hasattr(os, "pidfd_open") or not hasattr(socket, "SOCK_SEQPACKET"):
        return Machine(reasons=(("system", "confinement is known on Linux only"),))
    parent = find_parent()
    with trial(parent) if parent else nullcontext(()) as given:
        report = _report(given)
    return read_report(report, root=os.geteuid() == 0, cgroup=parent)


def _report(given: tuple[int, ...]) -> str:
    """Have each layer tried; `given` leads into a cgroup, where there is one to try."""
    pid, control = start_program("probe")
    control.settimeout(_PATIENCE_SECONDS)
    try:
        wire.send(control, wire.CONFIGURE, given)
        return control.recv(4096).decode(errors="replace")
    except OSError as error:
        return f"trials 0 {error}"
    finally:
        control.close()
        os.waitpid(pid, 0)
