"""The zygote's loop: takes requests from the host, makes sandboxes and their warm processes."""

from __future__ import annotations

import _socket
import fcntl  # here: where nurseries are made, this interpreter may be out of sight
import gc
import os
import select

from skillpouch.execution.zygote import alarm, kernel, namespaces, signals, spawn, wire
from skillpouch.execution.zygote.leftovers import remove_folder
from skillpouch.execution.zygote.seal import Seal
from skillpouch.execution.zygote.slot import make_slot, make_warm_slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from skillpouch.execution.zygote.wire import Fields


# The program finds its jobs, its slot and what it prints at 3, 4 and 5; all else is closed.
_ROOM = 32  # descriptors are moved here first, out of the way of their final places


def start_nursery(
    nest: _socket.socket, jobs: int, table: int, config: Fields, limits: Fields
) -> None:
    """Turn into the nursery program; what it forks is born into the process table `table`."""
    kernel.die_with_parent()
    os.setsid()
    _enter_view(nest)
    kernel.setns(table, kernel.NEWPID)
    nursery: Fields = limits["nursery"]
    os.chdir(nursery["cwd"])
    _arrange((jobs, nest.fileno()))
    # Slots have numbers here, and its user: what changes another process is refused altogether.
    seal = Seal(config, limits, None, list(namespaces.TEMPORARY))
    for number in (signals.PIPE, signals.FILE_TOO_LARGE, signals.CHILD):
        signals.leave_to_kernel(number)
    seal.apply()
    os.execve(nursery["argv"][0], nursery["argv"], nursery["env"])  # noqa: S606


def _enter_view(nest: _socket.socket) -> None:
    """Join the mounts and the network of the slot, which sends them when they are made."""
    message = wire.receive(nest)
    if message is None:
        os._exit(1)
    for fd, kind in zip(message.fds, (kernel.NEWNS, kernel.NEWNET)):
        kernel.setns(fd, kind)
        os.close(fd)


