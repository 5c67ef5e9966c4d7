"""What each slot mounts for itself: its process table and its empty temporary folders."""

from __future__ import annotations

import os
import stat

from kitbag.execution.zygote import kernel

_PLAIN = kernel.MS_NOSUID | kernel.MS_NODEV
# The machine's own secrets and levers below /proc, which a root without capabilities could open.
_MASKED = ("acpi", "kcore", "keys", "kmsg", "sched_debug", "sysrq-trigger", "timer_list")
# Once past this number the kernel gives out no smaller process id, nor takes a smaller maximum.
_RESERVED_PIDS = 300
TEMPORARY = ("/tmp", "/dev/shm")  # noqa: S108 - mount points, not files
_EVERYBODYS = 0o1777


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
    """Mount an empty folder over each temporary one, and what was granted below it back on top."""
    for target in TEMPORARY:
        if target in granted:
            continue
        below = [path for path in granted if path.startswith(target + "/")]
        trees = [(path, kernel.clone_tree(path), os.path.isdir(path)) for path in below]
        kernel.mount("tmpfs", target, "tmpfs", _PLAIN, "size=%d,mode=%o" % (size, _EVERYBODYS))
        for path, tree, folder in sorted(trees):
            make_mount_point(path, folder)
            kernel.attach_tree(tree, path)
            os.close(tree)
    for link, destination in links.items():
        if link.startswith(tuple(target + "/" for target in TEMPORARY)):
            make_link(link, destination)


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


def changed_folders(granted: list[str]) -> list[str]:
    """Return the temporary folders that are not as they were mounted; what is in them aside."""
    return [
        target
        for target in TEMPORARY
        if target not in granted
        and (stat.S_IMODE(os.stat(target).st_mode) != _EVERYBODYS or os.listxattr(target))
    ]


def used_inodes(granted: list[str]) -> int:
    """Count the files in the temporary folders: more than at the start means something was left."""
    used = 0
    for target in TEMPORARY:
        if target not in granted:
            room = os.statvfs(target)
            used += room.f_files - room.f_ffree
    return used
