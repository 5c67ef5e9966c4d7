"""Finds and removes what a call left in its sandbox, and decides whether it may serve another."""

from __future__ import annotations

import errno
import itertools
import os
import stat
import time

from skillpouch.execution.zygote import kernel, lookups, namespaces, wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    import select
    from collections.abc import Iterator

    from skillpouch.execution.zygote.lookups import NameServer


class Priorities:
    """The scheduling priorities of a sandbox, which its programs inherit.

    A sandbox with changed priorities ends: without privileges it could not restore most of them.
    """

    def __init__(self) -> None:
        self._at_start = self._now()

    def are_unchanged(self) -> bool:
        return self._now() == self._at_start

    def _now(self) -> tuple[object, ...]:
        nice, policy = os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0)
        return nice, policy, os.sched_getaffinity(0), kernel.io_priority()


# Two ticks of the slowest kernel clock, 100 Hz: file times have its resolution.
_SETTLED_NS = 20_000_000


class _OwnFolder:
    """One of these folders. Most calls do not change it, which its times show.

    The ctime changes when anything in a folder is made, renamed or removed, and with the folder's
    mode, owner, flags and attributes. No program can set it, inode(7).
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._at_start = namespaces.look_at(path)
        status = os.stat(path)
        self._times = (status.st_atime_ns, status.st_mtime_ns)
        # Its times, once they are so old that any change would give it different ones.
        self._known: tuple[int, int] | None = None

    def is_as_it_was(self) -> bool:
        started_ns = time.time_ns()
        status = os.stat(self._path)
        if self._known == (status.st_ctime_ns, status.st_atime_ns):
            return True
        if namespaces.look_at(self._path) != self._at_start:
            return False
        status = os.stat(self._path)  # again, because listing the folder has changed its atime
        if (status.st_atime_ns, status.st_mtime_ns) != self._times:
            # Files that were made and removed have changed these times, and a call can set them:
            # the next call must not find a message there.
            os.utime(self._path, ns=self._times)
            status = os.stat(self._path)
        is_settled = status.st_ctime_ns < started_ns - _SETTLED_NS
        self._known = (status.st_ctime_ns, status.st_atime_ns) if is_settled else None
        return True

    def traces(self) -> int:
        """Tell whether the call left hidden files in it, if it is its HOME."""
        is_home = self._path == namespaces.HOME
        hidden = is_home and any(name.startswith(".") for name in os.listdir(self._path))
        return wire.LEFT_HOME if hidden else 0


_LISTENS = b"0A"  # TCP_LISTEN of include/net/tcp_states.h


class OwnLoopback:
    """The loopback interface of this sandbox, to be made before its first call.

    A call that used it leaves counters, and addresses of connections that ended less than a minute
    ago, tcp(7): what the next call must not find. Any packet shows in the counters. A socket can be
    alive when all processes of its call are dead: in a message that nobody received, unix(7).
    """

    def __init__(self, ports: tuple[int, ...], names: NameServer | None) -> None:
        flags = os.O_RDONLY | os.O_CLOEXEC
        self._ports = ports  # on which the host listens, and then uses the loopback for every call
        self.name_server = names
        self._counters = os.open("/proc/self/net/dev", flags)
        self._sockets = os.open("/proc/self/net/sockstat", flags)
        self._at_start = self._now()

    def is_as_it_was(self) -> bool:
        return bool(self._ports) or self._now() == self._at_start

    def traces(self) -> int:
        """Tell whether connections failed and none was accepted.

        Who waits for a server of its own finds nobody at first, and somebody then.
        """
        if self.name_server is not None and self.name_server.is_closed:
            return 0  # it may be what was not found
        failed, accepted = self._connections()
        return wire.FOUND_NOBODY if failed and not accepted else 0

    def has_server(self) -> bool:
        """Tell whether a program of the call listens now, by the tables of proc_net(5)."""
        for name in ("tcp", "tcp6"):
            with open("/proc/self/net/" + name, "rb") as file:
                found = [line.split() for line in file]
            ports = [int(words[1][-4:], 16) for words in found if words[3] == _LISTENS]
            if any(port not in (*self._ports, lookups.PORT) for port in ports):
                return True
        return False

    def has_idle_server(self) -> bool:
        """Tell whether a program listens, and nothing has connected: it waits for others."""
        return self.has_server() and not self._connections()[1]

    def _connections(self) -> tuple[int, int]:
        """Return how many connections failed, and were accepted, by the counters of TCP."""
        with open("/proc/self/net/snmp", "rb") as file:
            lines = [line.split() for line in file if line.startswith(b"Tcp:")]
        figures = dict(zip(*lines, strict=True))
        looked_up = 0 if self.name_server is None else self.name_server.asked
        return int(figures[b"AttemptFails"]), int(figures[b"PassiveOpens"]) - looked_up

    def _now(self) -> tuple[bytes, bytes]:
        # The first line counts the sockets of this network, the others partly all of the machine.
        sockets = os.pread(self._sockets, 4096, 0).partition(b"\n")[0]
        return os.pread(self._counters, 4096, 0), sockets


class OwnFolders:
    """Folders mounted for this sandbox alone, and its loopback interface.

    If a call left anything there, the sandbox ends, and its folders with it. So nothing is deleted
    by walking a tree that may contain a workspace.
    """

    def __init__(self, granted: list[str], loopback: OwnLoopback | None) -> None:
        folders = [path for path in namespaces.TEMPORARY if path not in granted]
        self._parts: list[_OwnFolder | OwnLoopback] = [_OwnFolder(path) for path in folders]
        self._loopback = loopback
        if loopback is not None:
            self._parts.append(loopback)

    def clean(self) -> bool:
        try:
            return all(part.is_as_it_was() for part in self._parts)
        except OSError:
            return False  # the call may have made it unreadable

    def watch(self, poll: select.poll) -> None:
        """Have lookups of names be told of."""
        if self._loopback is not None and self._loopback.name_server is not None:
            self._loopback.name_server.watch(poll)

    def take_lookup(self, poll: select.poll, fd: int) -> bool:
        """Handle an event of a lookup, if it is one."""
        server = self._loopback.name_server if self._loopback is not None else None
        return server is not None and server.take(poll, fd)

    def names(self) -> list[bytes]:
        """Return the hosts that the call looked up."""
        server = self._loopback.name_server if self._loopback is not None else None
        return [] if server is None else server.names()

    def asked(self) -> int:
        """Tell whether the call looked up a name."""
        server = self._loopback.name_server if self._loopback is not None else None
        return wire.TRIED_NETWORK if server is not None and server.was_asked else 0

    def running(self, main: int) -> int:
        """Tell what of a call runs on after its program, `main`, has ended."""
        try:
            if self._loopback is not None and self._loopback.has_server():
                return wire.LEFT_SERVER
            return wire.LEFT_PROCESSES if _has_detached(main) else 0
        except (OSError, ValueError, LookupError):
            return 0  # it cannot be known here

    def serving(self) -> int:
        """Tell whether a call that is about to be ended is a server that waits for others."""
        try:
            is_idle = self._loopback is not None and self._loopback.has_idle_server()
        except (OSError, ValueError, LookupError):
            return 0  # it cannot be known here
        return wire.LEFT_SERVER if is_idle else 0

    def traces(self) -> int:
        """Return what a call left that its caller should know of, if it left anything."""
        found = 0
        for part in self._parts:
            try:
                found |= 0 if part.is_as_it_was() else part.traces()
            except (OSError, ValueError, LookupError):
                continue  # it made it unreadable
        return found

    def remove(self) -> None:
        """Nothing to do: the mounts go with the last process of their namespace."""


_HANG_UP = 1  # the bit of SIGHUP in a set of signals, proc_pid_status(5)


def _has_detached(main: int) -> bool:
    """Tell whether a process was made to outlive its parent: by a session of its own, or nohup(1).

    Others end with a pipe or with their parent, often a moment after it. `main` is the session of
    the call, 0 if that is not known: then only leaders of sessions are found.
    """
    for name in os.listdir("/proc"):
        status = _status_of(name) if name.isdigit() and name != "1" else {}
        if not status or status[b"State"][:1] in (b"Z", b"X"):
            continue
        session = int(status[b"NSsid"].split()[0])
        is_leader = session == int(name) and session != main
        if is_leader or (main and session != main) or _hang_up_is_ignored(status):
            return True
    return False


def _hang_up_is_ignored(status: dict[bytes, bytes]) -> bool:
    return bool(int(status[b"SigIgn"], 16) & _HANG_UP)


def _status_of(process: str) -> dict[bytes, bytes]:
    try:
        with open("/proc/" + process + "/status", "rb") as file:
            pairs = (line.partition(b":") for line in file)
            return {name: value.strip() for name, _, value in pairs}
    except OSError:
        return {}  # it has just ended


class SharedFolder:
    """A folder of this sandbox's own in the machine's temporary folder, emptied after each call."""

    def __init__(self, path: str) -> None:
        self._path = path
        os.mkdir(path, 0o700)

    def clean(self) -> bool:
        try:
            _empty_folder(self._path)
            os.utime(self._path, (0, 0))
            return not os.listxattr(self._path)
        except OSError:
            return False

    def traces(self) -> int:
        """Nothing is known: it was emptied."""
        return 0

    def watch(self, _poll: select.poll) -> None:
        """Nothing to do: it has no network."""

    def take_lookup(self, _poll: select.poll, _fd: int) -> bool:
        return False

    def names(self) -> list[bytes]:
        return []

    def asked(self) -> int:
        return 0

    def running(self, _main: int) -> int:
        """Nothing is known: servers of the machine are in the same network."""
        return 0

    def serving(self) -> int:
        return 0

    def remove(self) -> None:
        remove_folder(self._path)


def remove_folder(path: str) -> None:
    """Remove a sandbox's folder, as far as that is possible."""
    try:
        _empty_folder(path)
        os.rmdir(path)
    except OSError:
        return


