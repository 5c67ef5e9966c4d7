"""Enters namespaces, builds the root folder of a sandbox, and makes its private network."""

from __future__ import annotations

import _socket
import errno
import fcntl
import os
import stat
import struct

from skillpouch.execution.zygote import kernel, wire
from skillpouch.execution.zygote.kernel import ATTR_NODEV, ATTR_NOEXEC, ATTR_NOSUID, ATTR_RDONLY

_PLAIN = kernel.MS_NOSUID | kernel.MS_NODEV
# What shows secrets of the machine, or acts on it, and is open to user 0 even without capabilities.
# Container runtimes mask much the same files.
_MASKED = ("acpi", "kcore", "keys", "kmsg", "sched_debug", "sysrq-trigger", "timer_list")
# RESERVED_PIDS of the kernel: after a wrap it gives out no smaller process id, and pid_max must be
# larger. So from here on, a maximum of 300 + N leaves N numbers, and N processes.
_RESERVED_PIDS = 300
TEMPORARY = ("/tmp", "/dev/shm")  # noqa: S108 - mount points, not files
_EVERYBODYS = 0o1777  # as on any machine: everybody writes, only an owner removes
_PAGE = 4096


def mount_processes(limit: int | None) -> None:
    """Mount /proc for this process table, in which a tool sees only what it may trace: its own.

    `hidepid=ptraceable` is there since Linux 5.8, a `pid_max` of each namespace since 6.14. The
    trial finds out whether both hold; `limit` is None where the second does not.
    """
    quiet = _PLAIN | kernel.MS_NOEXEC
    kernel.mount("proc", "/proc", "proc", quiet, "hidepid=ptraceable")
    if limit is not None:
        _write("/proc/sys/kernel/ns_last_pid", str(_RESERVED_PIDS - 1))
        _write("/proc/sys/kernel/pid_max", str(_RESERVED_PIDS + limit))
    for name in _MASKED:
        _mask("/proc/" + name)
    # Last, for the two numbers above are files of it.
    kernel.set_attributes_at("/proc", kernel.ATTR_RDONLY)


def hide_processes() -> None:
    """Cover /proc where a machine lets nobody mount a new one."""
    kernel.mount("tmpfs", "/proc", "tmpfs", _PLAIN | kernel.MS_RDONLY, "size=4k,mode=555")


def _mask(path: str) -> None:
    try:
        folder = stat.S_ISDIR(os.stat(path).st_mode)
    except OSError:
        return
    if folder:
        kernel.mount("tmpfs", path, "tmpfs", _PLAIN | kernel.MS_RDONLY, "size=4k,mode=555")
    else:
        kernel.mount("/dev/null", path, None, kernel.MS_BIND)
        kernel.set_attributes_at(path, kernel.ATTR_RDONLY)


def mount_temporary(granted: list[str], links: dict[str, str], size: int) -> None:
    """Mount an empty folder over each temporary one, and what was granted below it back on top.

    Whatever is above that is mounted too, read-only: a call that could move it would decide what
    the next one finds at a path.
    """
    for target in TEMPORARY:
        if target in granted:
            continue
        below = [path for path in granted if path.startswith(target + "/")]
        inside = {link: links[link] for link in links if link.startswith(target + "/")}
        trees = [(path, kernel.clone_tree(path), os.path.isdir(path)) for path in below]
        # As many files as pages, tmpfs(5): each takes memory of the kernel's, however empty it is.
        options = "size=%d,nr_inodes=%d,mode=%o" % (size, size // _PAGE + 1, _EVERYBODYS)
        kernel.mount("tmpfs", target, "tmpfs", _PLAIN, options)
        holders = _mount_holders(target, [*below, *inside])
        for path, tree, folder in sorted(trees):
            make_mount_point(path, folder)
            kernel.attach_tree(tree, path)
            os.close(tree)
        for link, destination in inside.items():
            make_link(link, destination)
        for holder in holders:
            kernel.set_attributes_at(holder, kernel.ATTR_RDONLY)


def _mount_holders(target: str, paths: list[str]) -> list[str]:
    """Mount a folder for all that lies deeper than right below the target; return which."""
    holders = set()
    for path in paths:
        first, _, deeper = path[len(target) + 1 :].partition("/")
        holder = target + "/" + first
        if deeper and holder not in paths:
            holders.add(holder)
    for holder in holders:
        os.mkdir(holder)
        kernel.mount("tmpfs", holder, "tmpfs", _PLAIN, "size=1m,mode=755")
    return sorted(holders)


def make_mount_point(path: str, folder: bool) -> None:
    if folder:
        os.makedirs(path, exist_ok=True)
        return
    os.makedirs(os.path.dirname(path), exist_ok=True)
    if not os.path.exists(path):
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o444))


def make_link(path: str, target: str) -> None:
    if not os.path.lexists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.symlink(target, path)


