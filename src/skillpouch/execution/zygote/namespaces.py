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
# Files in /proc that reveal secrets of the machine or control it, and that user 0 may open even
# without capabilities. Container runtimes mask almost the same files.
_MASKED = ("acpi", "kcore", "keys", "kmsg", "sched_debug", "sysrq-trigger", "timer_list")
# RESERVED_PIDS of the kernel (kernel/pid.c): after a wrap it assigns no smaller process id, and
# pid_max must be larger. So when ids start at 300, a pid_max of 300 + N allows N processes.
_RESERVED_PIDS = 300
TEMPORARY = ("/tmp", "/dev/shm")  # noqa: S108 - mount points, not files
HOME = "/tmp"  # noqa: S108 - of every call, as `base_environment` in the host says
_PTS = "/dev/pts"
# At most 64 terminals: all instances together may have 4096 (/proc/sys/kernel/pty/max).
_TERMINALS: dict[str, str | None] = {"mode": "620", "ptmxmode": "666", "max": "64"}
_EVERYBODYS = 0o1777  # as on any machine: everybody may write, only owners may remove
_PAGE = 4096  # bytes; the smallest page size of the supported architectures


def mount_processes(limit: int | None) -> None:
    """Mount a /proc in which a tool sees only the processes that it may trace: its own.

    `hidepid=ptraceable` exists since Linux 5.8, a `pid_max` per namespace since 6.14. The trial
    finds out whether both work; `limit` is None where the second does not.
    """
    quiet = _PLAIN | kernel.MS_NOEXEC
    kernel.mount("proc", "/proc", "proc", quiet, "hidepid=ptraceable")
    if limit is not None:
        _write("/proc/sys/kernel/ns_last_pid", str(_RESERVED_PIDS - 1))
        _write("/proc/sys/kernel/pid_max", str(_RESERVED_PIDS + limit))
    for name in _MASKED:
        _mask("/proc/" + name)
    # Read-only at the end, because the two files above are in it.
    kernel.set_attributes_at("/proc", kernel.ATTR_RDONLY)


def mount_own_processes() -> None:
    """Mount a /proc with the processes of this PID namespace and those below it."""
    kernel.mount("proc", "/proc", "proc", _PLAIN | kernel.MS_NOEXEC)


def hide_processes() -> None:
    """Cover /proc on machines where a new one cannot be mounted."""
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
    """Mount an empty folder over each temporary one, and put granted paths below it back.

    The folders above granted paths are mounts, too, and read-only: a call that could move them
    would decide what the next call finds at a path.
    """
    for target in TEMPORARY:
        if target in granted:
            continue
        below = [path for path in granted if path.startswith(target + "/")]
        inside = {link: links[link] for link in links if link.startswith(target + "/")}
        trees = [(path, kernel.clone_tree(path), os.path.isdir(path)) for path in below]
        # As many inodes as pages, tmpfs(5): even an empty file takes kernel memory, which `size`
        # does not count.
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
    """Mount a folder over each child of `target` that contains granted paths; return these."""
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


def mount_terminals() -> None:
    """Mount pseudo-terminals that only this sandbox has; its programs get "no pty" if that fails.

    Every mount of devpts is an instance of its own since Linux 4.7, so none of the machine's
    terminals is in it. Read-only, because a call must not change modes or owners for the next one;
    opening and using a terminal does not write to the mount.
    """
    try:
        tree = _terminals_without_root() if os.getuid() else kernel.new_tree("devpts", _TERMINALS)
        kernel.set_attributes(tree, ATTR_RDONLY | ATTR_NOSUID | ATTR_NOEXEC)
        kernel.attach_tree(tree, _PTS)
    except OSError:
        return
    os.close(tree)


