"""A descriptor that becomes readable when a child of this process has ended."""

from __future__ import annotations

import os

from skillpouch.execution.zygote import signals


def child_alarm() -> int:
    """Return the descriptor; each process needs its own, so call it again after a fork.

    A pipe that the interpreter's handler writes to, not a signalfd(2): that would need SIGCHLD
    blocked, and a blocked signal stays blocked in every program that is started, signal(7).
    """
    read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signals.wake_on(signals.CHILD, write_end)
    return read_end


def clear(fd: int) -> None:
    try:
        os.read(fd, 4096)  # a byte per signal; if more are left, it is simply readable again
    except BlockingIOError:
        return
