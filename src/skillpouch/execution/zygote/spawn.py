"""Starts one program in a sandbox, and ends all processes that it started."""

from __future__ import annotations

import os

from skillpouch.execution.zygote import signals

TYPE_CHECKING = False
if TYPE_CHECKING:
    from skillpouch.execution.zygote.seal import Seal


# The interpreter ignores these two; a program expects their default action, as from a shell.
_IGNORED_HERE = (signals.PIPE, signals.FILE_TOO_LARGE)


class SpawnRequest:
    """One program to start."""

    def __init__(self, argv: list[str], env: dict[str, str], cwd: str) -> None:
        self.argv = argv
        self.env = env
        self.cwd = cwd


class SpawnSealed:
    """Starts programs by posix_spawn from a sealed sandbox, whose restrictions they inherit.

    posix_spawn(3) shares memory until the exec, so that no page tables are copied, as by a fork. A
    new session keeps a program away from the terminal of the host.
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
    """Seals only the program: the sandbox stays outside, where it can see and end processes."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    def start(self, job: SpawnRequest, streams: list[int]) -> int:
        # O_CLOEXEC closes it when the exec succeeds: end of file means that the program has
        # started.
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
        """Execute the program, or report the number of the error that prevents it."""
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
    """All processes of this PID namespace; we are its process 1, which none of them can kill."""

    def signal(self, number: int) -> bool:
        """Signal all of them; return whether there were any."""
        try:
            # -1: everything in this namespace except the caller, kill(2). One call is atomic with
            # regard to fork: a process that is forking is interrupted, or its child gets the
            # signal, too.
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
    """The processes below this one, where there is no PID namespace.

    Orphans become our children, so killing until no child is left reaches all of them.
    """

    def signal(self, number: int) -> None:
        for pid in descendants(os.getpid()):
            send(pid, number)

    def end(self) -> None:
        """Kill and reap until nothing is left."""
        while reap_ended():
            # Stopped first: a stopped process cannot fork before it is killed.
            self.signal(signals.STOP)
            self.signal(signals.KILL)
            os.wait()


def reap_ended() -> bool:
    """Reap ended processes; return whether children are left."""
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
    """Return the current children of a process.

    The list may miss some while processes start and end, proc_tid_children(5): a caller that must
    reach all of them repeats until none is left.
    """
    found: list[int] = []
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, task), "rb") as listing:
                found += [int(word) for word in listing.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return found
    return found
