"""Which process made a call, known by id, start and boot, and whether it is still alive."""

import atexit
import os
import platform
import time
from functools import cache
from pathlib import Path
from typing import Literal, NamedTuple, Protocol
from weakref import WeakSet

# A process of another container cannot be seen. After a day its call counts as interrupted.
_ELSEWHERE_NS = 24 * 3600 * 10**9


class ProcessIdentity(NamedTuple):
    """One process, distinct from all others: process ids are reused, above all after a reboot."""

    pid: int
    began: str  # its start time as the kernel has it; empty where there is no /proc
    boot: str
    namespace: str
    machine: str


def this_process() -> ProcessIdentity:
    """Return the owner for the current process."""
    pid = os.getpid()
    began = _began(pid) or ""
    return ProcessIdentity(pid, began, *_surroundings())


def state_of(
    owner: ProcessIdentity, started_ns: int
) -> Literal["running", "interrupted", "elsewhere"]:
    """Tell the state of a call without a recorded end, by the state of its process."""
    boot, namespace, machine = _surroundings()
    if (owner.machine, owner.namespace) != (machine, namespace):
        young = time.time_ns() - started_ns < _ELSEWHERE_NS
        return "elsewhere" if young else "interrupted"
    if owner.boot != boot:
        return "interrupted"
    return "running" if _lives(owner) else "interrupted"


def _lives(owner: ProcessIdentity) -> bool:
    if owner.began:
        return _began(owner.pid) == owner.began
    try:
        os.kill(owner.pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _began(pid: int) -> str | None:
    """Return when a living process began, in clock ticks since boot."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    # The program's name is in parentheses, and may contain spaces and parentheses,
    # proc_pid_stat(5).
    fields = text[text.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else fields[19]


@cache
def _surroundings() -> tuple[str, str, str]:
    return (
        _read("/proc/sys/kernel/random/boot_id"),
        _link("/proc/self/ns/pid"),
        platform.node(),
    )


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _link(path: str) -> str:
    try:
        return str(Path(path).readlink())
    except OSError:
        return ""


class Closable(Protocol):
    """Something that must not be open while a process forks."""

    def before_fork(self) -> None: ...
    def after_fork(self, *, child: bool) -> None: ...
    def close(self) -> None: ...


_open: "WeakSet[Closable]" = WeakSet()
_paused: list[Closable] = []


def watch(thing: Closable) -> None:
    """Close `thing` before each fork and at exit, while it is in use."""
    _open.add(thing)


def _before_fork() -> None:
    _paused[:] = list(_open)
    for thing in _paused:
        thing.before_fork()


def _after_fork(*, child: bool) -> None:
    while _paused:
        _paused.pop().after_fork(child=child)


def _at_exit() -> None:
    for thing in list(_open):
        thing.close()


atexit.register(_at_exit)
os.register_at_fork(
    before=_before_fork,
    after_in_parent=lambda: _after_fork(child=False),
    after_in_child=lambda: _after_fork(child=True),
)
