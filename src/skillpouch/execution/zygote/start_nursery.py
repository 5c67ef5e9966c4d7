"""A forked child of the zygote becomes a nursery: sealed, then an interpreter of the skill's."""

from __future__ import annotations

import fcntl  # here: where nurseries are made, this interpreter may be out of sight
import os

from skillpouch.execution.zygote import kernel, own_view, signals, wire
from skillpouch.execution.zygote.seal import Seal

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

    from skillpouch.execution.zygote.fields import Fields

# The program finds its jobs, its slot and what it prints at 3, 4 and 5; all else is closed.
_ROOM = 32  # descriptors are moved here first, out of the way of their final places


def start_nursery(
    nest: _socket.socket, jobs: int, table: int, config: Fields, limits: Fields
) -> None:
    """Turn into the nursery program; what it forks is born into the process table `table`."""
    kernel.die_with_parent()
    os.setsid()
    _enter_view(nest)
    kernel.setns(table, kernel.NEWPID)
    nursery: Fields = limits["nursery"]
    os.chdir(nursery["cwd"])
    _arrange((jobs, nest.fileno()))
    # Slots have numbers here, and its user: what changes another process is refused altogether.
    seal = Seal(config, limits, None, list(own_view.TEMPORARY))
    for number in (signals.PIPE, signals.FILE_TOO_LARGE, signals.CHILD):
        signals.leave_to_kernel(number)
    seal.apply()
    os.execve(nursery["argv"][0], nursery["argv"], nursery["env"])  # noqa: S606


def _enter_view(nest: _socket.socket) -> None:
    """Join the mounts and the network of the slot, which sends them when they are made."""
    message = wire.receive(nest)
    if message is None:
        os._exit(1)
    for fd, kind in zip(message.fds, (kernel.NEWNS, kernel.NEWNET)):
        kernel.setns(fd, kind)
        os.close(fd)


def _arrange(given: tuple[int, int]) -> None:
    """Put descriptors where the program expects them, its standard streams on pipes.

    Pipes, because an interpreter looks at its streams once: those of a call are pipes too.
    """
    idle_read, idle_write = os.pipe()
    printed, output = os.pipe()
    os.close(idle_write)
    os.set_blocking(printed, False)
    wanted = (idle_read, output, output, *given, printed)
    moved = [_move_up(fd) for fd in wanted]
    for place, fd in enumerate(moved):
        os.dup2(fd, place)


def _move_up(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ROOM)
