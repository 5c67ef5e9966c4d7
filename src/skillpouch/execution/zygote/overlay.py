"""Lays a private layer over the workspace of each sandbox: what its calls write goes there.

The overlay's lower folder is the workspace, which is only read. Its upper folder is one that the
host made for this sandbox alone; programs reach it only through the overlay. In a session whose
changes wait, the layers of its earlier calls lie between the two, and are only read as well.
"""

from __future__ import annotations

import errno
import os
import stat

from skillpouch.execution.zygote import kernel, namespaces, wire
from skillpouch.execution.zygote.kernel import ATTR_NODEV, ATTR_NOEXEC, ATTR_NOSUID, ATTR_RDONLY

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

    from skillpouch.execution.zygote.kernel import Options
    from skillpouch.execution.zygote.wire import Fields

# Where a zygote has the folders of its layers. A sandbox unmounts them before anything runs in it,
# and has its terminals there.
LAYERS = "/dev/pts"
# `userxattr`: the overlay's own notes are attributes that begin with "user.overlay.", and it hides
# those that a program sets. Also without a user namespace, where the notes could begin with
# "trusted.": then a program could write the others, and what is read from a layer would be forged.
# The price: rename(2) of a folder that was there before gives EXDEV, see folder_moves.py.
_OPTIONS: dict[str, str | None] = {"index": "off", "metacopy": "off", "userxattr": None}
# Since Linux 5.10: nothing is written to the disk when it is unmounted.
_WRITTEN: dict[str, str | None] = {"volatile": None}
_LONGEST_OPTION = 255  # bytes, fsconfig(2)
_PATH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC


def stacked_at(number: int) -> str:
    """Return where a zygote has a layer of an earlier call: below `LAYERS`, unmounted with it."""
    return "%s/s%d" % (LAYERS, number)


def new_overlay(lower: str, layer: str, stack: list[str]) -> int:
    """Return an overlay that is mounted nowhere yet; `layer` has the folders `upper` and `work`.

    `stack` are folders between that layer and `lower`, the upmost first.
    """
    os.chdir(lower)  # a path could be too long for an option, or contain a colon
    try:
        folders = {"upperdir": layer + "/upper", "workdir": layer + "/work"}
        options = {**_lowers([*stack, "."]), **folders, **_OPTIONS, **_WRITTEN}
        return kernel.new_tree("overlay", options, ATTR_NOSUID | ATTR_NODEV)
    finally:
        os.chdir("/")


def _lowers(folders: list[str]) -> Options:
    joined = ":".join(folders)
    if len(joined) <= _LONGEST_OPTION:
        return {"lowerdir": joined}
    return {"lowerdir+": folders}  # since Linux 6.8


def show_stack(control: _socket.socket) -> None:
    """Send the host the descriptor of an overlay of some folders, which nobody can write.

    The host tells their paths, the upmost first, with the descriptors that it has opened; and gets
    a second descriptor, by which it has the kernel forget names.
    """
    message = wire.receive(control)
    if message is None:
        return
    config: Fields = message.value()
    try:
        namespaces.leave(config["user"], "host")
        opened = []
        for path, given in zip(config["folders"], message.fds):
            # Opened again: the host's descriptors belong to its mount namespace.
            fd = namespaces.open_plain(path)
            if not os.path.sameopenfile(fd, given):
                raise namespaces.replaced(path)
            opened.append("/proc/self/fd/%d" % fd)
        # Without xino=off, numbers of inodes may differ from those of the folders.
        options = {**_lowers(opened), **_OPTIONS, "xino": "off"}
        read_only = ATTR_RDONLY | ATTR_NOSUID | ATTR_NODEV | ATTR_NOEXEC
        tree = kernel.new_tree("overlay", options, read_only)
        wire.send(control, wire.READY, (tree, kernel.configuration_of(tree)))
    except OSError as error:
        wire.send_failure(control, error)


