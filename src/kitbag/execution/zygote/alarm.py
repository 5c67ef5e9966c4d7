"""A descriptor that becomes readable when a child of this process has ended."""

from __future__ import annotations

import os
import signal


def child_alarm() -> int:
    """Return the descriptor; each process needs its own, so call it again after a fork."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.signal(signal.SIGCHLD, _wake)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    return read_end


def _wake(_number: int, _frame: object) -> None:
    """Exist: without a handler the interpreter would not write to the descriptor."""


def clear(fd: int) -> None:
    try:
        os.read(fd, 4096)
    except BlockingIOError:
        return
