"""What a program may reach, and the plan that enforces it on this machine: pure decisions."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from skillpouch.errors import CommandStartError, SandboxUnavailableError
from skillpouch.execution.machine import Machine, facts_of
from skillpouch.execution.proxy.allowlist import PROXY_PORT, relayed_hosts
from skillpouch.limits import Layer, Limits, Sandbox

SYSTEM = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    "/sys/devices/system/cpu",
    # Not all of /etc: as root, /etc/shadow and the keys in /etc/ssl/private would be readable, too.
    "/etc/alternatives",
    "/etc/bash.bashrc",
    "/etc/ca-certificates",
    "/etc/crypto-policies",
    "/etc/debian_version",
    "/etc/fonts",
    "/etc/gai.conf",
    "/etc/group",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/inputrc",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/magic",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/passwd",
    "/etc/perl",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/profile",
    "/etc/protocols",
    "/etc/python3",
    "/etc/python3.11",
    "/etc/python3.12",
    "/etc/python3.13",
    "/etc/resolv.conf",
    "/etc/services",
    "/etc/shells",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/terminfo",
    "/etc/timezone",
    "/etc/xml",
)

DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")

PROC_FILES = (
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/loadavg",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/uptime",
    "/proc/version",
)


Right = Literal["list", "read", "run", "write", "device", "terminal", "driver", "pipe"]
Network = Literal["none", "hosts", "host"]
# What a confined call has beyond plain confinement, docs/concepts/profiles.md.
Profile = Literal["loopback", "local-sockets", "gpu", "own-folder"]


class ProfileUnavailableError(CommandStartError):
    """A call needs a profile that this machine cannot hold; nothing ran."""

    code = "profile_unavailable"

    def __init__(self, profile: str, reason: str) -> None:
        self.profile = profile
        super().__init__(f"a call with {profile}", reason, hint="run `skillpouch doctor`")


NOTHING = "none"
_HOST_ONLY = (
    "protections",
    "workspace",
    "root",
    "hosts",
    "skill_name",
    "paths",
    "followed",
    "home_links",
    "cgroup",
)
_SIGNAL_SCOPE = 6  # the Landlock ABI that confines signals
_TRUNCATE = 3  # the Landlock ABI that prevents truncating files outside


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnFolder:
    """What a call has in the place of its skill's folder: `top`, which it may write.

    On it are mounted, read-only, the files and folders of the skill at the paths `covered`. In
    `holders`, folders of the skill, it may make entries as in the top itself.
    """

    top: Path
    holders: tuple[str, ...] = ()
    covered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Confinement:
    """What a call may reach; everything not named is invisible.

    The home folder is hidden because it is never named, and each call has its own /tmp. If a
    `required` layer is missing, nothing runs. `sandbox="off"` keeps only the limits and the
    guarantee that no process outlives the call; any other name except "on" is that of a provider.

    Paths are used as they are: a path that is a link, or leads through one, is refused. Only the
    paths of interpreters and those in `followed` may lead through links, but not through links in a
    folder that tools can write.

    With `network="hosts"` a call reaches `hosts`, through a proxy, and nothing else; `skill_name`
    is the skill that they were granted to. With "host" it uses the network of this machine.
    `profiles` are those that the call cannot do without: if one cannot be held, nothing runs. A
    call with a network namespace of its own has "loopback" in any case. "own-folder" is `own`.

    `pipes` is a folder inside a readable one: what it holds may be opened for writing, too, but
    nothing made there. On a read-only mount that is of use for named pipes only.

    `layered`: if this machine can, what a call writes to the workspace goes to a folder of its own,
    and the workspace stays as it is; the protection "writes" says which. `stack` are such folders
    of earlier calls, the last first: the call sees the workspace with what is in them.
    """

    workspace: Path
    skill: Path | None = None
    own: OwnFolder | None = None
    interpreters: tuple[Path, ...] = ()
    runnable: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = ()
    followed: tuple[Path, ...] = ()
    home_links: tuple[tuple[str, str], ...] = ()
    network: Network = "none"
    hosts: tuple[str, ...] = ()
    skill_name: str = ""
    profiles: tuple[Profile, ...] = ()
    required: frozenset[Layer] = frozenset()
    sandbox: Sandbox = "on"
    temporary_bytes: int = 256 * 1024 * 1024
    workspace_read_only: bool = False
    layered: bool = False
    stack: tuple[Path, ...] = ()
    pipes: Path | None = None

    @property
    def tops(self) -> tuple[Path, ...]:
        """The folders of `own`, which are shown at other paths."""
        own = self.own
        return () if own is None else (own.top, *(own.top / holder for holder in own.holders))

    def __post_init__(self) -> None:
        if self.workspace == Path("/"):
            raise ValueError("the workspace cannot be /: everything would be writable")
        named = (self.workspace, *self.interpreters, *self.readable, *self.writable)
        named += self.runnable
        for path in (*named, self.skill) if self.skill else named:
            if not path.is_absolute():
                raise ValueError(f"{path} is not absolute: a zygote has another current folder")
        if self.hosts and self.network != "hosts":
            raise ValueError(f'hosts are named, but the network is "{self.network}"')
        _spelt(self.hosts)


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How a zygote confines its tools; equal plans share a zygote."""

    zygote: bool  # false where only process groups are available
    confined: bool
    namespaces: bool
    user: bool
    own_proc: bool
    pid_limit: bool
    landlock: int
    seccomp: bool
    network: Network
    own_network: bool  # each sandbox has a network namespace of its own
    profiles: tuple[Profile, ...]
    moves: bool  # renames are handed over, because the layer cannot rename folders itself
    reports: bool  # refused unix sockets are reported
    proxy_port: int  # 0 without a proxy
    relayed_ports: tuple[int, ...]  # of servers on this machine's loopback that were granted
    hosts: tuple[str, ...]
    skill_name: str
    paths: tuple[tuple[str, Right, bool], ...]  # path, right, whether it must exist
    followed: tuple[str, ...]  # the paths that may lead through links
    home_links: tuple[tuple[str, str], ...]
    only_landlock: tuple[tuple[str, Right], ...]
    temporary_bytes: int
    workspace: Path
    cgroup: str  # the folder for the cgroups of sandboxes, "" without cgroups
    root: bool
    layered: bool  # each sandbox has a layer over the workspace
    stack: tuple[str, ...]  # layers of earlier calls between the two, the upmost first
    own_home: str  # the folder of a skill that its calls may write, "" if they may not
    own_tops: tuple[tuple[str, str], ...]  # folders that are shown there, with the paths
    covered: tuple[str, ...]  # what of the skill is mounted there
    protections: tuple[tuple[str, str], ...] = field(compare=False)

    @cached_property
    def required_paths(self) -> tuple[str, ...]:
        """The paths that must exist; cached, because every call needs them."""
        return tuple(path for path, _, required in self.paths if required)

    def fields(self, guarded: tuple[int, ...]) -> dict[str, Any]:
        """Return the zygote's configuration; `guarded` are processes that tools must not signal.

        Paths of the system are passed by name, all others as open descriptors.
        """
        fields = asdict(self)
        for name in _HOST_ONLY:
            del fields[name]
        named = [(path, right) for path, right, required in self.paths if not required]
        return {**fields, "named": named, "guarded": list(guarded)}

    def limit_fields(self, limits: Limits) -> tuple[tuple[str, int | None], ...]:
        """Return the limits that the kernel enforces in a sandbox; the host enforces the others."""
        # RLIMIT_NPROC counts per user and user namespace, and does not apply to root, getrlimit(2):
        # it is used only where it counts the processes of this sandbox alone.
        by_user = self.namespaces and self.user and not self.pid_limit and not self.root
        memory = limits.memory_bytes
        return (
            # As a plain int, without the fact that nobody set it: `marshal` knows no other.
            ("memory_bytes", None if memory is None else int(memory)),
            ("open_files", limits.open_files),
            ("file_bytes", limits.file_bytes),
            ("cpu_seconds", limits.cpu_seconds),
            ("processes", limits.processes),
            ("user_processes", limits.processes if by_user else None),
        )


