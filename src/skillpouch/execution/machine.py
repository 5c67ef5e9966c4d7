"""Machine: which protections were tried on this machine and found to work."""

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """Each field is a layer that was tried in a throw-away process and really denied access.

    `reasons` tells, by layer, why one is missing.
    """

    landlock: int = 0  # the ABI, 0 without Landlock
    seccomp: bool = False
    memory: bool = False
    namespaces: bool = False  # user, mount, process, network, ipc and host name, all together
    user_namespace: bool = False  # namespaces need a user namespace
    own_proc: bool = False
    pid_limit: bool = False
    notifications: bool = False  # connects can be handed to a supervisor, which needs namespaces
    adoption: bool = False
    cgroup: str = ""  # the folder in which a cgroup was seen to enforce its limits
    root: bool = False
    overlay: bool = False  # a layer can be laid over the workspace
    gpu: tuple[str, ...] = ()  # the device files of its graphics processors
    reasons: tuple[tuple[str, str], ...] = field(default=())


def read_report(report: str, *, root: bool, cgroup: str = "") -> Machine:
    """Make a Machine from the report of the trials: lines of layer, number, reason.

    `cgroup` is the folder in which one was tried.
    """
    given: dict[str, int] = {}
    reasons: list[tuple[str, str]] = []
    for line in report.splitlines():
        name, number, *why = line.split(" ", 2)
        given[name] = int(number)
        if not given[name]:
            reasons.append((name, why[0] if why else "denies nothing"))
    spaces = given.get("user_namespaces") or given.get("root_namespaces", 0)
    return Machine(
        landlock=given.get("landlock", 0),
        seccomp=bool(given.get("seccomp")),
        memory=bool(given.get("memory")),
        namespaces=bool(spaces & 1),
        user_namespace=bool(given.get("user_namespaces")),
        own_proc=bool(spaces & 2),
        pid_limit=bool(spaces & 4),
        notifications=bool(spaces & 8),
        adoption=bool(given.get("adoption")),
        cgroup=cgroup if given.get("cgroup") else "",
        root=root,
        overlay=bool(given.get("overlay")),
        gpu=find_gpus(),
        reasons=tuple(reasons),
    )


# Those by which programs compute: not /dev/dri/card*, which also control screens.
_GPUS = ("nvidia[0-9]*", "nvidiactl", "nvidia-uvm*", "nvidia-caps/*", "dri/renderD*", "kfd")


def find_gpus(devices: Path = Path("/dev")) -> tuple[str, ...]:
    """Return the device files of the graphics processors of this machine."""
    found = {path for pattern in _GPUS for path in devices.glob(pattern)}
    return tuple(sorted(str(path) for path in found if _is_device(path)))


def _is_device(path: Path) -> bool:
    try:
        return stat.S_ISCHR(path.lstat().st_mode)
    except OSError:
        return False


def facts_of(device: str) -> tuple[str, ...]:
    """Return the folders of /sys in which libraries look for what a device is."""
    try:
        number = Path(device).stat().st_rdev
    except OSError:
        return ()
    entry = Path(f"/sys/dev/char/{os.major(number)}:{os.minor(number)}")
    behind = entry / "device"
    return (str(entry), str(behind.resolve())) if behind.exists() else ()
