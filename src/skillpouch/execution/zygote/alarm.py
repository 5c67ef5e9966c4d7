"""A descriptor that becomes readable when a child of this process has ended."""

from __future__ import annotations

import os

from skillpouch.execution.zygote import signals


def child_alarm() -> int:
    """Return the descriptor; each process needs its own: call this again after a fork.

    It is a pipe that the interpreter's signal handler writes to. A signalfd(2) would need SIGCHLD
    to be blocked, and a blocked signal stays blocked in every program that is started, signal(7).
    """
    read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signals.wake_on(signals.CHILD, write_end)
    return read_end


def clear(fd: int) -> None:
    try:
        os.read(fd, 4096)  # one byte per signal; if some are left, the descriptor is readable again
    except BlockingIOError:
        return
