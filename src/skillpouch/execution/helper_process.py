"""Programs of Skillpouch's own that serve this process over a socket, and end with it."""

import atexit
import contextlib
import os
import socket
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from skillpouch.execution.zygote_client import own_python

_ENDING_SECONDS = 5.0  # the kernel may need seconds to free gigabytes of memory


class HelperProcess:
    """A running program and our end of its socket; it must end when the socket is closed.

    It belongs to no event loop and no thread, and inherits nothing: no standard streams, no other
    descriptors, no environment except what is passed.
    """

    def __init__(self, program: Path, words: Sequence[str], env: Mapping[str, str]) -> None:
        self.line, theirs = socket.socketpair()
        number = theirs.fileno()
        python = own_python()
        try:
            # -S: without the packages that are installed beside Skillpouch, and their .pth files.
            self._process = subprocess.Popen(
                [python, "-I", "-S", "-X", "utf8", str(program), str(number), *words],
                env={"LC_ALL": "C.UTF-8", **env},
                cwd="/",
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(number,),
                start_new_session=True,
            )
        except OSError:
            self.line.close()
            raise
        finally:
            theirs.close()
        self.line.setblocking(False)
        _alive.add(self)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it runs; a process that has ended is reaped by this."""
        if self._process.poll() is None:
            return True
        _alive.discard(self)
        return False

    def end(self) -> int:
        """Kill it, wait until it is gone, and return its exit code, or minus a signal."""
        self.line.close()
        self._process.kill()
        # Without a timeout, with which `subprocess` would sleep between checks.
        status = self._process.wait()
        _alive.discard(self)
        return status

    def wait(self) -> int:
        """Wait until it ends by itself, and kill it if it does not."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_SECONDS)
        return self.end()

    def forget(self) -> None:
        """Close descriptors only: after a fork the program belongs to the parent."""
        self.line.close()
        self._process.returncode = 0


_alive: set[HelperProcess] = set()


def _end_all() -> None:
    for helper in list(_alive):
        helper.end()


def _forget_all() -> None:
    for helper in list(_alive):
        helper.forget()
    _alive.clear()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_forget_all)
