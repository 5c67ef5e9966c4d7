"""The two ways a slot starts a program: spawned by a sealed parent, or forked and then sealed."""

from __future__ import annotations

import os

from skillpouch.execution.zygote import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from skillpouch.execution.zygote.seal import Seal

# The interpreter ignores these two; a program must find them as a shell leaves them.
_IGNORED_HERE = (signals.PIPE, signals.FILE_TOO_LARGE)


class Job:
    """One program to start."""

    def __init__(self, argv: list[str], env: dict[str, str], cwd: str) -> None:
        self.argv = argv
        self.env = env
        self.cwd = cwd


class SpawnSealed:
    """The slot itself is sealed, so a program costs one posix_spawn and inherits everything."""

    def start(self, job: Job, streams: list[int]) -> int:
        os.chdir(job.cwd)
        return os.posix_spawn(
            job.argv[0],
            job.argv,
            job.env,
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, place) for place, fd in enumerate(streams)],
            setsid=True,
            setsigdef=_IGNORED_HERE,
        )


class ForkThenSeal:
    """The slot stays outside the seal, where it can see and end what the program starts."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    def start(self, job: Job, streams: list[int]) -> int:
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        pid = os.fork()
        if pid == 0:
            self._become(job, streams, write_end)
        os.close(write_end)
        try:
            report = os.read(read_end, 64)
        finally:
            os.close(read_end)
        if report:
            os.waitpid(pid, 0)
            code = int(report)
            raise OSError(code, os.strerror(code))
        return pid

    def _become(self, job: Job, streams: list[int], report: int) -> None:
        """Turn into the program; the report pipe closes unwritten when that succeeds."""
        try:
            os.setsid()
            os.chdir(job.cwd)
            for place, fd in enumerate(streams):
                os.dup2(fd, place)
            for number in (*_IGNORED_HERE, signals.CHILD):
                signals.leave_to_kernel(number)
            self._seal.apply()
            os.execve(job.argv[0], job.argv, job.env)  # noqa: S606 - this is where tools start
        except OSError as error:
            os.write(report, b"%d" % (error.errno or 1))
        except BaseException as error:
            os.write(2, repr(error).encode(errors="replace"))
            os.write(report, b"1")
        finally:
            os._exit(127)
