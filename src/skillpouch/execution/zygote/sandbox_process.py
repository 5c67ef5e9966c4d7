"""One sandbox: made, given calls, ended."""

from __future__ import annotations

import errno
import os
import select
import time

from skillpouch.execution.zygote import alarm, kernel, namespaces, signals, wire
from skillpouch.execution.zygote.cleanup import OwnFolders, Priorities, SharedFolder
from skillpouch.execution.zygote.seal import Seal
from skillpouch.execution.zygote.spawn import (
    AdoptedTree,
    ForkThenSeal,
    Job,
    NamespaceTree,
    SpawnSealed,
)
from skillpouch.execution.zygote.warm_sandbox import WarmSandboxProcess

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from resource import struct_rusage

    from skillpouch.execution.zygote.namespaces import NewRoot
    from skillpouch.execution.zygote.wire import Fields


class SandboxProcess:
    """Starts a program, watches over it, and answers only when nothing of it is alive."""

    def __init__(
        self,
        sock: _socket.socket,
        starter: SpawnSealed | ForkThenSeal,
        tree: NamespaceTree | AdoptedTree,
        leftovers: OwnFolders | SharedFolder,
        cpu_seconds: int | None,
    ) -> None:
        # Sealed like its programs, a sandbox uses up the limit too, a little with every call.
        self._worn_after = float("inf") if cpu_seconds is None else cpu_seconds / 2
        self._sock = sock
        self._starter = starter
        self._tree = tree
        self._leftovers = leftovers
        self._priorities = Priorities()
        self._alarm = alarm.child_alarm()
        self._poll = select.poll()
        self._poll.register(sock.fileno(), select.POLLIN)
        self._poll.register(self._alarm, select.POLLIN)

    def serve(self) -> None:
        serving = True
        while serving:
            message = wire.receive(self._sock)
            if message is None:
                serving = False
            elif message.kind == wire.RUN:
                serving = self._run(message)
            # Anything else is a signal for a call that has just ended: late, not wrong.
        self._leftovers.remove()

    def _run(self, message: wire.Message) -> bool:
        """Run one program; whether this sandbox is as good as new afterwards."""
        call, argv, env, cwd, feeds = message.value()
        try:
            if not feeds:
                message.fds.insert(0, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            pid = self._starter.start(Job(argv, env, cwd), message.fds)
        except (OSError, ValueError) as error:
            # ValueError: a word with a zero byte, a variable with an equals sign.
            reason = getattr(error, "errno", None) or errno.EINVAL
            self._answer(wire.NOT_STARTED + b" %d %d" % (call, reason))
            return True
        finally:
            for fd in message.fds:
                os.close(fd)
        ended = self._attend(call, pid)
        self._tree.end()
        if ended is None:
            return False
        clean = self._is_as_new()
        status, usage = ended
        microseconds = (int(usage.ru_utime * 1e6), int(usage.ru_stime * 1e6))
        figures = (call, status, *microseconds, usage.ru_maxrss, clean)
        self._answer(wire.ENDED + b" %d %d %d %d %d %d" % figures)
        return clean

    def _is_as_new(self) -> bool:
        is_worn = time.process_time() >= self._worn_after
        return not is_worn and self._priorities.are_unchanged() and self._leftovers.clean()

    def _answer(self, packet: bytes) -> None:
        try:
            self._sock.send(packet)
        except OSError:
            # The host is gone; the next receive says so.
            return

    def _attend(self, call: int, pid: int) -> tuple[int, struct_rusage] | None:
        """Wait for the program to end, reaping orphans and passing signals on."""
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._alarm:
                    alarm.clear(fd)
                    ended = _reap_until(pid)
                    if ended is not None:
                        return ended
                elif not self._obey(call):
                    return None

    def _obey(self, call: int) -> bool:
        """Do what the host asks about the running call; whether there still is a host."""
        message = wire.receive(self._sock)
        if message is None:
            return False
        if int(message.body) == call:
            if message.kind == wire.KILL:
                self._tree.signal(signals.KILL)
            elif message.kind == wire.TERMINATE:
                self._tree.signal(signals.TERMINATE)
                self._tree.signal(signals.CONTINUE)
        return True


def _reap_until(pid: int) -> tuple[int, struct_rusage] | None:
    """Reap what has ended; the exit code and usage of `pid` if it was among them."""
    while True:
        try:
            ended, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if ended == 0:
            return None
        if ended == pid:
            return os.waitstatus_to_exitcode(status), usage


_FIRST_PROCESS = 1


def make_sandbox(
    sock: _socket.socket, config: Fields, limits: Fields, root: NewRoot
) -> SandboxProcess:
    if config["namespaces"]:
        return _in_namespace(sock, config, limits, root)
    return _as_adopter(sock, config, limits)


def _in_namespace(
    sock: _socket.socket, config: Fields, limits: Fields, root: NewRoot
) -> SandboxProcess:
    kernel.unshare(kernel.NEWNS)
    _enter_network(config, limits)
    leftovers = _mount_view(config, limits, root)
    seal = Seal(config, limits, (_FIRST_PROCESS,), list(namespaces.TEMPORARY))
    _close_opened(config)
    seal.apply()
    kernel.hide_from_peers()
    return SandboxProcess(sock, SpawnSealed(), NamespaceTree(), leftovers, limits["cpu_seconds"])


def make_warm_sandbox(
    sock: _socket.socket, control: _socket.socket, config: Fields, limits: Fields, root: NewRoot
) -> WarmSandboxProcess:
    kernel.unshare(kernel.NEWNS)
    _enter_network(config, limits)
    names = ("mnt", "net") if config["proxy_port"] else ("mnt",)
    own = tuple(map(_open_namespace, names))  # /proc may be covered next
    leftovers = _mount_view(config, limits, root)
    try:
        wire.send(control, wire.READY, own)
    except OSError:
        # The prefork server is gone before it began: the call is lost, and nothing of it is alive.
        wire.send(sock, wire.LOST + b" 1")
        os._exit(0)
    for fd in own:
        os.close(fd)
    # Outside Landlock: it lets a process signal only its own domain, and the calls that this one
    # ends live in the prefork server's. It runs nothing itself.
    Seal({**config, "landlock": 0}, limits, (_FIRST_PROCESS,), []).apply()
    kernel.hide_from_peers()
    return WarmSandboxProcess(sock, control, leftovers)


def _open_namespace(name: str) -> int:
    return os.open("/proc/self/ns/" + name, os.O_RDONLY | os.O_CLOEXEC)


def _enter_network(config: Fields, limits: Fields) -> None:
    """Take a network of this sandbox's own where a call may reach hosts; all others have none."""
    if config["proxy_port"]:
        namespaces.enter(limits["listener_fd"], config["proxy_port"])


def _mount_view(config: Fields, limits: Fields, root: NewRoot) -> OwnFolders:
    """Mount the process table and the temporary folders that only this sandbox sees."""
    if config["own_proc"]:
        namespaces.mount_processes(limits["processes"] if config["pid_limit"] else None)
    else:
        namespaces.hide_processes()
    namespaces.mount_temporary(root.paths, root.links, config["temporary_bytes"])
    return OwnFolders(root.paths)


def _as_adopter(sock: _socket.socket, config: Fields, limits: Fields) -> SandboxProcess:
    kernel.adopt_orphans()
    leftovers = SharedFolder(limits["temporary"])
    guarded = (os.getpid(), os.getppid(), *config["guarded"])
    starter = ForkThenSeal(Seal(config, limits, guarded, [limits["temporary"]]))
    _close_opened(config)
    if config["confined"]:
        kernel.hide_from_peers()
    return SandboxProcess(sock, starter, AdoptedTree(), leftovers, None)


def _close_opened(config: Fields) -> None:
    """Close what the rules were made of: no tool may ever get at a folder by its descriptor."""
    for fd, _ in config["opened"]:
        os.close(fd)
