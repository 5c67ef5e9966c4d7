"""ZygoteClient: starts a zygote, orders sandboxes from it, ends it; and views of stacked layers."""

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from array import array
from contextlib import nullcontext
from functools import cache, partial
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from skillpouch.environment import base_environment, state_directory
from skillpouch.execution.cgroups import Cgroup, Cgroups, bounds, find_parent, trial
from skillpouch.execution.command import PreforkSpec, Prestarted, SandboxKey
from skillpouch.execution.confinement import Plan
from skillpouch.execution.layers import trial_folder, why_direct
from skillpouch.execution.machine import Machine, read_report
from skillpouch.execution.opened_paths import OpenedPaths
from skillpouch.execution.package_files import packaged_configuration
from skillpouch.execution.prestarted import PrestartedSandbox
from skillpouch.execution.replies import Ineligible
from skillpouch.execution.sandbox_client import JobChannel, Layer, SandboxClient, SandboxOwner
from skillpouch.execution.sandbox_pool import AnySandbox, SandboxPool
from skillpouch.execution.zygote import wire
from skillpouch.runtime.memoize import BoundedCache
from skillpouch.untrusted_files import open_plain

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillpouch.execution.proxy.dialer import Dialer
    from skillpouch.execution.proxy.listener import ProxyListener


_PROGRAM = Path(__file__).with_name("zygote") / "main.py"


@cache
def this_python() -> str:
    """Return the executable of this process, by a path without `..`.

    A sandbox may lack folders that a path with `..` leads through. The file itself may stay a link:
    that is how Python finds its virtual environment.
    """
    path = Path(sys.executable)
    return str(path.parent.resolve() / path.name) if ".." in path.parts else sys.executable


def own_python() -> str:
    """Return the executable that Skillpouch's own programs run on."""
    # Not the one of the virtual environment: its .pth files are code of other packages.
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    return str(Path(base).resolve())


def zygote_command(mode: str) -> tuple[str, list[str]]:
    """Return the executable and the words that start the zygote program in `mode`."""
    executable = own_python()
    return executable, [executable, "-I", "-S", "-X", "utf8", str(_PROGRAM), mode]