def plan(confinement: Confinement, machine: Machine) -> Plan:
    """Choose the strongest confinement that this machine offers.

    Raises:
        SandboxUnavailableError: a required layer is missing, or files or the network would be
            unprotected and the caller did not pass `sandbox="off"`.
        ProfileUnavailableError: a profile cannot be held.
    """
    on = confinement.sandbox != "off"
    namespaces = on and machine.namespaces
    chosen = Plan(
        zygote=machine.adoption,
        confined=on,
        namespaces=namespaces,
        user=namespaces and machine.user_namespace,
        own_proc=namespaces and machine.own_proc,
        pid_limit=namespaces and machine.pid_limit,
        landlock=machine.landlock if on else 0,
        seccomp=on and machine.seccomp,
        network=confinement.network,
        own_network=namespaces and confinement.network != "host",
        profiles=(),
        moves=False,
        reports=False,
        proxy_port=PROXY_PORT if namespaces and confinement.network == "hosts" else 0,
        relayed_ports=tuple(relayed_hosts(confinement.hosts)) if namespaces else (),
        hosts=_spelt(confinement.hosts),
        skill_name=confinement.skill_name if confinement.network == "hosts" else "",
        paths=paths_of(confinement) if on else (),
        followed=tuple(map(str, (*confinement.interpreters, *confinement.followed))) if on else (),
        home_links=confinement.home_links if namespaces else (),
        only_landlock=_landlock_paths(confinement, namespaces=namespaces) if on else (),
        temporary_bytes=confinement.temporary_bytes,
        workspace=confinement.workspace,
        # Only when confined: an unconfined tool could leave its cgroup.
        cgroup=machine.cgroup if on and machine.adoption else "",
        root=machine.root,
        layered=namespaces and machine.overlay and _may_be_layered(confinement),
        stack=tuple(map(str, confinement.stack)),
        **_own_fields(confinement if namespaces else None),
        protections=(),
    )
    if chosen.stack and not chosen.layered:
        raise CommandStartError("the call", "what waits in its session cannot be shown to it")
    profiles = _profiles(confinement, chosen, machine) if on else ()
    # With local sockets the kernel hands system calls to their supervisor, and there can be one.
    is_handed = chosen.seccomp and machine.notifications and "local-sockets" not in profiles
    reports = chosen.own_network and is_handed
    moves = chosen.layered and chosen.own_proc and is_handed
    paths = (*chosen.paths, *_devices(machine)) if "gpu" in profiles else chosen.paths
    chosen = replace(chosen, profiles=profiles, reports=reports, moves=moves, paths=paths)
    protections = _protections(chosen, machine)
    reason = "; ".join(f"{layer}: {why}" for layer, why in machine.reasons)
    _refuse_unprotected(confinement, protections, reason)
    for profile in confinement.profiles:
        if on and profile not in chosen.profiles:
            raise ProfileUnavailableError(profile, why_not(profile, machine))
    return replace(chosen, protections=tuple(protections.items()))


