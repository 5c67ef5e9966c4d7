"""ZygoteServer: takes orders from the host, and forks sandboxes and prefork servers."""

from __future__ import annotations

import _socket
import fcntl  # imported now: later, the files of this interpreter may be invisible
import gc
import os
import select

from skillpouch.execution.zygote import alarm, kernel, namespaces, seccomp, signals, spawn, wire
from skillpouch.execution.zygote.cleanup import remove_folder
from skillpouch.execution.zygote.local_sockets import supervise
from skillpouch.execution.zygote.overlay import LAYERS, LayerMounts, Overlays, stacked_at
from skillpouch.execution.zygote.sandbox_process import (
    make_sandbox,
    make_warm_sandbox,
    tell_supervisor,
)
from skillpouch.execution.zygote.seal import Seal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from skillpouch.execution.zygote.wire import Fields


# The program expects its jobs, its sandbox and its own output at 3, 4 and 5
# (preforked/protocol.py).
# Descriptors are first moved to this number or above, away from their final places.
_FIRST_SPARE = 32
_CONTROL = 4


def start_preforked(
    control: _socket.socket, jobs: int, table: int, config: Fields, limits: Fields
) -> None:
    """Become the prefork server; its children start in the PID namespace `table`.

    setns(2) with CLONE_NEWPID moves only later children, never the caller: the server itself stays
    outside, where no call can see or signal it, pid_namespaces(7).
    """
    kernel.die_with_parent()
    os.setsid()
    _enter_view(control)
    kernel.setns(table, kernel.NEWPID)
    prefork: Fields = limits["prefork"]
    os.chdir(prefork["cwd"])
    if limits["supervisor_fd"] >= 0:
        limits["supervisor_fd"] = _move_up(limits["supervisor_fd"])
    _arrange((jobs, control.fileno()))
    # Sandboxes of this zygote have process ids here and run as the same user, so the filter refuses
    # system calls that change other processes. Signals are left: they can only end calls of its own
    # skill.
    seal = Seal(config, limits, None, list(namespaces.TEMPORARY))
    # An ignored signal stays ignored through an exec, signal(7), and the interpreter reads these
    # settings at its start.
    for number in (signals.PIPE, signals.FILE_TOO_LARGE, signals.CHILD):
        signals.leave_to_kernel(number)
    asked = seal.apply()  # last, because it forbids the setns above
    if limits["supervisor_fd"] >= 0:
        tell_supervisor(limits, (asked,))
    elif asked >= 0:
        _hand_over(asked)
    os.execve(prefork["argv"][0], prefork["argv"], prefork["env"])  # noqa: S606


def _hand_over(asked: int) -> None:
    """Give the listener of the filter to the sandbox, before anything of a skill runs here."""
    control = _socket.socket(fileno=_CONTROL)
    wire.send(control, wire.READY, (asked,))
    control.detach()


def _enter_view(control: _socket.socket) -> None:
    """Join the mounts and the network of the sandbox, which sends them when they are ready."""
    message = wire.receive(control)
    if message is None:
        os._exit(1)
    for fd, kind in zip(message.fds, (kernel.NEWNS, kernel.NEWNET)):
        kernel.setns(fd, kind)
        os.close(fd)


def _arrange(given: tuple[int, int]) -> None:
    """Put descriptors where the program expects them; its standard streams become pipes.

    Pipes, because the interpreter examines its streams once, at its start, and those of a call are
    pipes, too.
    """
    idle_read, idle_write = os.pipe()
    printed, output = os.pipe()
    os.close(idle_write)
    os.set_blocking(printed, False)
    wanted = (idle_read, output, output, *given, printed)
    moved = [_move_up(fd) for fd in wanted]
    for place, fd in enumerate(moved):
        os.dup2(fd, place)


def _move_up(fd: int) -> int:
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_SPARE)


def serve(control: _socket.socket) -> None:
    # With the interpreter's SIGINT handler, a tool could interrupt its sandbox: from inside its
    # namespace, process 1 gets only signals that it has a handler for, pid_namespaces(7).
    signals.leave_to_kernel(signals.INTERRUPT)
    keep_only((0, 1, 2, control.fileno()))
    message = wire.receive(control)
    if message is None:
        return
    try:
        zygote = _prepare(control, message.value(), message.fds)
    except OSError as error:
        wire.send_failure(control, error)
        return
    # The collector does not visit frozen objects. Otherwise it would write to their pages, and so
    # copy them, in every forked process.
    gc.collect()
    gc.freeze()
    # The host gets a pidfd: only the end of this process proves that everything in its PID
    # namespace is dead.
    own_end = os.pidfd_open(os.getpid())
    wire.send(control, wire.READY, (own_end,))
    os.close(own_end)
    zygote.serve()