@cache
def node_runs_typescript(node: str) -> bool:
    """Ask Node whether it runs TypeScript directly; it gets nothing from any skill."""
    words = [node, "-p", "process.features.typescript || ''"]
    try:
        ran = subprocess.run(
            words, env=base_environment(), capture_output=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return bool(ran.stdout.strip())


_CONTROL = 3
_MOST_IDLE_SANDBOXES = (
    16  # each costs about 1.4 MB; with a prefork server 3 MB plus the loaded modules
)
_WARMING_SECONDS = 0.03  # the assumed cost of a start, until one was measured
_PATIENCE_SECONDS = 5.0  # for the end of processes that the kernel has killed
_FIRST_PAUSE, _LAST_PAUSE = 0.001, 1.0  # between tries to remove cgroups, in seconds
_MOST_SPARE = 3  # programs that wait for their call: a Node takes 40 MB
# What a host ignores would be ignored by every program of every call, signal(7): under nohup(1)
# none could be hung up.
_ALL_SIGNALS = signal.valid_signals()


def start_program(mode: str) -> tuple[int, socket.socket]:
    """Start the zygote program; return its process and our end of its control socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    executable, argv = zygote_command(mode)
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    places = ((nothing, 0), (nothing, 1), (nothing, 2), (theirs.fileno(), _CONTROL))
    try:
        pid = os.posix_spawn(
            executable,
            argv,
            {"LC_ALL": "C.UTF-8"},
            file_actions=[(os.POSIX_SPAWN_DUP2, fd, place) for fd, place in places],
            setsid=True,
            setsigmask=(),
            setsigdef=_ALL_SIGNALS,
        )
    except OSError:
        ours.close()
        raise
    finally:
        os.close(nothing)
        theirs.close()
    return pid, ours


def _new_folder_name() -> str:
    import tempfile

    return f"{os.path.realpath(tempfile.gettempdir())}/skillpouch-{os.urandom(8).hex()}"


class ZygoteClient:
    """Makes sandboxes of one plan on demand, and keeps them while they are used."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        plan: Plan,
        opened: OpenedPaths,
        dialer: "Callable[[], Dialer]",
    ) -> None:
        self._layers = opened.layers
        self._loop = loop
        self._plan = plan
        self._dialer = dialer
        self._cgroups = Cgroups(plan.cgroup) if plan.cgroup else None
        self._pools: dict[SandboxKey, SandboxPool] = {}
        self._unmounted: dict[int, Layer] = {}  # by their numbers: those the zygote has not mounted
        self._pid, self._control = start_program("serve")
        self._pidfd = os.pidfd_open(self._pid)
        self._first = -1  # pidfd of the first process of its PID namespace, once received
        self.ended = loop.create_future()
        self.alive = True
        self.failure = ""
        self.used_at = loop.time()
        loop.add_reader(self._control.fileno(), self._read)
        loop.add_reader(self._pidfd, self._reap)
        guarded = (os.getpid(), os.getpgid(0))
        fields = {**plan.fields(guarded), **opened.fields()}
        fields["named"] += opened.named
        fields["workspace"] = str(plan.workspace)
        wire.send_value(self._control, wire.CONFIGURE, fields, opened.descriptors)

    @property
    def busy(self) -> bool:
        return any(pool.in_use for pool in self._pools.values())

    def take_idle(self, key: SandboxKey) -> AnySandbox | None:
        """Return an idle sandbox with this key, if there is one."""
        pool = self._pools.get(key)
        if pool is None:
            return None
        self.used_at = self._loop.time()
        return pool.take_idle()

    async def take(self, key: SandboxKey) -> AnySandbox | Ineligible:
        """Return a sandbox with this key for the caller alone; OSError if the zygote is gone."""
        self.used_at = self._loop.time()
        pool = self._pools.get(key)
        if pool is None:
            pool = self._pools[key] = self._new_pool(key)
        return await pool.take()

    def _new_pool(self, key: SandboxKey) -> SandboxPool:
        if key.warm is None:
            return SandboxPool(self._loop, partial(self._new_sandbox, key), self)
        spare = _MOST_SPARE if isinstance(key.warm, Prestarted) else 0
        make = partial(self._new_warm, key)
        return SandboxPool(self._loop, make, self, start_seconds=_WARMING_SECONDS, most_spare=spare)

    def _new_warm(self, key: SandboxKey, owner: SandboxOwner) -> AnySandbox:
        if isinstance(key.warm, Prestarted):
            return PrestartedSandbox(self._loop, key.warm, owner, partial(self._new_sandbox, key))
        return self._new_sandbox(key, owner)

    def _new_sandbox(self, key: SandboxKey, owner: SandboxOwner) -> SandboxClient:
        layer = self._new_layer()
        cgroup = self._new_cgroup(key)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        temporary = None if self._plan.namespaces else _new_folder_name()
        jobs = JobChannel(key.warm) if isinstance(key.warm, PreforkSpec) else None
        fields: dict[str, Any] = {**dict(key.limits), "temporary": temporary}
        fields["prefork"] = jobs.order() if jobs else None
        fields["in_cgroup"] = cgroup is not None
        fields["layer"] = layer.number if layer is not None else 0
        listener = self._new_listener()
        lines = [line for line in (jobs, listener, cgroup) if line is not None]
        given = (theirs.fileno(), *(fd for line in lines for fd in line.theirs()))
        # Sent without waiting for the zygote, which reads it when it is ready.
        try:
            wire.send_value(self._control, wire.NEW_SANDBOX, fields, given)
        except OSError:
            for end in (ours, *lines, *((layer,) if layer is not None else ())):
                end.close()
            raise
        finally:
            theirs.close()
            for line in lines:
                line.close_theirs()
        sandbox = SandboxClient(
            self._loop, ours, owner, temporary=temporary, jobs=jobs, listener=listener
        )
        sandbox.cgroup, sandbox.layer = cgroup, layer
        return sandbox

    def _new_layer(self) -> Layer | None:
        if self._layers is None:
            return None
        layer = Layer(self._layers.new(self._plan))
        self._unmounted[layer.number] = layer
        return layer

    def _new_cgroup(self, key: SandboxKey) -> Cgroup | None:
        if self._cgroups is None:
            return None
        # Without namespaces the temporary folder is on a disk, not in memory.
        temporary_bytes = self._plan.temporary_bytes if self._plan.namespaces else 0
        return self._cgroups.new(bounds(dict(key.limits), temporary_bytes))

    def _new_listener(self) -> "ProxyListener | None":
        if not self._plan.proxy_port:
            return None
        from skillpouch.execution.proxy.allowlist import Allowlist, relayed_hosts
        from skillpouch.execution.proxy.listener import ProxyListener

        granted = Allowlist(hosts=self._plan.hosts, skill=self._plan.skill_name)
        relayed = relayed_hosts(self._plan.hosts)
        return ProxyListener(self._loop, granted, self._dialer(), relayed.values())

    def used(self) -> None:
        """Note that a call has ended; close an idle sandbox if there are too many."""
        self.used_at = self._loop.time()
        idle = [(len(pool.idle), pool) for pool in self._pools.values()]
        if sum(count for count, _ in idle) > _MOST_IDLE_SANDBOXES:
            max(idle, key=itemgetter(0))[1].trim()

    def lost(self, sandbox: AnySandbox) -> None:
        """End the zygote when a sandbox was lost: only that proves that its programs are dead.

        Except when the kernel has killed its cgroup: removing the cgroup proves the same.
        """
        cgroup = sandbox.cgroup
        if self.alive and cgroup is not None and cgroup.out_of_memory:
            cgroup.when_removed(sandbox.confirm_lost)
            self._loop.call_later(_PATIENCE_SECONDS, self._end_with, sandbox, cgroup)
        else:
            self._end_with(sandbox, None)

    def _end_with(self, sandbox: AnySandbox, cgroup: Cgroup | None) -> None:
        if cgroup is None or not cgroup.is_removed:
            self.close()
            self.ended.add_done_callback(lambda _: sandbox.confirm_lost())

    def end_idle_sandboxes(self, before: float) -> None:
        """Close sandboxes not used since `before`."""
        for key, pool in list(self._pools.items()):
            pool.end_idle(before)
            if not pool.in_use and not pool.idle and not pool.is_ineligible:
                del self._pools[key]

    def _read(self) -> None:
        if not self._hear():
            self._let_go()

    def _hear(self) -> bool:
        """Read the messages of the zygote; return whether it is still alive."""
        try:
            while (received := self._receive())[0]:
                packet, fd = received
                if packet[:1] == wire.FAILED:
                    self.failure = packet[1:].strip().decode(errors="replace")
                elif packet[:1] == wire.LAYER:
                    self._unmounted.pop(int(packet[1:])).note_mounted(fd)
                elif fd >= 0:
                    self._first = fd
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def _receive(self) -> tuple[bytes, int]:
        """Return a packet, and the descriptor that came with it, if any."""
        flags = socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        # Not socket.recv_fds, which ignores its flags.
        packet, given, _, _ = self._control.recvmsg(1024, socket.CMSG_SPACE(4), flags)
        fds = [int.from_bytes(rights[:4], sys.byteorder) for _, _, rights in given]
        return packet, fds[0] if fds else -1

    def _reap(self) -> None:
        self._loop.remove_reader(self._pidfd)
        os.close(self._pidfd)
        self._pidfd = -1
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        self._let_go()
        if self._first < 0:
            self._end()
        else:
            # If the process we started was killed, the other processes may still be ending.
            self._loop.add_reader(self._first, self._end)

    def _end(self) -> None:
        if self._first >= 0:
            self._loop.remove_reader(self._first)
            os.close(self._first)
            self._first = -1
        self._finish(_FIRST_PAUSE)

    def _finish(self, pause: float) -> None:
        """Set `ended` when the cgroups are gone; after the last try, the next host removes them."""
        if self._cgroups is not None and not self._cgroups.remove() and pause < _LAST_PAUSE:
            self._loop.call_later(pause, self._finish, 2 * pause)
        elif not self.ended.done():
            self.ended.set_result(None)

    def close(self) -> None:
        """End the zygote, and every sandbox with what it runs."""
        if self.alive:
            self._let_go()
            for pool in self._pools.values():
                for sandbox in pool.busy:
                    sandbox.drop()

    def _let_go(self) -> None:
        if not self.alive:
            return
        self.alive = False
        self._hear()  # the end of a sandbox may be noticed before the zygote's reason is read
        self._loop.remove_reader(self._control.fileno())
        self._control.close()
        for pool in self._pools.values():
            pool.close()

    def reap(self) -> None:
        """Wait for the end of an abandoned zygote that this process started."""
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self._pid, 0)
        if self._cgroups is not None:
            self._cgroups.remove()

    def abandon(self) -> None:
        """Close descriptors only: the loop is closed or, after a fork, belongs to the parent."""
        self._control.close()
        if self._cgroups is not None:
            self._cgroups.abandon()
        for fd in (self._pidfd, self._first):
            if fd >= 0:
                os.close(fd)
        self._pidfd = self._first = -1
        for pool in self._pools.values():
            for sandbox in (*pool.busy, *pool.idle):
                sandbox.abandon()