def _own_fields(confinement: Confinement | None) -> dict[str, Any]:
    own = confinement.own if confinement is not None else None
    if confinement is None or own is None:
        return {"own_home": "", "own_tops": (), "covered": ()}
    home = str(confinement.skill)
    tops = [(str(own.top), home)]
    tops += [(f"{own.top}/{holder}", f"{home}/{holder}") for holder in own.holders]
    return {"own_home": home, "own_tops": tuple(tops), "covered": own.covered}


def _may_be_layered(confinement: Confinement) -> bool:
    return confinement.layered and not confinement.workspace_read_only


def _profiles(confinement: Confinement, chosen: Plan, machine: Machine) -> tuple[Profile, ...]:
    """Return the profiles of a call, as far as this machine can hold them."""
    found: list[Profile] = ["loopback"] if chosen.own_network and chosen.seccomp else []
    if chosen.own_network and not why_not("local-sockets", machine):
        found += [profile for profile in confinement.profiles if profile == "local-sockets"]
    if chosen.namespaces and not why_not("gpu", machine):
        found += [profile for profile in confinement.profiles if profile == "gpu"]
    if chosen.own_home and not why_not("own-folder", machine):
        found.append("own-folder")
    return tuple(found)


def why_not(profile: str, machine: Machine) -> str:
    """Return why this machine cannot hold a profile, "" if it can."""
    if not (machine.namespaces and machine.seccomp):
        return "it needs namespaces and seccomp, which do not work here"
    if profile == "local-sockets" and not machine.notifications:
        return "the kernel cannot hand over system calls here (seccomp_unotify, Linux 5.19)"
    if profile == "gpu" and not machine.gpu:
        return "there are no /dev/nvidia*, /dev/dri/renderD* or /dev/kfd here"
    return ""


def _devices(machine: Machine) -> tuple[tuple[str, Right, bool], ...]:
    """Return the devices of the profile "gpu", and where libraries look for facts about them."""
    facts = [fact for device in machine.gpu for fact in facts_of(device)]
    shown: list[tuple[str, Right, bool]] = [(device, "driver", False) for device in machine.gpu]
    return (*shown, *((fact, "read", False) for fact in dict.fromkeys(facts)))


def plan_around(confinement: Confinement, protections: Mapping[str, str], machine: Machine) -> Plan:
    """Choose what we enforce for a command that a provider of another package confines.

    These are the limits, and that no process outlives the call. A layer that the provider does not
    report counts as unprotected.

    Raises:
        SandboxUnavailableError: a required layer, files or the network would be unprotected.
    """
    if confinement.own is not None:
        reason = f"the sandbox {confinement.sandbox!r} cannot show it"
        raise ProfileUnavailableError("own-folder", reason)
    bare = replace(
        confinement, sandbox="off", network="none", hosts=(), profiles=(), required=frozenset()
    )
    chosen = plan(bare, machine)
    shown = {
        layer: _join(protections.get(layer, ""), "" if own == NOTHING else own)
        for layer, own in chosen.protections
    }
    shown["temp"] = protections.get("temp") or shown["temp"]  # the provider's folder replaces ours
    reason = f"the sandbox {confinement.sandbox!r} does not say that it does"
    _refuse_unprotected(confinement, shown, reason)
    return replace(chosen, protections=tuple(shown.items()))