def _empty_folder(path: str) -> None:
    """Delete everything in a folder, never through a symbolic link, whatever its depth.

    Like skillpouch.runtime.removal, which cannot be imported here: folders inside folders are first
    moved to the top. No process of the call is alive, so no name can change meanwhile.
    """
    top = _open_folder(path, None)
    numbers = itertools.count()
    try:
        while names := os.listdir(top):
            for name in names:
                _remove(name, top, numbers)
    finally:
        os.close(top)


def _remove(name: str, top: int, numbers: Iterator[int]) -> None:
    if not _is_folder(name, top):
        os.unlink(name, dir_fd=top)
        return
    folder = _open_folder(name, top)
    try:
        for inner in os.listdir(folder):
            if _is_folder(inner, folder):
                # Moving a folder needs the right to write to it, rename(2).
                os.chmod(inner, 0o700, dir_fd=folder)
                _move_up(inner, folder, top, numbers)
            else:
                os.unlink(inner, dir_fd=folder)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=top)


def _move_up(name: str, folder: int, top: int, numbers: Iterator[int]) -> None:
    """Move a folder to the top, under a name that the call has not used."""
    for number in numbers:
        try:
            moved = ".removed-%d-%d" % (os.getpid(), number)
            os.rename(name, moved, src_dir_fd=folder, dst_dir_fd=top)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                raise
        else:
            return


def _open_folder(name: str, above: int | None) -> int:
    os.chmod(name, 0o700, dir_fd=above)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    return os.open(name, flags, dir_fd=above)


def _is_folder(name: str, above: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)