_PROBE_SECONDS = 20.0
_lock = threading.Lock()
_known: dict[int, Machine] = {}  # by process id: a forked process may have entered other namespaces


def probe() -> Machine:
    """Return the layers that deny access when tried in throw-away processes; on Linux only."""
    with _lock:
        machine = _known.get(os.getpid())
        if machine is None:
            machine = _known[os.getpid()] = _try()
            # Already now, because this is a thread in which it may take its time, once per change
            # of the machine's packages; zygotes need it.
            packaged_configuration()
        return machine


async def why_no_layer(workspace: Path) -> str:
    """Return why a confined call would write directly to a workspace, "" if it would not."""
    machine = _known.get(os.getpid())
    machine = machine or await asyncio.to_thread(probe)
    return why_direct(workspace, machine, state_directory())


class _StackView:
    """An overlay of the workspace and the layers of a session's calls, mounted nowhere."""

    def __init__(self, tree: int, configuration: int) -> None:
        from skillpouch.execution.zygote.kernel import names_forgetter

        self._fds = (tree, configuration)
        self._forget = names_forgetter(configuration)

    def opened(self) -> int:
        """Return a descriptor of its root, which shows all folders as they are now."""
        # Also where it is refused because the overlay is read-only, names were forgotten first.
        self._forget()
        return os.dup(self._fds[0])

    def __del__(self) -> None:
        for fd in self._fds:
            os.close(fd)