def paths_of(confinement: Confinement) -> tuple[tuple[str, Right, bool], ...]:
    """Return what is visible: path, right, and whether it must exist.

    The wider of two rights for one path counts; a path comes before the paths inside it.
    """
    rights: dict[str, tuple[Right, bool]] = {}
    for path in SYSTEM:
        rights[path] = ("run", False)
    for path in DEVICES:
        rights[path] = ("device", False)
    named: tuple[tuple[tuple[Path, ...], Right], ...] = (
        (confinement.readable, "read"),
        ((*confinement.interpreters, *confinement.runnable), "run"),
        ((confinement.skill,) if confinement.skill else (), "run"),
        (confinement.writable, "write"),
        (confinement.tops, "write"),
        ((confinement.workspace,), "run" if confinement.workspace_read_only else "write"),
    )
    for paths, right in named:
        for named_path in paths:
            # A device that is also named as a file, as in PIP_CONFIG_FILE=/dev/null, stays a
            # device.
            if str(named_path) not in DEVICES:
                rights[str(named_path)] = (right, True)
    return tuple((path, *rights[path]) for path in sorted(rights))


def _spelt(hosts: tuple[str, ...]) -> tuple[str, ...]:
    """Return each host once, in its one spelling; raise HostError for an invalid host."""
    if not hosts:
        return ()
    from skillpouch.net.hosts import read_host

    return tuple(sorted({str(read_host(host)) for host in hosts}))


def _landlock_paths(confinement: Confinement, *, namespaces: bool) -> tuple[tuple[str, Right], ...]:
    pipes: tuple[tuple[str, Right], ...]
    pipes = ((str(confinement.pipes), "pipe"),) if confinement.pipes else ()
    if namespaces:
        # Listing folders reveals nothing in a root that contains only what was granted.
        # The terminals are those of the sandbox; /dev/tty is one of them, or none.
        seen: tuple[tuple[str, Right], ...] = (("/", "list"), ("/proc", "read"))
        return (*seen, ("/dev/pts", "terminal"), ("/dev/tty", "terminal"), *pipes)
    # Here the process table is that of the machine, and no rule can select a tool's own processes.
    return (*((path, "read") for path in PROC_FILES), *pipes)


def _protections(chosen: Plan, machine: Machine) -> dict[str, str]:
    # Landlock before ABI 3 lets files outside be truncated: alone, it does not count as a
    # protection.
    whole = chosen.namespaces or chosen.landlock >= _TRUNCATE
    landlock = f"landlock{chosen.landlock}" if chosen.landlock and whole else ""
    seccomp = "seccomp" if chosen.seccomp else ""
    pidns = "pidns" if chosen.namespaces else ""
    tree = pidns or ("subreaper" if machine.adoption else "process_group")
    cgroup = "cgroup2" if chosen.cgroup else ""
    scoped = landlock if chosen.landlock >= _SIGNAL_SCOPE else ""
    return {
        "fs": _join("romount" if chosen.namespaces else "", landlock),
        "net": _network(chosen, seccomp),
        "tree": tree,
        "signals": _join(pidns, scoped),
        "memory": _join("rlimit_data" if machine.memory else "", cgroup),
        "processes": _join(_process_limit(chosen), cgroup),
        "syscalls": seccomp or NOTHING,
        "temp": "private" if chosen.namespaces else "folder" if chosen.zygote else NOTHING,
        "profiles": _join(*chosen.profiles),
        "writes": "overlay" if chosen.layered else "direct",
    }


def _network(chosen: Plan, seccomp: str) -> str:
    netns = "netns" if chosen.namespaces else ""
    if chosen.network == "none":
        return _join(netns, seccomp)
    # Without its own network namespace, a tool could bypass the proxy: Landlock restricts ports,
    # but not addresses.
    return _join(netns, seccomp, "hosts") if chosen.proxy_port else NOTHING


def _process_limit(chosen: Plan) -> str:
    if chosen.pid_limit:
        return "pid_max"
    return "rlimit_nproc" if chosen.user and not chosen.root else ""


def _join(*layers: str) -> str:
    return "+".join(layer for layer in layers if layer) or NOTHING


def _refuse_unprotected(
    confinement: Confinement, protections: Mapping[str, str], reason: str
) -> None:
    wanted = set[str](confinement.required)
    if confinement.sandbox != "off":
        wanted |= {"fs"} if confinement.network == "host" else {"fs", "net"}
    missing = tuple(sorted(layer for layer in wanted if protections[layer] == NOTHING))
    if missing:
        raise SandboxUnavailableError(missing, reason)
