"""Signals by the C module `_signal`, because `import signal` would load enum and functools."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]

CHILD: int = _signal.SIGCHLD
CONTINUE: int = _signal.SIGCONT
INTERRUPT: int = _signal.SIGINT
KILL: int = _signal.SIGKILL
PIPE: int = _signal.SIGPIPE
STOP: int = _signal.SIGSTOP
TERMINATE: int = _signal.SIGTERM
FILE_TOO_LARGE: int = _signal.SIGXFSZ


def leave_to_kernel(number: int) -> None:
    _signal.signal(number, _signal.SIG_DFL)


def wake_on(number: int, fd: int) -> None:
    """Write a byte to `fd` whenever the signal arrives."""
    _signal.signal(number, _nothing)
    _signal.set_wakeup_fd(fd, warn_on_full_buffer=False)


def _nothing(_number: int, _frame: object) -> None:
    """Do nothing: the interpreter writes to the descriptor only if there is a handler."""


def wait_for_ever() -> None:
    while True:
        _signal.pause()