_views: BoundedCache[tuple[int, tuple[Path, ...]], _StackView] = BoundedCache(8)


def open_stack(folders: tuple[Path, ...]) -> int:
    """Return a descriptor of folders laid over each other, the upmost first; nobody can write it.

    So the host sees what a call sees that runs on layers of earlier calls. Raises OSError.
    """
    key = (os.getpid(), folders)
    view = _views.get(key)
    if view is None:
        view = _views[key] = _new_view(folders)
    return view.opened()


def _new_view(folders: tuple[Path, ...]) -> _StackView:
    opened: list[int] = []
    pid, control = start_program("show")
    control.settimeout(_PROBE_SECONDS)
    try:
        opened.extend(open_plain(str(each)) for each in folders)
        fields = {"user": probe().user_namespace, "folders": [str(each) for each in folders]}
        wire.send_value(control, wire.CONFIGURE, fields, tuple(opened))
        # Not socket.recv_fds, which ignores its flags.
        flags = socket.MSG_CMSG_CLOEXEC
        packet, given, _, _ = control.recvmsg(1024, socket.CMSG_SPACE(8), flags)
    finally:
        control.close()
        for fd in opened:
            os.close(fd)
        os.waitpid(pid, 0)
    if packet[:1] != wire.READY:
        raise OSError(packet[1:].strip().decode(errors="replace") or "no overlay could be made")
    return _StackView(*array("i", given[0][2]))


def _try() -> Machine:
    if not hasattr(os, "pidfd_open") or not hasattr(socket, "SOCK_SEQPACKET"):
        return Machine(reasons=(("system", "confinement is supported on Linux only"),))
    parent = find_parent()
    with trial(parent) if parent else nullcontext(()) as given, trial_folder() as (path, why, fds):
        report = _report({"cgroup": bool(given), "layers": path}, (*given, *fds))
    if why:
        report += f"\noverlay 0 {why}"
    return read_report(report, root=os.geteuid() == 0, cgroup=parent)


def _report(fields: dict[str, object], given: tuple[int, ...]) -> str:
    """Try each layer; `given` are the descriptors that the fields tell of."""
    pid, control = start_program("probe")
    control.settimeout(_PROBE_SECONDS)
    try:
        wire.send_value(control, wire.CONFIGURE, fields, given)
        return control.recv(4096).decode(errors="replace")
    except OSError as error:
        return f"trials 0 {error}"
    finally:
        control.close()
        os.waitpid(pid, 0)