def _arrange(given: tuple[int, int]) -> None:
    """Put descriptors where the program expects them, its standard streams on pipes.

    Pipes, because an interpreter looks at its streams once: those of a call are pipes too.
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
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _ROOM)


def serve(control: _socket.socket) -> None:
    # The interpreter's own handler would let a tool interrupt its slot: process 1 is deaf only to
    # signals it has no handler for.
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
    gc.collect()
    gc.freeze()
    # Outside, only its end proves that everything in its process table is dead.
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
                continue  # the one that was reading the list


def _prepare(control: _socket.socket, config: Fields, fds: list[int]) -> Zygote:
    """Enter the namespaces; `fds` are the paths that the host has checked, opened."""
    if not config["namespaces"]:
        kernel.adopt_orphans()
        config["opened"] = [(fd, right) for fd, (_, right) in zip(fds, config["given"])]
        return Zygote(control, config, namespaces.NewRoot({}))
    namespaces.leave(config["user"], config["network"])
    pid = os.fork()
    if pid:
        # The process table lives as long as its first process; this one only waits to be reaped.
        control.close()
        _close(fds)
        os.waitpid(pid, 0)
        os._exit(0)
    kernel.die_with_parent()
    given = [(path, right, fd) for fd, (path, right) in zip(fds, config["given"])]
    root = namespaces.enter_new_root(config["named"], given, config["links"])
    _close(fds)  # they lead to the whole machine; what they stand for is open in the new root
    config["opened"] = root.opened
    return Zygote(control, config, root)


def _close(fds: list[int]) -> None:
    for fd in fds:
        os.close(fd)


class Zygote:
    """Makes slots. It never reads a job and never runs anything itself."""

    def __init__(self, control: _socket.socket, config: Fields, root: namespaces.NewRoot) -> None:
        self._control = control
        self._config = config
        self._root = root
        self._opened = tuple(fd for fd, _ in config["opened"])
        self._slots: dict[int, str | None] = {}  # and the folder it has to itself, if any
        self._nurseries: dict[int, int] = {}  # by a descriptor that hangs up when their slot ends
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
                    self._end_nursery(fd)
                elif not self._take_order():
                    self._outlive_slots()
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
        folder = self._slots.pop(pid, None)
        if folder is not None:
            remove_folder(folder)  # it is still there if the slot was killed
        for lifeline, nursery in self._nurseries.items():
            if nursery == pid:
                self._nurseries[lifeline] = 0  # its number may soon be another's

    def _end_nursery(self, lifeline: int) -> None:
        """Kill the nursery whose slot has let go; without it the slot cannot quite end."""
        nursery = self._nurseries.pop(lifeline)
        if nursery:
            spawn.send(nursery, signals.KILL)
        self._poll.unregister(lifeline)
        os.close(lifeline)

    def _kill_strays(self) -> None:
        """Kill what a slot that was itself killed left behind: it was handed to us."""
        for child in spawn.children(os.getpid()):
            if child not in self._slots:
                for pid in (child, *spawn.descendants(child)):
                    spawn.send(pid, signals.KILL)

    def _outlive_slots(self) -> None:
        """Stay until the slots have ended; they see the same end of file.

        With a process namespace there is nothing to wait for: it ends with this process.
        """
        if self._own_table >= 0:
            return
        while self._slots:
            self._bury(os.wait()[0])
            self._kill_strays()
        spawn.AdoptedTree().end()

    def _take_order(self) -> bool:
        """Make one slot; whether there still is a host."""
        message = wire.receive(self._control)
        if message is None:
            return False
        limits: Fields = message.value()
        limits["cgroup"] = cgroup = message.fds.pop() if limits["in_cgroup"] else -1
        limits["porch"] = message.fds[-1] if self._config["proxy_port"] else -1
        sock = _socket.socket(fileno=message.fds[0])
        try:
            if limits["nursery"] is None:
                self._fork_slot(sock, limits)
            else:
                self._fork_with_nursery(sock, message.fds[1], limits)
        except OSError as error:
            wire.send_failure(sock, error)
        sock.close()
        _close(message.fds[1:])
        if cgroup >= 0:
            os.close(cgroup)
        return True

    def _fork_slot(self, sock: _socket.socket, limits: Fields) -> None:
        with self._new_table():
            slot = self._fork(sock, limits["cgroup"], lambda: self._slot(sock, limits))
        self._slots[slot] = limits["temporary"]

    def _fork_with_nursery(self, sock: _socket.socket, jobs: int, limits: Fields) -> None:
        """Fork a slot in a new table, and a nursery that stays outside and forks into it."""
        nest, end = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
        lifeline, held = os.pipe2(os.O_CLOEXEC)
        with self._new_table():
            slot = self._fork(
                sock, limits["cgroup"], lambda: self._warm_slot(sock, nest, held, limits)
            )
            table = os.open("/proc/self/ns/pid_for_children", os.O_RDONLY | os.O_CLOEXEC)
        os.close(held)
        nest.close()
        self._slots[slot] = None
        pid = self._fork(end, limits["cgroup"], lambda: self._nursery(end, jobs, table, limits))
        self._nurseries[lifeline] = pid
        self._poll.register(lifeline, 0)
        os.close(table)
        end.close()

    def _new_table(self) -> NewTable:
        return NewTable(self._own_table)

    def _fork(self, tell: _socket.socket, cgroup: int, become: Callable[[], None]) -> int:
        """Fork a child that never returns here; a failure is told to whom it concerns."""
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

    def _slot(self, sock: _socket.socket, limits: Fields) -> None:
        keep_only((0, 1, 2, sock.fileno(), limits["porch"], *self._opened))
        make_slot(sock, self._config, limits, self._root).serve()

    def _warm_slot(
        self, sock: _socket.socket, nest: _socket.socket, held: int, limits: Fields
    ) -> None:
        keep_only((0, 1, 2, sock.fileno(), nest.fileno(), held, limits["porch"]))
        slot = make_warm_slot(sock, nest, self._config, limits, self._root)
        try:
            slot.serve()
        except OSError:
            # Its nursery has limited it, say. Calls are lost, but confinement is not to blame.
            return

    def _nursery(self, end: _socket.socket, jobs: int, table: int, limits: Fields) -> None:
        keep_only((0, 1, 2, end.fileno(), jobs, table, *self._opened))
        start_nursery(end, jobs, table, self._config, limits)


class NewTable:
    """Inside, children are forked into a process table of their own; -1 does nothing."""

    def __init__(self, own_table: int) -> None:
        self._own_table = own_table

    def __enter__(self) -> None:
        if self._own_table >= 0:
            kernel.unshare(kernel.NEWPID)

    def __exit__(self, *_: object) -> None:
        if self._own_table >= 0:
            kernel.setns(self._own_table, kernel.NEWPID)
