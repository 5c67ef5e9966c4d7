"""Machine: which protections were tried on this machine and found to work."""

from dataclasses import dataclass, field


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
        reasons=tuple(reasons),
    )