def look_at(folder: str) -> tuple[object, ...]:
    """Return what a temporary folder is and which things are in it, right below.

    Deeper there is nothing of its own: what is mounted in it is read-only, or granted.
    """
    status = os.stat(folder)
    rights = (stat.S_IMODE(status.st_mode), status.st_uid, status.st_gid)
    itself = (*rights, os.listxattr(folder), kernel.file_flags(folder))
    found = []
    for name in sorted(os.listdir(folder)):
        each = os.lstat(folder + "/" + name)
        found.append((name, each.st_dev, each.st_ino))
    return itself, found


_ATTRIBUTES = {
    "read": ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC,
    "run": ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV,
    "write": ATTR_NOSUID | ATTR_NODEV,
    # Read-only: its mode and times are the machine's. What is written goes to the driver all the
    # same, for that is no change to the file.
    "device": ATTR_RDONLY | ATTR_NOSUID | ATTR_NOEXEC,
}
# Where the new root is put together: any folder will do, for all that is granted is open by then.
_BASE = "/dev"
_MOST_LINKS = 40  # as the kernel, path_resolution(7)
_ENTER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OUT_OF_THE_WAY = 64  # a prefork server puts its own descriptors at the lowest numbers
_STANDARD_STREAMS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
)


def leave(user: bool, network: str) -> None:
    """Move into namespaces of our own; the next child is process 1 of a new process table.

    All in one call: of several flags CLONE_NEWUSER is done first, and gives the rights that the
    others need, user_namespaces(7).
    """
    uid, gid = os.getuid(), os.getgid()
    flags = kernel.NEWNS | kernel.NEWPID | kernel.NEWIPC | kernel.NEWUTS
    flags |= kernel.NEWUSER if user else 0
    flags |= kernel.NEWNET if network != "host" else 0
    kernel.unshare(flags)
    if user:
        # Without privileges only one's own user and group can be mapped, and the group only after
        # setgroups(2) was given up for good (since Linux 3.19), user_namespaces(7).
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", "%d %d 1" % (uid, uid))
        _write("/proc/self/gid_map", "%d %d 1" % (gid, gid))
        _limit_watches()


def _limit_watches() -> None:
    """Leave most of what the user may watch to others: namespaces(7), /proc/sys/user.

    What is used here counts for the user outside, too, who has 128 instances by default.
    """
    for name, most in (("instances", 16), ("watches", 8192)):
        try:
            _write("/proc/sys/user/max_inotify_" + name, str(most))
        except OSError:
            return  # a kernel before 4.13, or a container whose settings are read-only


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


