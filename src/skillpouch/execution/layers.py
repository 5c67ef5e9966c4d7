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
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from skillpouch.environment import state_directory
from skillpouch.execution.confinement import Plan
from skillpouch.execution.machine import Machine
from skillpouch.runtime.removal import lock_folder, remove_left_behind, remove_tree
from skillpouch.untrusted_files import open_plain

# Two ticks of the slowest kernel clock, 100 Hz: file times have its resolution.
_TICKS_NS = 20_000_000
_ESCAPED = re.compile(r"\\([0-7]{3})")


class Layer:
    """The layer of one sandbox. Its calls run one after the other, each in an empty layer."""

    def __init__(self, folders: "LayerFolders", number: int, plan: Plan) -> None:
        self.number = number
        self._folders = folders
        self._folder = f"{folders.path}/{number}"
        self._upper = f"{self._folder}/upper"
        self._workspace = str(plan.workspace)
        self._pinned = _pinned(plan)
        self._in_call = self._is_over = self._is_given = False
        self._began_ns = 0
        self._configuration = -1  # of the overlay, once the zygote has mounted it
        # The ctimes of the layer and of the workspace when they were last looked at. The ctime
        # changes with everything that is compared here, and no program can set it, inode(7).
        self._empty_at = self._alike_at = 0
        for folder in (self._folder, self._upper, f"{self._folder}/work"):
            os.mkdir(folder, 0o700)  # noqa: PTH102 - for each sandbox
        self._model = _look_at(self._workspace)
        self._model.copy_to(self._upper)

    def note_mounted(self, configuration: int) -> None:
        """Keep the descriptor by which the overlay of this layer is reconfigured."""
        if self._is_over:
            os.close(configuration)
        else:
            self._configuration = configuration

    def begin(self) -> None:
        """Note that a call begins, whose changes must be taken."""
        self._in_call = True
        self._began_ns = time.time_ns()

    def renew(self) -> bool:
        """Prepare for a call: return whether the layer fits the workspace as it is now.

        An overlay keeps the mode and the owner of its root. Its times are those of the layer.
        """
        self.forget_names()
        seen_ns = time.time_ns()
        if self._alike_at == os.stat(self._workspace).st_ctime_ns:  # noqa: PTH116 - on every call
            return True
        now = _look_at(self._workspace)
        if not now.is_like(self._model):
            return False
        if now.times[1] != os.stat(self._upper).st_mtime_ns:  # noqa: PTH116
            os.utime(self._upper, ns=now.times)
            self._empty_at = 0
        self._alike_at = _settled(now, seen_ns)
        return True

    def forget_names(self) -> None:
        """Have the overlay show the workspace and the layer as they are now; OSError if not."""
        # Imported here: a process that makes one call never needs it.
        from skillpouch.execution.zygote import kernel

        kernel.forget_names(self._configuration)

    def take(self, *, reusable: bool) -> tuple[list[Path], bool]:
        """End a call of which no process is alive.

        Return the folder with what it changed, none if it changed nothing; and whether the layer is
        empty now, and another call may use it.
        """
        self._in_call = False
        if self._is_untouched() and not self._is_over:
            return [], reusable
        try:
            names = os.listdir(self._upper)  # noqa: PTH208 - on every call
            now = _look_at(self._upper)
            same_root = now.is_like(self._model)
        except OSError:  # such as a root that nobody may read any more
            names, now, same_root = [], self._model, False
        # An overlay goes on using folders that are mount points, or hold one: they are not replaced
        # when their names are forgotten.
        reusable = reusable and same_root and self._pinned.isdisjoint(names) and not self._is_over
        taken: list[Path] = []
        if names or not same_root:
            if reusable:
                taken, reusable = self._move(names, now)
            if not reusable:
                self._is_given = True
                taken.append(Path(self._upper))
        self._empty_at = 0 if taken else _settled(now, self._began_ns)
        self._alike_at = 0  # what was made and removed has changed the times of the layer
        if self._is_over:
            self._remove()
        return taken, reusable

    def _is_untouched(self) -> bool:
        try:
            now = os.stat(self._upper).st_ctime_ns  # noqa: PTH116 - on every call
        except OSError:
            return False
        return now == self._empty_at and now < self._began_ns - _TICKS_NS

    def _move(self, names: list[str], upper: "_Root") -> tuple[list[Path], bool]:
        """Move what is in the layer to a folder of its own; return whether nothing is left."""
        try:
            taken = self._folders.new_taken()
        except OSError:
            return [], False
        done = True
        try:
            for name in names:
                os.rename(f"{self._upper}/{name}", f"{taken}/{name}")  # noqa: PTH104
        except OSError:
            done = False  # such as a folder that nobody may write, rename(2)
        upper.copy_to(taken)
        return [Path(taken)], done

    def close(self) -> None:
        """Remove the layer; while a call runs in it, after its changes were taken."""
        self._is_over = True
        self.abandon()
        if not self._in_call:
            self._remove()

    def abandon(self) -> None:
        """Close the descriptor only: after a fork, the layer belongs to the parent."""
        if self._configuration >= 0:
            os.close(self._configuration)
            self._configuration = -1

    def _remove(self) -> None:
        # What cannot be removed now is removed with the folder of this process.
        with contextlib.suppress(OSError):
            remove_tree(f"{self._folder}/work" if self._is_given else self._folder)


class _Root:
    """The properties of a folder that is the root of an overlay."""

    def __init__(self, status: os.stat_result) -> None:
        self.rights = (status.st_mode & 0o7777, status.st_uid, status.st_gid)
        self.times = (status.st_atime_ns, status.st_mtime_ns)
        self.changed_ns = status.st_ctime_ns
        self.attributes: dict[str, bytes] = {}

    def is_like(self, other: "_Root") -> bool:
        return self.rights == other.rights and self.attributes == other.attributes

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


def _look_at(folder: str) -> _Root:
    root = _Root(os.stat(folder))  # noqa: PTH116
    for name in os.listxattr(folder):
        if not name.partition(".")[2].startswith("overlay."):
            root.attributes[name] = os.getxattr(folder, name)
    return root


def _settled(root: _Root, now_ns: int) -> int:
    """Return the ctime of a folder; 0 if a change a moment later could have the same one."""
    return root.changed_ns if root.changed_ns < now_ns - _TICKS_NS else 0


def _pinned(plan: Plan) -> frozenset[str]:
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

    def new(self, plan: Plan) -> Layer:
        return Layer(self, next(self._numbers), plan)

    def new_taken(self) -> str:
        """Return a new folder for what a call changed."""
        folder = f"{self.path}/taken-{next(self._numbers)}"
        os.mkdir(folder, 0o700)  # noqa: PTH102 - for each call that writes
        return folder

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


def why_direct(workspace: Path, machine: Machine) -> str:
    """Return why the calls in a workspace can have no layer on this machine, "" if they can."""
    return _why_direct(workspace, machine, state_directory())


@lru_cache(maxsize=1024)  # as long as plans are kept
def _why_direct(workspace: Path, machine: Machine, state: Path | None) -> str:
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
