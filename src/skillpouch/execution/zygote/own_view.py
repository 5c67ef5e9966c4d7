"""What each slot mounts for itself: its process table and its empty temporary folders."""

from __future__ import annotations

import os
import stat

from skillpouch.execution.zygote import kernel

_PLAIN = kernel.MS_NOSUID | kernel.MS_NODEV
# The machine's own secrets and levers below /proc, which a root without capabilities could open.
_MASKED = ("acpi", "kcore", "keys", "kmsg", "sched_debug", "sysrq-trigger", "timer_list")
# Once past this number the kernel gives out no smaller process id, nor takes a smaller maximum.
_RESERVED_PIDS = 300
TEMPORARY = ("/tmp", "/dev/shm")  # noqa: S108 - mount points, not files
_EVERYBODYS = 0o1777
_PAGE = 4096


def mount_processes(limit: int | None) -> None:
    """Mount /proc for this process table, in which a tool sees only what it may trace: its own."""
    quiet = _PLAIN | kernel.MS_NOEXEC
    kernel.mount("proc", "/proc", "proc", quiet, "hidepid=ptraceable")
    if limit is not None:
        _write("/proc/sys/kernel/ns_last_pid", _RESERVED_PIDS - 1)
        _write("/proc/sys/kernel/pid_max", _RESERVED_PIDS + limit)
    for name in _MASKED:
        _mask("/proc/" + name)
    kernel.set_attributes_at("/proc", kernel.ATTR_RDONLY)


def hide_processes() -> None:
    """Cover /proc where a machine lets nobody mount a new one."""
    kernel.mount("tmpfs", "/proc", "tmpfs", _PLAIN | kernel.MS_RDONLY, "size=4k,mode=555")


def _write(path: str, number: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, b"%d" % number)
    finally:
        os.close(fd)


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
        # As many files as pages: each takes memory of the kernel's, however empty it is.
        room = "size=%d,nr_inodes=%d,mode=%o" % (size, size // _PAGE + 1, _EVERYBODYS)
        kernel.mount("tmpfs", target, "tmpfs", _PLAIN, room)
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
