"""A descriptor that becomes readable when a child of this process has ended."""

from __future__ import annotations

import os

from skillpouch.execution.zygote import signals


def child_alarm() -> int:
    """Return the descriptor; each process needs its own, so call it again after a fork."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signals.wake_on(signals.CHILD, write_end)
    return read_end


def clear(fd: int) -> None:
    try:
        os.read(fd, 4096)
    except BlockingIOError:
        return
