"""Layers: the folders that get what calls write to their workspace, until somebody takes it.

Each sandbox has one, with the folders of an overlay: `upper` and `work`. All layers of this process
are in one folder of the state directory, which the next process removes if this one is killed.
"""

import atexit
import contextlib
import itertools
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from skillpouch.environment import state_directory
from skillpouch.execution.confinement import Plan
from skillpouch.execution.machine import Machine
from skillpouch.runtime.removal import lock_folder, remove_left_behind, remove_tree
from skillpouch.untrusted_files import open_plain

# Two ticks of the slowest kernel clock, 100 Hz: file times have its resolution.
TICKS_NS = 20_000_000
# Attributes that an overlay sets; those of this name that a program sets get another "overlay.".
_OVERLAYS_OWN = re.compile(r"(user|trusted)\.overlay\.(?!overlay\.)")
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, slots=True)
class LayerPlace:
    """Where a new layer is made, and over what.

    `pinned` are the names in the workspace that are mount points, or hold one.
    """

    above: str
    number: int
    workspace: str
    pinned: frozenset[str]


class LayerRoot:
    """The properties of a folder that is the root of an overlay."""

    def __init__(self, folder: str) -> None:
        status = os.stat(folder)  # noqa: PTH116
        self.rights = (status.st_mode & 0o7777, status.st_uid, status.st_gid)
        self.times = (status.st_atime_ns, status.st_mtime_ns)
        self.changed_ns = status.st_ctime_ns
        names = [name for name in os.listxattr(folder) if not _OVERLAYS_OWN.match(name)]
        self.attributes = {name: os.getxattr(folder, name) for name in names}

    def is_like(self, other: "LayerRoot") -> bool:
        return self.rights == other.rights and self.attributes == other.attributes

    def settled(self, now_ns: int) -> int:
        """Return its ctime; 0 if a change a moment later could have the same one."""
        return self.changed_ns if self.changed_ns < now_ns - TICKS_NS else 0

    def copy_to(self, folder: str) -> None:
        mode, uid, gid = self.rights
        if (uid, gid) != (os.geteuid(), os.getegid()):
            with contextlib.suppress(PermissionError):  # only root gives folders away
                os.chown(folder, uid, gid)
        for name, value in self.attributes.items():
            with contextlib.suppress(OSError):  # another file system may not have it
                os.setxattr(folder, name, value)
        os.chmod(folder, mode)  # noqa: PTH101
        os.utime(folder, ns=self.times)


def _pinned_names(plan: Plan) -> frozenset[str]:
    """Return the names in a workspace that are mount points of a sandbox, or hold one."""
    top = f"{plan.workspace}/"
    inside = [path[len(top) :] for path in plan.required_paths if path.startswith(top)]
    return frozenset(path.partition("/")[0] for path in inside)


class LayerFolders:
    """The folder of this process for all its layers."""

    def __init__(self, state: Path) -> None:
        above = state / "layers"
        above.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_left_behind("", above)
        self.path = os.path.realpath(_new_folder(f"{above}/{os.getpid()}-"))
        # Never closed: the lock is held until the process ends, even if it is killed.
        lock_folder(Path(self.path))
        self._process = os.getpid()
        self._numbers = itertools.count(1)
        atexit.register(self._remove)

    def new(self, plan: Plan) -> LayerPlace:
        """Return the place of a new layer; its root is to be like that of what it lies on."""
        below = plan.stack[0] if plan.stack else str(plan.workspace)
        return LayerPlace(self.path, next(self._numbers), below, _pinned_names(plan))

    def _remove(self) -> None:
        if os.getpid() == self._process:  # not in a process that was forked from it
            with contextlib.suppress(OSError):
                remove_tree(self.path)


def _new_folder(prefix: str) -> str:
    folder = prefix + os.urandom(8).hex()
    os.mkdir(folder, 0o700)  # noqa: PTH102
    return folder


_lock = threading.Lock()
_known: dict[tuple[int, Path], LayerFolders] = {}  # by process and state directory


def layer_folders() -> LayerFolders:
    """Return the folder for the layers of this process; OSError if there can be none."""
    state = state_directory()
    if state is None:
        raise FileNotFoundError("there is no home folder, and no XDG_STATE_HOME")
    with _lock:
        key = (os.getpid(), state)
        found = _known.get(key)
        if found is None or not os.path.isdir(found.path):  # noqa: PTH112
            found = _known[key] = LayerFolders(state)
        return found


@lru_cache(maxsize=1024)  # as long as plans are kept
def why_direct(workspace: Path, machine: Machine, state: Path | None) -> str:
    """Return why the calls in a workspace can have no layer on this machine, "" if they can.

    `state` is the state directory.
    """
    if not machine.overlay:
        reason = dict(machine.reasons).get("overlay", "it needs namespaces, which do not work here")
        return f"no overlay can be mounted: {reason}"
    if state is not None and state.resolve().is_relative_to(workspace):
        return f"the state directory {state} is inside the workspace"
    try:
        if workspace.stat().st_uid != os.geteuid():
            return "the workspace belongs to another user"
        return mounted_inside(workspace)
    except OSError as error:
        return str(error)


def mounted_inside(workspace: Path) -> str:
    """Return why a workspace with other file systems mounted inside it can have no layer.

    An overlay shows only the file system of its lower folder.
    """
    # Names in it may be any bytes; a blank is written as \\040, proc_pid_mountinfo(5).
    mounts = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
    top = f"{workspace}/"
    for line in mounts.splitlines():
        point = _ESCAPED.sub(lambda found: chr(int(found[1], 8)), line.split(" ")[4])
        if point.startswith(top):
            return f"another file system is mounted inside the workspace, at {point}"
    return ""


@contextmanager
def trial_folder() -> Iterator[tuple[str, str, tuple[int, ...]]]:
    """Yield a folder in which overlays can be tried, or why there is none; and its descriptor."""
    try:
        folder = _new_folder(f"{layer_folders().path}/trial-")
        given = open_plain(folder)
    except OSError as error:
        yield "", f"the state directory cannot be used: {error}", ()
        return
    try:
        yield folder, "", (given,)
    finally:
        os.close(given)
        with contextlib.suppress(OSError):
            remove_tree(folder)