class LayerMounts:
    """What one sandbox mounts over its workspace: the overlay, and the paths inside it again.

    `inner` are descriptors of read-only trees by their paths; -1 stands for a folder of the overlay
    itself, which becomes a mount point, so that it cannot be renamed.
    """

    def __init__(self, workspace: str, tree: int, inner: list[tuple[str, int]]) -> None:
        self._workspace = workspace
        self._tree = tree
        self._inner = inner

    @property
    def fds(self) -> tuple[int, ...]:
        return (self._tree, *(fd for _, fd in self._inner if fd >= 0))

    def configuration(self) -> int:
        """Return a descriptor by which the host has the kernel forget names of the overlay.

        The host may do that: it has all rights in a user namespace that it made, and without one
        it is root, user_namespaces(7).
        """
        return kernel.configuration_of(self._tree)

    def attach(self, lower: int) -> None:
        """Mount all of it in this mount namespace; `lower` is the folder that must be covered."""
        kernel.detach(LAYERS)
        point = os.open(self._workspace, _PATH)
        if not os.path.sameopenfile(point, lower):
            raise namespaces.replaced(self._workspace)
        kernel.attach_tree_on(self._tree, point)
        os.close(point)
        root = os.open(self._workspace, _PATH)
        for path, tree in self._inner:
            self._attach_inner(root, path, tree)
        os.close(root)
        self.close()

    def _attach_inner(self, root: int, path: str, tree: int) -> None:
        place = _find(root, path[len(self._workspace) + 1 :])
        try:
            if place < 0 or stat.S_ISLNK(os.fstat(place).st_mode):
                raise namespaces.replaced(path)
            own = kernel.clone_tree_of(place) if tree < 0 else os.dup(tree)
            kernel.attach_tree_on(own, place)
            os.close(own)
        except NotADirectoryError:
            raise namespaces.replaced(path) from None  # a file in place of a folder, or a folder
        finally:
            if place >= 0:
                os.close(place)

    def close(self) -> None:
        for fd in self.fds:
            os.close(fd)


def _find(root: int, path: str) -> int:
    """Open a path below a folder without following links; -1 if it is not there."""
    fd = os.dup(root)
    for name in path.split("/"):
        try:
            found = os.open(name, _PATH, dir_fd=fd)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR):
                raise
            found = -1
        os.close(fd)
        if found < 0:
            return -1
        fd = found
    return fd


class Overlays:
    """Makes the overlays of a zygote's sandboxes."""

    def __init__(self, config: Fields) -> None:
        self._are_wanted: bool = config["layered"]
        self._workspace: str = config["workspace"]
        self._inner: list[tuple[str, int]] = []
        self._stack: list[str] = [stacked_at(number) for number in range(len(config["stack"]))]
        self.lower = -1
        if self._are_wanted:
            self._divide(config)

    def _divide(self, config: Fields) -> None:
        """Take the paths of the workspace out of those that the rules of Landlock are made from.

        In a sandbox, the rule for the workspace is one for its overlay.
        """
        left = []
        by_path = {path: fd for (path, _), (fd, _) in zip(config["given"], config["opened"])}
        own = {home: by_path[top] for top, home in config["own_tops"][:1]}
        for (path, right), (fd, _) in sorted(zip(config["given"], config["opened"])):
            if path == self._workspace:
                self.lower = fd
            elif path.startswith(self._workspace + "/"):
                # Read-only paths stay those of the machine; at that of a skill which may write its
                # own folder, that one is shown, with all that is mounted on it.
                self._inner.append((path, -1 if right == "write" else own.get(path, fd)))
                if right == "write":
                    os.close(fd)
                else:
                    left.append((fd, right))
            elif path == config["layers"] or path in config["stack"]:
                os.close(fd)
            else:
                left.append((fd, right))
        config["opened"] = left
        config["only_landlock"] = [*config["only_landlock"], (self._workspace, "write")]

    def new(self, number: int) -> LayerMounts | None:
        """Make the overlay of a sandbox; None if its calls write directly."""
        if not self._are_wanted:
            return None
        tree = new_overlay(self._workspace, "%s/%d" % (LAYERS, number), self._stack)
        inner = [(path, fd if fd < 0 else kernel.clone_tree_of(fd)) for path, fd in self._inner]
        return LayerMounts(self._workspace, tree, inner)