def _terminals_without_root() -> int:
    """Make the file system in a child with a user namespace of its own.

    The owner of its `ptmx` is user 0, so this user must exist in the namespace that makes it, and
    an unprivileged process can map only one user (devpts_fill_super in fs/devpts/inode.c).
    """
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    uid, gid = os.getuid(), os.getgid()
    pid = os.fork()
    if pid == 0:
        try:
            kernel.unshare(kernel.NEWUSER | kernel.NEWNS)
            _map_users("0 %d 1" % uid, "0 %d 1" % gid)
            wire.send(theirs, wire.READY, (kernel.new_tree("devpts", _TERMINALS),))
        finally:
            os._exit(0)
    theirs.close()
    message = wire.receive(ours)
    ours.close()
    os.waitpid(pid, 0)
    if message is None:
        raise OSError(errno.EPERM, "no terminals")
    return message.fds[0]


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
    """Return the properties of a temporary folder and its direct entries.

    Deeper entries do not matter: all mounts in it are read-only or granted.
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
    # Read-only, because the mode and times are those of the machine's device. Writing still works:
    # data goes to the driver and does not change the file.
    "device": ATTR_RDONLY | ATTR_NOSUID | ATTR_NOEXEC,
    "driver": ATTR_RDONLY | ATTR_NOSUID | ATTR_NOEXEC,
}
# Where the new root is built: any folder will do, because all granted paths are already open.
_BASE = "/dev"
_MOST_LINKS = 40  # the limit of the kernel, path_resolution(7)
_ENTER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OUT_OF_THE_WAY = 64  # above the numbers that a prefork server uses for its own descriptors
_DEVICE_LINKS = (
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
)


def leave(user: bool, network: str) -> None:
    """Move into namespaces of our own; the next child is process 1 of a new process table.

    All in one call: the kernel makes the user namespace first, and it gives the rights that the
    others need, user_namespaces(7).
    """
    uid, gid = os.getuid(), os.getgid()
    flags = kernel.NEWNS | kernel.NEWPID | kernel.NEWIPC | kernel.NEWUTS
    flags |= kernel.NEWUSER if user else 0
    flags |= kernel.NEWNET if network != "host" else 0
    kernel.unshare(flags)
    if user:
        # Without privileges, a process can map only its own user and group, and the group only
        # after setgroups(2) is disabled for good (since Linux 3.19), user_namespaces(7).
        _map_users("%d %d 1" % (uid, uid), "%d %d 1" % (gid, gid))
        _limit_watches()


def _map_users(users: str, groups: str) -> None:
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", users)
    _write("/proc/self/gid_map", groups)


def _limit_watches() -> None:
    """Leave most of the user's inotify instances to others: namespaces(7), /proc/sys/user.

    Those used here also count for the user outside, who has 128 by default.
    """
    for name, most in (("instances", 16), ("watches", 8192)):
        try:
            _write("/proc/sys/user/max_inotify_" + name, str(most))
        except OSError:
            return  # a kernel before Linux 4.13, or a container with read-only settings


def _write(path: str, text: str) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)


class NewRoot:
    """A root folder with the granted paths and nothing else.

    Everything is opened first and attached last, because mounts made in between (the new root, an
    empty /tmp) may cover a workspace or an interpreter below them.
    """

    def __init__(self, links: dict[str, str]) -> None:
        self._trees: list[tuple[str, int, bool]] = []
        self.links = links  # symbolic links to paths in it
        self.paths: list[str] = []  # the paths in it, except those inside another path
        # Descriptors of the paths that the host has checked, and their rights.
        self.opened: list[tuple[int, str]] = []

    def open_named(self, path: str, right: str) -> None:
        """Clone the mounts at a path of the system, if it exists; links are followed."""
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

    def open_given(self, path: str, right: str, given: int, seen_at: str) -> None:
        """Clone the mounts at a path whose descriptor, opened by the host, is `given`.

        The host's descriptor belongs to the host's mount namespace, whose mounts cannot be cloned
        from here (open_tree(2): EINVAL). So the path is opened again, without following links, and
        must lead to the same file or folder.
        """
        fd = open_plain(path)
        try:
            if not os.path.sameopenfile(fd, given):
                raise replaced(path)
            tree = self._clone(seen_at, fd, right)
        finally:
            os.close(fd)
        self.opened.append((fcntl.fcntl(tree, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY), right))

    def open_covered(self, path: str, right: str, given: int, covered: tuple[str, ...]) -> None:
        """Clone what is in a folder, each to be attached where another folder is shown."""
        fd = open_plain(path)
        try:
            if not os.path.sameopenfile(fd, given):
                raise replaced(path)
            for inner in covered:
                entry = open_plain(inner, fd)
                self._clone(path + "/" + inner, entry, right)
                os.close(entry)
            # For the rule of Landlock alone: it is not attached.
            tree = kernel.clone_tree_of(fd)
        finally:
            os.close(fd)
        self.opened.append((fcntl.fcntl(tree, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY), right))
        os.close(tree)

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
        # The old /proc stays mounted below that of every sandbox: in a user namespace, the kernel
        # mounts a new one only if a complete one is already visible (mount_too_revealing,
        # fs/namespace.c).
        self._trees.append(("/proc", kernel.clone_tree("/proc"), True))
        kernel.mount("tmpfs", base, "tmpfs", _PLAIN, "size=1m,mode=755")
        for target in (*TEMPORARY, _PTS):
            os.makedirs(base + target)
        root = os.open(base, _ENTER)
        # Sorted: a folder comes before the paths inside it.
        for real, tree, folder in sorted(self._trees):
            _attach(root, real, tree, folder)
            if not any(real.startswith(path + "/") for path in self.paths):
                self.paths.append(real)
        for link, target in self.links.items():
            _make_link(root, link, target)
        os.close(root)
        for name, target in _DEVICE_LINKS:
            os.symlink(target, base + "/dev/" + name)
        kernel.enter_root(base)
        kernel.set_attributes_at("/", ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV)


def open_plain(path: str, above_fd: int = -1) -> int:
    """Open a path without following any link in it, as the host does (untrusted_files)."""
    fd = os.open("/", _ENTER) if above_fd < 0 else os.dup(above_fd)
    *above, name = path.strip("/").split("/")
    try:
        for part in above:
            fd = _replace(fd, os.open(part, _ENTER, dir_fd=fd))
        found = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    except OSError:
        raise replaced(path) from None
    finally:
        os.close(fd)
    return found  # if it is a link, the caller sees another inode than the host's


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
        raise replaced(path) from None  # the path was removed after it was opened
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
    """Open a folder in a folder, made if it is missing; a link is not followed."""
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
    named: list[tuple[str, str]],
    given: list[tuple[str, str, int]],
    links: dict[str, str],
    copies: dict[str, str],
    covered: tuple[str, tuple[str, ...]] = ("", ()),
) -> NewRoot:
    """Enter a new root with paths of the system (path, right) and those the host has opened.

    Those in `copies` are seen at another path. `covered` is a folder that is not shown itself, but
    in its place one of `copies`, and what of it is shown there.
    """
    # Without this, if root, mounts made here would appear on the machine, mount_namespaces(7), and
    # pivot_root(2) would fail.
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    root = NewRoot(links)
    for path, right in named:
        root.open_named(path, right)
    for path, right, fd in given:
        if path == covered[0]:
            root.open_covered(path, right, fd, covered[1])
        else:
            root.open_given(path, right, fd, copies.get(path, path))
    root.enter(_BASE)
    return root


_SET_FLAGS = 0x8914  # SIOCSIFFLAGS, netdevice(7)
_UP = 1  # IFF_UP
_MOST_WAITING = 128  # the backlog: connections that are not accepted yet


def enter() -> None:
    """Move into a new network with nothing but loopback: no two sandboxes share one."""
    kernel.unshare(kernel.NEWNET)
    _raise_loopback()


def listen_for_host(listener_fd: int, ports: tuple[int, ...]) -> None:
    """Send a socket for each port, which listens in this network, to the host.

    A socket stays in the network namespace it was made in, network_namespaces(7): so the host
    itself can accept connections from it.
    """
    listeners = [_socket.socket(_socket.AF_INET, _socket.SOCK_STREAM) for _ in ports]
    for listener, port in zip(listeners, ports):
        listener.bind(("127.0.0.1", port))
        listener.listen(_MOST_WAITING)
        listener.setblocking(False)
    to_host = _socket.socket(fileno=listener_fd)
    wire.send(to_host, wire.READY, tuple(listener.fileno() for listener in listeners))
    for each in (to_host, *listeners):
        each.close()


def _raise_loopback() -> None:
    """Switch the loopback interface on: in a new network namespace it exists, but is down."""
    any_socket = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    # struct ifreq: 16 bytes of name, then a union of 24 that begins with the flags.
    kernel.control(any_socket.fileno(), _SET_FLAGS, struct.pack("16sH22x", b"lo", _UP))
    any_socket.close()
