"""Namespaces of the zygote: a user, a root folder and a network of the tool's own."""

from __future__ import annotations

import errno
import os
import stat

from kitbag.execution.zygote import kernel
from kitbag.execution.zygote.kernel import ATTR_NODEV, ATTR_NOEXEC, ATTR_NOSUID, ATTR_RDONLY
from kitbag.execution.zygote.own_view import TEMPORARY, make_link, make_mount_point

_ATTRIBUTES = {
    "read": ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC,
    "run": ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV,
    "write": ATTR_NOSUID | ATTR_NODEV,
    # Read-only: its mode and times are the machine's. What is written goes to the driver all the
    # same, for that is no change to the file.
    "device": ATTR_RDONLY | ATTR_NOSUID | ATTR_NOEXEC,
}
_QUIET = kernel.MS_NOSUID | kernel.MS_NODEV
# Where the new root is put together: any folder will do, for all that is granted is open by then.
_BASE = "/dev"
_MOST_LINKS = 40  # as the kernel
_STANDARD_STREAMS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
)


def leave(user: bool, network: str) -> None:
    """Move into namespaces of our own; the next child is process 1 of a new process table."""
    uid, gid = os.getuid(), os.getgid()
    flags = kernel.NEWNS | kernel.NEWPID | kernel.NEWIPC | kernel.NEWUTS
    flags |= kernel.NEWUSER if user else 0
    flags |= kernel.NEWNET if network != "host" else 0
    kernel.unshare(flags)
    if user:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", "%d %d 1" % (uid, uid))
        _write("/proc/self/gid_map", "%d %d 1" % (gid, gid))


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

    def __init__(self) -> None:
        self._trees: list[tuple[str, int, bool]] = []
        self.links: dict[str, str] = {}
        self.paths: list[str] = []  # what is in it, without what is inside another of them

    def open(self, path: str, right: str, required: bool) -> None:
        """Clone the mounts at `path`, remembering the symbolic links that lead to it."""
        try:
            real = self._resolve(path)
            mode = os.stat(real).st_mode
            tree = kernel.clone_tree(real)
        except OSError:
            if required:
                raise
            return
        kernel.set_attributes(tree, _ATTRIBUTES[right])
        self._trees.append((real, tree, stat.S_ISDIR(mode)))

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
        # The old process table stays below every slot's own: a kernel mounts a new one in a user
        # namespace only where one is already in sight.
        self._trees.append(("/proc", kernel.clone_tree("/proc"), True))
        kernel.mount("tmpfs", base, "tmpfs", _QUIET, "size=1m,mode=755")
        for target in TEMPORARY:
            os.makedirs(base + target)
        for real, tree, folder in sorted(self._trees):
            make_mount_point(base + real, folder)
            kernel.attach_tree(tree, base + real)
            os.close(tree)
            if not any(real.startswith(path + "/") for path in self.paths):
                self.paths.append(real)
        for link, target in self.links.items():
            make_link(base + link, target)
        for name, target in _STANDARD_STREAMS:
            os.symlink(target, base + "/dev/" + name)
        kernel.enter_root(base)
        kernel.set_attributes_at("/", ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV)


def enter_new_root(paths: list[tuple[str, str, bool]]) -> NewRoot:
    """Enter a root of the given (path, right, required)."""
    kernel.mount("none", "/", None, kernel.MS_REC | kernel.MS_PRIVATE)
    root = NewRoot()
    for path, right, required in paths:
        root.open(path, right, required)
    root.enter(_BASE)
    return root
