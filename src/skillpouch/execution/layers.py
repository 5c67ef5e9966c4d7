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
from functools import lru_cache
from pathlib import Path

from skillpouch.environment import state_directory
from skillpouch.execution.confinement import Plan
from skillpouch.execution.machine import Machine
from skillpouch.execution.sandbox_client import Layer
from skillpouch.runtime.removal import lock_folder, remove_left_behind, remove_tree
from skillpouch.untrusted_files import open_plain

_ESCAPED = re.compile(r"\\([0-7]{3})")


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

    def new(self, plan: Plan) -> Layer:
        """Return a new layer; its root is like that of what it lies on."""
        below = plan.stack[0] if plan.stack else str(plan.workspace)
        return Layer(self.path, next(self._numbers), below, _pinned_names(plan))

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
