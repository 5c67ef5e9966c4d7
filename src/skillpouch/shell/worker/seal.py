"""Closes the doors behind a worker: an engine that is broken into holds nothing and reaches nobody.

A shell of bashkit touches no file and no network of the host. This is for the day it does.
"""

from __future__ import annotations

import os
import sys


def seal(engine: str) -> dict[str, str]:
    """Give up what a worker does not need, as far as this system can; return what holds it."""
    held: dict[str, str] = {}
    if sys.platform != "linux" or os.uname().machine not in ("x86_64", "aarch64"):
        return held
    from skillpouch.execution.zygote import kernel, landlock, seccomp

    kernel.forbid_new_privileges()
    kernel.hide_from_peers()
    abi = landlock.version()
    if abi:
        # Only what Python may still want to import; to run a program is allowed nowhere.
        readable = [*(path for path in sys.path if os.path.isdir(path)), engine]
        landlock.restrict(landlock.ruleset(abi, [(path, "read") for path in readable], "none"))
        held["fs"] = "landlock"
    machine = os.uname().machine
    table = seccomp.arms("none", (os.getppid(),), shared_pids=True)
    try:
        seccomp.install(machine, seccomp.assemble(machine, table))
    except OSError:
        return held
    return held | {"net": "seccomp"}
