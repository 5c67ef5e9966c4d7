"""Starts one program in a sandbox, and ends all processes that it started."""

from __future__ import annotations

import os

from skillpouch.execution.zygote import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from skillpouch.execution.zygote.seal import Seal


# The interpreter ignores these two; a program must find them as a shell leaves them.
_IGNORED_HERE = (signals.PIPE, signals.FILE_TOO_LARGE)


class SpawnRequest:
    """One program to start."""

    def __init__(self, argv: list[str], env: dict[str, str], cwd: str) -> None:
        self.argv = argv
        self.env = env
        self.cwd = cwd


class SpawnSealed:
    """The sandbox itself is sealed, so a program costs one posix_spawn and inherits everything.

    The C library makes it of a clone that shares memory until the exec: no page table is copied, as
    a fork would. The session of its own keeps a program from the terminal of the host.
    """

    def start(self, job: SpawnRequest, streams: list[int]) -> int:
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
    """The sandbox stays outside the seal, where it can see and end what the program starts."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    def start(self, job: SpawnRequest, streams: list[int]) -> int:
        # Closed by the exec when it succeeds: end of file means that the program has started.
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

    def _become(self, job: SpawnRequest, streams: list[int], report: int) -> None:
        """Turn into the program, or report the number of the error that prevents it."""
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


class NamespaceTree:
    """The whole tree is this process table; we are its process 1, whom nobody inside can end."""

    def signal(self, number: int) -> bool:
        """Signal all of it; whether there was anything."""
        try:
            # Everything in this namespace but the caller, kill(2). One call, atomic with regard to
            # fork: a process that is forking right now is interrupted, or its child gets it, too.
            os.kill(-1, number)
        except ProcessLookupError:
            return False
        return True

    def end(self) -> None:
        """Kill and reap until nothing is left."""
        while reap_ended():
            self.signal(signals.KILL)
            os.wait()


class AdoptedTree:
    """The tree below this process, where there is no process namespace.

    Orphans are handed to us, so killing until no child is left reaches all of it.
    """

    def signal(self, number: int) -> None:
        for pid in descendants(os.getpid()):
            send(pid, number)

    def end(self) -> None:
        """Kill and reap until nothing is left."""
        while reap_ended():
            # Stopped first: a stopped process cannot fork away from the kill.
            self.signal(signals.STOP)
            self.signal(signals.KILL)
            os.wait()


def reap_ended() -> bool:
    """Reap what has ended; whether children are left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            continue
    except ChildProcessError:
        return False
    return True


def send(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children(waiting.pop())
        found += below
        waiting += below
    return found


def children(pid: int) -> list[int]:
    """Return the children that a process has at this moment.

    The list may miss some while processes come and go, proc_tid_children(5): whoever must reach all
    of them asks again until none is left.
    """
    found: list[int] = []
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, task), "rb") as listing:
                found += [int(word) for word in listing.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return found
    return found