def keep_only(wanted: tuple[int, ...]) -> None:
    """Close every descriptor but these, whatever the host forgot to mark close-on-exec."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in wanted:
            try:
                os.close(int(name))
            except OSError:
                continue  # the descriptor of the listing itself is already closed


def _prepare(control: _socket.socket, config: Fields, fds: list[int]) -> ZygoteServer:
    """Enter the namespaces; `fds` are the opened paths that the host has checked."""
    if not config["namespaces"]:
        kernel.adopt_orphans()
        config["opened"] = [(fd, right) for fd, (_, right) in zip(fds, config["given"])]
        return ZygoteServer(control, config, namespaces.NewRoot({}))
    if config["layered"]:
        config["copies"][config["layers"]] = LAYERS
        for number, path in enumerate(config["stack"]):
            config["copies"][path] = stacked_at(number)
    namespaces.leave(config["user"], config["network"])
    pid = os.fork()  # the child is process 1: unshare(2) with CLONE_NEWPID does not move the caller
    if pid:
        # The PID namespace lives as long as its first process; this one only waits for that.
        control.close()
        _close(fds)
        os.waitpid(pid, 0)
        os._exit(0)
    kernel.die_with_parent()
    given = [(path, right, fd) for fd, (path, right) in zip(fds, config["given"])]
    covered = (config["own_home"], config["covered"])
    root = namespaces.enter_new_root(
        config["named"], given, config["links"], config["copies"], covered
    )
    _close(fds)  # they lead into the machine's own mounts; the new root has its own descriptors
    config["opened"] = root.opened
    return ZygoteServer(control, config, root)


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


class ZygoteServer:
    """Makes sandboxes. It never reads a call and never runs a program itself."""

    def __init__(self, control: _socket.socket, config: Fields, root: namespaces.NewRoot) -> None:
        self._control = control
        self._config = config
        self._root = root
        self._overlays = Overlays(config)
        self._opened = tuple(fd for fd, _ in config["opened"])
        self._sandboxes: dict[int, str | None] = {}  # process id → its own temporary folder, if any
        # A pipe that hangs up when a sandbox ends → the process id of its prefork server.
        self._prefork_servers: dict[int, int] = {}
        self._poll = select.poll()
        self._own_table = -1
        if config["namespaces"]:
            self._own_table = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)

    def serve(self) -> None:
        waker = alarm.child_alarm()
        self._poll.register(self._control.fileno(), select.POLLIN)
        self._poll.register(waker, select.POLLIN)
        while True:
            for fd, _ in self._poll.poll():
                if fd == waker:
                    alarm.clear(waker)
                    self._reap()
                elif fd != self._control.fileno():
                    self._end_preforked(fd)
                elif not self._take_order():
                    self._outlive_sandboxes()
                    return

    def _reap(self) -> None:
        try:
            while True:
                pid = os.waitpid(-1, os.WNOHANG)[0]
                if pid == 0:
                    break
                self._bury(pid)
        except ChildProcessError:
            return
        if self._own_table < 0:
            self._kill_strays()

    def _bury(self, pid: int) -> None:
        folder = self._sandboxes.pop(pid, None)
        if folder is not None:
            remove_folder(folder)  # the folder still exists if the sandbox was killed
        for alive_fd, prefork in self._prefork_servers.items():
            if prefork == pid:
                self._prefork_servers[alive_fd] = 0  # its process id may be reused soon

    def _end_preforked(self, alive_fd: int) -> None:
        """Kill the prefork server of a sandbox that has closed its pipe: only then can it end."""
        prefork = self._prefork_servers.pop(alive_fd)
        if prefork:
            spawn.send(prefork, signals.KILL)
        self._poll.unregister(alive_fd)
        os.close(alive_fd)

    def _kill_strays(self) -> None:
        """Kill the processes that a killed sandbox left behind: we are their parent now."""
        for child in spawn.children(os.getpid()):
            if child not in self._sandboxes:
                for pid in (child, *spawn.descendants(child)):
                    spawn.send(pid, signals.KILL)

    def _outlive_sandboxes(self) -> None:
        """Stay until the sandboxes have ended, which see the end of the host, too.

        With a PID namespace there is nothing to wait for: it ends with this process.
        """
        if self._own_table >= 0:
            return
        while self._sandboxes:
            self._bury(os.wait()[0])
            self._kill_strays()
        spawn.AdoptedTree().end()

    def _take_order(self) -> bool:
        """Make one sandbox; return whether the host still exists."""
        message = wire.receive(self._control)
        if message is None:
            return False
        self._make(message)
        return True

    def _make(self, message: wire.Message) -> None:
        limits: Fields = message.value()
        limits["cgroup"] = cgroup = message.fds.pop() if limits["in_cgroup"] else -1
        limits["listener_fd"] = message.fds[-1] if self._config["proxy_port"] else -1
        sock = _socket.socket(fileno=message.fds[0])
        limits["supervisor_fd"] = -1
        limits["mounts"] = None
        try:
            limits["mounts"] = self._new_mounts(limits["layer"])
            if seccomp.LOCAL in self._config["profiles"]:
                limits["supervisor_fd"] = self._fork_supervisor()
            if limits["prefork"] is None:
                self._fork_sandbox(sock, limits)
            else:
                self._fork_with_preforked(sock, message.fds[1], limits)
        except OSError as error:
            wire.send_failure(sock, error)
        if limits["mounts"] is not None:
            limits["mounts"].close()
        sock.close()
        _close(message.fds[1:])
        _close([fd for fd in (cgroup, limits["supervisor_fd"]) if fd >= 0])

    def _fork_supervisor(self) -> int:
        """Fork the supervisor of a sandbox's local sockets; return the descriptor that reaches it.

        It is outside of the PID namespace of the sandbox: no call can see or signal it.
        """
        line, end = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        # It has nobody to tell of a failure: the sandbox fails when it finds it gone.
        self._fork(end, -1, lambda: self._supervise(end))
        end.close()
        return line.detach()

    def _supervise(self, end: _socket.socket) -> None:
        keep_only((0, 1, 2, end.fileno()))
        supervise(end, self._root.paths)

    def _fork_sandbox(self, sock: _socket.socket, limits: Fields) -> None:
        with self._new_table():
            sandbox = self._fork(sock, limits["cgroup"], lambda: self._sandbox(sock, limits))
        self._sandboxes[sandbox] = limits["temporary"]

    def _fork_with_preforked(self, sock: _socket.socket, jobs: int, limits: Fields) -> None:
        """Fork a sandbox in a new PID namespace, and a prefork server that forks into it."""
        control, end = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        alive_fd, held = os.pipe2(os.O_CLOEXEC)
        with self._new_table():
            sandbox = self._fork(
                sock, limits["cgroup"], lambda: self._warm_sandbox(sock, control, held, limits)
            )
            # Exists since Linux 4.12, and is valid only after the first child was made,
            # namespaces(7).
            table = os.open("/proc/self/ns/pid_for_children", os.O_RDONLY | os.O_CLOEXEC)
        os.close(held)
        control.close()
        self._sandboxes[sandbox] = None
        pid = self._fork(end, limits["cgroup"], lambda: self._prefork(end, jobs, table, limits))
        self._prefork_servers[alive_fd] = pid
        self._poll.register(alive_fd, 0)  # no events: POLLHUP is always reported, poll(2)
        os.close(table)
        end.close()

    def _new_table(self) -> PidNamespace:
        return PidNamespace(self._own_table)

    def _fork(self, tell: _socket.socket, cgroup: int, become: Callable[[], None]) -> int:
        """Fork a child that never returns; report its failure to `tell`."""
        pid = os.fork()
        if pid:
            return pid
        try:
            if cgroup >= 0:
                kernel.enter_cgroup(cgroup)
            become()
        except BaseException as error:
            wire.send_failure(tell, error)
        finally:
            os._exit(0)

    def _sandbox(self, sock: _socket.socket, limits: Fields) -> None:
        ways = (sock.fileno(), limits["listener_fd"], limits["supervisor_fd"])
        keep_only((0, 1, 2, *ways, *self._opened, *self._mounts(limits)))
        self._lay(limits)
        make_sandbox(sock, self._config, limits, self._root).serve()

    def _warm_sandbox(
        self, sock: _socket.socket, control: _socket.socket, held: int, limits: Fields
    ) -> None:
        ways = (limits["listener_fd"], limits["supervisor_fd"], *self._mounts(limits))
        keep_only((0, 1, 2, sock.fileno(), control.fileno(), held, *ways))
        self._lay(limits)
        sandbox = make_warm_sandbox(sock, control, self._config, limits, self._root)
        try:
            sandbox.serve()
        except OSError:
            # Its prefork server may have changed or used up one of its limits. The call is lost,
            # but confinement has not failed.
            return

    def _new_mounts(self, number: int) -> LayerMounts | None:
        """Make the overlay of a sandbox, if it has one, and tell the host."""
        mounts = self._overlays.new(number)
        if mounts is not None:
            configuration = mounts.configuration()
            wire.send(self._control, wire.LAYER + b" %d" % number, (configuration,))
            os.close(configuration)
        return mounts

    def _mounts(self, limits: Fields) -> tuple[int, ...]:
        return (*limits["mounts"].fds, self._overlays.lower) if limits["mounts"] else ()

    def _lay(self, limits: Fields) -> None:
        """Enter a mount namespace of this sandbox's own, and cover the workspace in it."""
        if self._own_table >= 0:
            kernel.unshare(kernel.NEWNS)
        if limits["mounts"] is not None:
            limits["mounts"].attach(self._overlays.lower)
            os.close(self._overlays.lower)

    def _prefork(self, end: _socket.socket, jobs: int, table: int, limits: Fields) -> None:
        keep_only((0, 1, 2, end.fileno(), jobs, table, limits["supervisor_fd"], *self._opened))
        start_preforked(end, jobs, table, self._config, limits)


class PidNamespace:
    """Inside this block, children are forked into a new PID namespace; -1 does nothing."""

    def __init__(self, own_table: int) -> None:
        self._own_table = own_table

    def __enter__(self) -> None:
        if self._own_table >= 0:
            kernel.unshare(kernel.NEWPID)

    def __exit__(self, *_: object) -> None:
        # Back to its own: a process whose children go to another namespace cannot unshare again
        # (EINVAL).
        if self._own_table >= 0:
            kernel.setns(self._own_table, kernel.NEWPID)
