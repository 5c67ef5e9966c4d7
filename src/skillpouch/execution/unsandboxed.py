"""Runs programs without a zygote, with process groups and limits only, if no more is possible."""

import asyncio
import contextlib
import errno
import os
import resource
import signal
import subprocess
from collections.abc import Callable, Mapping
from pathlib import Path

from skillpouch.execution.command import Command, LimitFields, SandboxKey
from skillpouch.execution.replies import Finished, NotStarted, Reply
from skillpouch.execution.streams import Streams
from skillpouch.execution.zygote_client import this_python
from skillpouch.runtime.loop_thread import UncancellableFuture

_LAUNCHER = str(Path(__file__).with_name("exec_with_limits.py"))
_RLIMITS = {
    "memory_bytes": resource.RLIMIT_DATA,
    "open_files": resource.RLIMIT_NOFILE,
    "file_bytes": resource.RLIMIT_FSIZE,
    "cpu_seconds": resource.RLIMIT_CPU,
}


class UnsandboxedProcess:
    """Runs one program in a process group of its own, and kills that group at the end.

    A child that leaves the group outlives the call; the protections say `process_group`.
    """

    failure = ""
    is_warm = False
    listener = None
    cgroup = None
    layer = None

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limits: LimitFields,
        give_back: Callable[[], None],
    ) -> None:
        self._loop = loop
        self._limits = limits
        self._give_back = give_back
        self._group = 0

    def open(self, command: Command) -> Streams:
        return Streams(feeds=command.feeds, answers=command.answers)

    def start(self, command: Command, streams: Streams) -> UncancellableFuture[Reply]:
        answer: UncancellableFuture[Reply] = UncancellableFuture(self._loop)
        env = dict(command.env)
        theirs = streams.theirs if streams.feeds else (subprocess.DEVNULL, *streams.theirs)
        stdin, stdout, stderr, *extra = theirs  # the descriptor of the answer keeps its number
        if extra:
            env["SKILLPOUCH_ANSWER"] = str(extra[0])
        try:
            process = subprocess.Popen(
                self._bounded(command.argv, env),
                env=env,
                cwd=command.cwd,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,
                pass_fds=extra,
            )
        except OSError as error:
            answer.set_result(NotStarted(call=1, errno=error.errno or 1))
            return answer
        self._group = process.pid
        waiting = self._loop.run_in_executor(None, self._wait, process)
        waiting.add_done_callback(lambda done: answer.set_result(done.result()))
        return answer

    def _bounded(self, program: tuple[str, ...], env: Mapping[str, str]) -> list[str]:
        """Return a command that limits itself and executes the program; OSError if it cannot."""
        if not os.access(program[0], os.X_OK):
            raise OSError(errno.EACCES if Path(program[0]).exists() else errno.ENOENT, program[0])
        limits = [
            f"{_RLIMITS[name]}={value}"
            for name, value in self._limits
            if name in _RLIMITS and value is not None
        ]
        # The names of the variables are passed, because the Python in between may add its own
        # (LC_CTYPE, PEP 538).
        return [this_python(), "-I", "-S", _LAUNCHER, "=".join(env), ",".join(limits), *program]

    def _wait(self, process: "subprocess.Popen[bytes]") -> Reply:
        if hasattr(os, "waitid"):
            # WNOWAIT: until the program is reaped, its process id cannot be reused, so the group is
            # its own.
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
            self.kill()
        status = process.wait()
        if not hasattr(os, "waitid"):
            self.kill()
        return Finished(
            call=1,
            status=status,
            user_seconds=0.0,
            system_seconds=0.0,
            peak_memory_bytes=0,
            reusable=False,
        )

    def give_back(self, *, reusable: bool) -> None:
        del reusable  # nothing is kept between calls
        self._give_back()

    def terminate(self) -> None:
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        self._signal(signal.SIGKILL)

    def drop(self) -> None:
        """Kill the group: there is no sandbox to be dropped."""
        self.kill()

    def _signal(self, number: int) -> None:
        if self._group:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._group, number)


class PlainZygote:
    """Takes the place of a zygote, without a process."""

    alive = True

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._running = 0
        self.ended: asyncio.Future[None] = loop.create_future()
        self.used_at = loop.time()

    @property
    def busy(self) -> bool:
        return self._running > 0

    def take_idle(self, key: SandboxKey) -> UnsandboxedProcess:
        """Return a new process at once, without waiting."""
        self._running += 1
        return UnsandboxedProcess(self._loop, key.limits, self._take_back)

    async def take(self, key: SandboxKey) -> UnsandboxedProcess:
        return self.take_idle(key)

    def _take_back(self) -> None:
        self._running -= 1
        self.used_at = self._loop.time()

    def end_idle_sandboxes(self, before: float) -> None:
        """Nothing to do: nothing is kept between calls."""

    def close(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    def abandon(self) -> None:
        """Nothing to do: nothing is open between calls."""

    def reap(self) -> None:
        """Nothing to do: there is no process."""
