"""Seal: limits, privileges, Landlock and seccomp; prepared once, applied irrevocably."""

from __future__ import annotations

import os
import resource

from skillpouch.execution.zygote import kernel, landlock, seccomp

TYPE_CHECKING = False
if TYPE_CHECKING:
    from skillpouch.execution.zygote.wire import Fields

# getrlimit(2). RLIMIT_DATA instead of RLIMIT_AS: since Linux 4.7 it counts private writable
# mappings, which programs really use, and not the address space that Node or Go only reserve.
_RLIMITS = (
    ("memory_bytes", resource.RLIMIT_DATA),
    ("open_files", resource.RLIMIT_NOFILE),
    ("file_bytes", resource.RLIMIT_FSIZE),
    ("cpu_seconds", resource.RLIMIT_CPU),
    ("user_processes", resource.RLIMIT_NPROC),
)
# RLIMIT_DATA does not count shared mappings; each may have an eighth of the limit, which is enough
# for locks and counters between processes.
_SHARED_PART = 8


class Seal:
    """The restrictions of a tool and of everything that it starts."""

    def __init__(
        self,
        config: Fields,
        limits: Fields,
        guarded: tuple[int, ...] | None,
        temporary: list[str],
    ) -> None:
        self._limits = limits
        self._privileges = config["confined"]
        told = (seccomp.REPORTS, seccomp.MOVES)
        opened = (*config["profiles"], *(kind for kind in told if config[kind]))
        self._listens = not {seccomp.LOCAL, *told}.isdisjoint(opened)
        self._machine = os.uname().machine
        self._ruleset = -1
        if config["landlock"]:
            rules = [(path, right) for path, right in config["opened"]]
            rules += [(path, right) for path, right in config["named"]]
            rules += [(path, right) for path, right in config["only_landlock"]]
            rules += [(path, "write") for path in temporary]
            network = "loopback" if "loopback" in config["profiles"] else config["network"]
            self._ruleset = landlock.ruleset(config["landlock"], rules, network)
        self._program = b""
        if config["seccomp"]:
            shared_pids = not config["namespaces"]
            memory = limits["memory_bytes"]
            table = seccomp.arms(
                config["network"],
                guarded,
                shared_pids,
                shared_user=not config["user"],
                most_shared=None if memory is None else memory // _SHARED_PART,
                opened=opened,
            )
            self._program = seccomp.assemble(self._machine, table)

    def apply(self) -> int:
        """Apply all of it to this process; what it starts inherits it.

        Return the descriptor by which handed over system calls are answered, otherwise -1.
        no_new_privs comes before Landlock and seccomp, which require it without privileges
        (landlock_restrict_self(2), seccomp(2)). The filter comes last, so that it need not allow
        the system calls of the other steps.
        """
        # A core file would write the memory of a call, with its secrets, into the workspace.
        _limit(resource.RLIMIT_CORE, 0)
        for name, which in _RLIMITS:
            if self._limits.get(name) is not None:
                _limit(which, self._limits[name])
        if not self._privileges:
            return -1
        kernel.forbid_new_privileges()
        if self._ruleset >= 0:
            landlock.restrict(self._ruleset)
            os.close(self._ruleset)
        kernel.drop_capabilities()
        if not self._program:
            return -1
        found = seccomp.install(self._machine, self._program, listens=self._listens)
        return found if self._listens else -1


def _limit(which: int, value: int) -> None:
    hard = resource.getrlimit(which)[1]
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    # The hard limit, too, so that no process inside can raise it.
    resource.setrlimit(which, (value, value))
