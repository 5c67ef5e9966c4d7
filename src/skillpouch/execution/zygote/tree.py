"""Everything a call has started, and how to end it: by process namespace or as its adopter."""

from __future__ import annotations

import os

from skillpouch.execution.zygote import signals


class NamespaceTree:
    """The whole tree is this process table; we are its process 1, whom nobody inside can end."""

    def signal(self, number: int) -> bool:
        """Signal all of it; whether there was anything."""
        try:
            # One call, atomic with regard to fork: the kernel keeps a copy of it for a process
            # that is forking right now.
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
    found: list[int] = []
    try:
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, task), "rb") as listing:
                found += [int(word) for word in listing.read().split()]
    except (FileNotFoundError, ProcessLookupError):
        return found
    return found