class NewRoot:
    """A root folder holding the granted paths and nothing else.

    Everything is opened first and attached last, because what is mounted in between (the new
    root, an empty /tmp) may cover a workspace or an interpreter that lives below it.
    """

    def __init__(self, links: dict[str, str]) -> None:
        self._trees: list[tuple[str, int, bool]] = []
        self.links = links  # symbolic links that lead to what is in it
        self.paths: list[str] = []  # what is in it, without what is inside another of them
        self.opened: list[tuple[int, str]] = []  # what the host has checked, and the right to it

    def open_named(self, path: str, right: str) -> None:
        """Clone the mounts at a path of the system, if it is there, through links if need be."""
        try:
            real = self._resolve(path)
            fd = os.open(real, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return
        try:
            self._clone(real, fd, right)
        except OSError:
            return
        finally:
            os.close(fd)

    def open_given(self, path: str, right: str, given: int) -> None:
        """Clone the mounts at a path that the host has opened as `given`.

        A descriptor of the host's belongs to the host's mounts, of which nobody may clone any
        from here (open_tree(2): EINVAL). So the path is walked once more, without following
        links, and must lead to the very same file or folder.
        """
        fd = _open_plain(path)
        try:
            if not os.path.sameopenfile(fd, given):
                raise replaced(path)
            tree = self._clone(path, fd, right)
        finally:
            os.close(fd)
        self.opened.append((fcntl.fcntl(tree, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY), right))

    def _clone(self, real: str, fd: int, right: str) -> int:
        folder = stat.S_ISDIR(os.fstat(fd).st_mode)
        tree = kernel.clone_tree_of(fd)
        kernel.set_attributes(tree, _ATTRIBUTES[right])
        self._trees.append((real, tree, folder))
        return tree

    def _resolve(self, path: str, followed: int = 0) -> str:
        if followed > _MOST_LINKS:
            raise OSError(errno.ELOOP, f"{path}: {os.strerror(errno.ELOOP)}")
        real = ""
        for part in path.strip("/").split("/"):
            step = real + "/" + part
            if os.path.islink(step):
                self.links[step] = os.readlink(step)
                target = os.path.normpath(os.path.join(real or "/", self.links[step]))
                step = self._resolve(target, followed + 1)
            real = step
        return real

    def enter(self, base: str) -> None:
        # The old process table stays below every sandbox's own: in a user namespace a kernel mounts
        # a new one only where one can already be seen whole (mount_too_revealing, fs/namespace.c).
        self._trees.append(("/proc", kernel.clone_tree("/proc"), True))
        kernel.mount("tmpfs", base, "tmpfs", _PLAIN, "size=1m,mode=755")
        for target in TEMPORARY:
            os.makedirs(base + target)
        root = os.open(base, _ENTER)
        for real, tree, folder in sorted(self._trees):  # a folder before what is inside it
            _attach(root, real, tree, folder)
            if not any(real.startswith(path + "/") for path in self.paths):
                self.paths.append(real)
        for link, target in self.links.items():
            _make_link(root, link, target)
        os.close(root)
        for name, target in _STANDARD_STREAMS:
            os.symlink(target, base + "/dev/" + name)
        kernel.enter_root(base)
        kernel.set_attributes_at("/", ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV)


def _open_plain(path: str) -> int:
    """Open a path without following a link anywhere in it, as the host does (untrusted_files)."""
    fd = os.open("/", _ENTER)
    *above, name = path.strip("/").split("/")
    try:
        for part in above:
            fd = _replace(fd, os.open(part, _ENTER, dir_fd=fd))
        found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    except OSError:
        raise replaced(path) from None
    finally:
        os.close(fd)
    return found  # a link itself is not what the host has opened


def _attach(root: int, path: str, tree: int, folder: bool) -> None:
    """Attach a tree at `path` below `root`, which tools may be changing at this moment."""
    *above, name = path.strip("/").split("/")
    parent = _enter_all(root, above)
    try:
        point = _enter(parent, name) if folder else _open_file(parent, name)
    except (NotADirectoryError, FileExistsError):
        raise replaced(path) from None
    finally:
        os.close(parent)
    try:
        kernel.attach_tree_on(tree, point)
    except FileNotFoundError:
        raise replaced(path) from None  # removed since it was opened
    finally:
        os.close(point)
        os.close(tree)


def _make_link(root: int, path: str, target: str) -> None:
    *above, name = path.strip("/").split("/")
    parent = _enter_all(root, above)
    try:
        os.symlink(target, name, dir_fd=parent)
    except FileExistsError:
        return
    finally:
        os.close(parent)


def _enter_all(root: int, names: list[str]) -> int:
    fd = os.dup(root)
    for name in names:
        try:
            fd = _replace(fd, _enter(fd, name))
        except OSError:
            os.close(fd)
            raise
    return fd


def _enter(folder: int, name: str) -> int:
    """Open a folder in a folder, made if it is not there; a link is not followed."""
    try:
        return os.open(name, _ENTER, dir_fd=folder)
    except FileNotFoundError:
        os.mkdir(name, dir_fd=folder)
    return os.open(name, _ENTER, dir_fd=folder)


def _open_file(folder: int, name: str) -> int:
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(name, flags, dir_fd=folder)
    except FileNotFoundError:
        new = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        os.close(os.open(name, new, 0o444, dir_fd=folder))
    return os.open(name, flags, dir_fd=folder)


def _replace(fd: int, by: int) -> int:
    os.close(fd)
    return by


def replaced(path: str) -> OSError:
    return OSError(f"{wire.REPLACED}{path}")


def enter_new_root(
    named: list[tuple[str, str]], given: list[tuple[str, str, int]], links: dict[str, str]
) -> NewRoot:
    """Enter a root of paths of the system (path, right) and of what the host has opened."""
    # Otherwise, as root, what is mounted here would appear on the machine, mount_namespaces(7), and
    # pivot_root(2) would fail.
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    root = NewRoot(links)
    for path, right in named:
        root.open_named(path, right)
    for path, right, fd in given:
        root.open_given(path, right, fd)
    root.enter(_BASE)
    return root


_SET_FLAGS = 0x8914  # SIOCSIFFLAGS, netdevice(7)
_UP = 1  # IFF_UP
_MOST_WAITING = 128  # connections that nobody has accepted yet


def enter(listener_fd: int, port: int) -> None:
    """Move into a network of our own, and send what listens there to the host.

    A socket stays in the network it was made in, whoever holds it: the host accepts from it
    itself. One network for each sandbox, so that no call ever shares a network with another.
    """
    kernel.unshare(kernel.NEWNET)
    _raise_loopback()
    listener = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
    listener.bind(("127.0.0.1", port))
    listener.listen(_MOST_WAITING)
    listener.setblocking(False)
    to_host = _socket.socket(fileno=listener_fd)
    wire.send(to_host, wire.READY, (listener.fileno(),))
    to_host.close()
    listener.close()


def _raise_loopback() -> None:
    """Switch the loopback interface on: in a new network namespace it is there, and down."""
    any_socket = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    # struct ifreq: 16 bytes of name, then a union of 24 that begins with the flags.
    kernel.control(any_socket.fileno(), _SET_FLAGS, struct.pack("16sH22x", b"lo", _UP))
    any_socket.close()
