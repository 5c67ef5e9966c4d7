"""Makes one sandbox, runs the calls that come to it, and ends every process of a call."""

from __future__ import annotations

import _socket
import errno
import os
import select
import time

from skillpouch.execution.zygote import alarm, kernel, namespaces, signals, wire
from skillpouch.execution.zygote.cleanup import (
    OwnFolders,
    OwnLoopback,
    Priorities,
    SharedFolder,
)
from skillpouch.execution.zygote.lookups import NameServer
from skillpouch.execution.zygote.notices import HandedOver
from skillpouch.execution.zygote.seal import Seal
from skillpouch.execution.zygote.spawn import (
    AdoptedTree,
    ForkThenSeal,
    NamespaceTree,
    SpawnRequest,
    SpawnSealed,
    reap_ended,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from resource import struct_rusage

    from skillpouch.execution.zygote.namespaces import NewRoot
    from skillpouch.execution.zygote.wire import Fields


# How long a prefork server may take to report the end of a call that was killed.
_PATIENCE_MS = 2000
_MOST_NUMBERS = 4  # exit code, microseconds in user and system mode, peak memory
_CRASHED = 9  # CRASHED of preforked/protocol.py, which is not imported here
_DO_NOT_WAIT = 0x40  # MSG_DONTWAIT


class WarmSandboxProcess:
    """Ends the processes of each call, and answers only when none of them is alive.

    Messages of the prefork server are not trusted: they are parsed as numbers, and can affect only
    the calls of its own skill.
    """

    def __init__(
        self, sock: _socket.socket, control: _socket.socket, leftovers: OwnFolders
    ) -> None:
        self._sock = sock
        self._control = control
        self._leftovers = leftovers
        self._tree = NamespaceTree()
        self._call = 1  # the number of the current or next call
        self._ready = False
        self._handed = HandedOver(-1)
        self._served: int | None = None  # whether it was a server, if it was told to end
        self._alarm = alarm.child_alarm()
        self._poll = select.poll()
        for fd in (sock.fileno(), control.fileno(), self._alarm):
            self._poll.register(fd, select.POLLIN)
        leftovers.watch(self._poll)

    def answer(self, handed: HandedOver) -> None:
        """Answer the system calls that are handed over; report sockets without a grant."""
        self._handed = handed
        handed.watch(self._poll)

    def serve(self) -> None:
        serving = True
        while serving:
            # Ended processes come first, then the orders of the host about them.
            ready = dict(self._poll.poll())
            if self._handed.fd in ready:
                self._handed.take(self._poll, ready[self._handed.fd])
            for fd in ready:
                self._leftovers.take_lookup(self._poll, fd)
            if self._alarm in ready:
                alarm.clear(self._alarm)
                reap_ended()
            if self._control.fileno() in ready:
                serving = self._hear()
            if serving and self._sock.fileno() in ready:
                serving = self._obey()
        self._leftovers.remove()

    def _hear(self) -> bool:
        """Handle one message of the prefork server; return whether this sandbox goes on."""
        kind, numbers = self._receive()
        if not self._ready:
            return self._begin(kind, numbers)
        if kind == wire.ENDED and len(numbers) == _MOST_NUMBERS:
            return self._finish(numbers)
        # Either it cannot serve this call after all, as a child has found out; or it is gone, and
        # its children are now ours; or its message is invalid.
        self._end_tree()
        if kind == wire.INELIGIBLE:
            self._say(wire.INELIGIBLE, numbers)
        else:
            self._say(wire.LOST, [self._call])
        return False

    def _receive(self) -> tuple[bytes, list[int]]:
        """Return the kind and the numbers of a message, b"" as the kind if it is not valid."""
        message = wire.receive(self._control)
        if message is None:
            return b"", []
        for fd in message.fds:
            os.close(fd)
        try:
            return message.kind, [int(word) for word in message.body.split(maxsplit=_MOST_NUMBERS)]
        except ValueError:
            return b"", []

    def _begin(self, kind: bytes, numbers: list[int]) -> bool:
        """Pass on that the prefork server is ready, or why it never will be."""
        self._ready = kind == wire.READY
        if self._ready:
            self._say(wire.READY, [])
            return True
        self._end_tree()
        self._say(wire.INELIGIBLE, numbers if kind == wire.INELIGIBLE else [_CRASHED])
        return False

    def _finish(self, numbers: list[int]) -> bool:
        """End what is left of the call and answer; return whether another call may follow."""
        left = self._served
        if left is None:
            left = self._leftovers.running(0) if reap_ended() else 0
        clean = self._end_tree() and self._leftovers.clean()
        # A child that was ended by a signal may have been still waiting: no other child may take
        # its call before the host knows.
        clean = clean and numbers[0] >= 0 and not self._handed.tried
        now = time.monotonic_ns() // 1000  # measured here, because a busy host reads it later
        names = self._leftovers.names()
        traces = self._handed.tried | left | self._leftovers.asked()
        traces |= 0 if clean else self._leftovers.traces()
        self._say(wire.ENDED, [self._call, *numbers, int(clean) | traces, now], names)
        self._call += 1
        self._served = None
        return clean and self._ask_for_next()

    def _ask_for_next(self) -> bool:
        try:
            # Without blocking: a prefork server that does not read must not block its sandbox.
            self._control.send(wire.NEXT, _DO_NOT_WAIT)
        except OSError:
            return False
        return True

    def _end_tree(self) -> bool:
        """Kill and reap; return whether nothing is left, not even zombies of the prefork server."""
        self._tree.end()
        return not self._tree.signal(signals.KILL)

    def _say(self, kind: bytes, numbers: list[int], names: Sequence[bytes] = ()) -> None:
        try:
            self._sock.send(b" ".join((kind, *(b"%d" % number for number in numbers), *names)))
        except OSError:
            return  # the host is gone, as the next receive will show

    def _obey(self) -> bool:
        """Carry out an order for the running call; return whether the host still exists."""
        message = wire.receive(self._sock)
        if message is None:
            return False
        if int(message.body) != self._call:
            return True  # the order came too late: that call has just ended
        self._served = (self._served or 0) | self._leftovers.serving()
        if message.kind == wire.TERMINATE:
            # A stopped process handles SIGTERM only after SIGCONT, signal(7).
            reached = self._tree.signal(signals.TERMINATE)
            self._tree.signal(signals.CONTINUE)
            return reached or self._give_up()
        return self._kill()

    def _kill(self) -> bool:
        """Kill the call; also a prefork server that has not begun it or does not report its end."""
        if not self._tree.signal(signals.KILL):
            return self._give_up()
        waiting = select.poll()
        waiting.register(self._control.fileno(), select.POLLIN)
        if not waiting.poll(_PATIENCE_MS):
            return self._give_up()
        call = self._call
        going_on = self._hear()
        # If the message was about something else, the server may begin the call only now.
        return self._give_up() if going_on and self._call == call else going_on

    def _give_up(self) -> bool:
        self._end_tree()
        traces = self._handed.tried | (self._served or 0)
        self._say(wire.ENDED, [self._call, -signals.KILL, 0, 0, 0, traces])
        return False


class SandboxProcess:
    """Starts a program, waits for it, and answers only when no process of it is alive."""

    def __init__(
        self,
        sock: _socket.socket,
        starter: SpawnSealed | ForkThenSeal,
        tree: NamespaceTree | AdoptedTree,
        leftovers: OwnFolders | SharedFolder,
        cpu_seconds: int | None,
    ) -> None:
        # RLIMIT_CPU counts per process, getrlimit(2), and a sandbox that is sealed like its
        # programs uses a little of its own limit with every call. At half of the limit the sandbox
        # ends, long before the kernel would kill it during a call.
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
        leftovers.watch(self._poll)
        self._handed = HandedOver(-1)
        self._served: int | None = None  # whether it was a server, if it was told to end

    def answer(self, handed: HandedOver) -> None:
        """Answer the system calls that are handed over; report sockets without a grant."""
        self._handed = handed
        handed.watch(self._poll)

    def serve(self) -> None:
        serving = True
        while serving:
            message = wire.receive(self._sock)
            if message is None:
                serving = False
            elif message.kind == wire.RUN:
                serving = self._run(message)
            # Anything else is an order for a call that has just ended: it came too late.
        self._leftovers.remove()

    def _run(self, message: wire.Message) -> bool:
        """Run one program; return whether this sandbox is as good as new afterwards."""
        call, argv, env, cwd, feeds = message.value()
        try:
            if not feeds:
                message.fds.insert(0, os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
            pid = self._starter.start(SpawnRequest(argv, env, cwd), message.fds)
        except (OSError, ValueError) as error:
            # ValueError: a word with a zero byte, a variable with an equals sign.
            reason = getattr(error, "errno", None) or errno.EINVAL
            self._answer(wire.NOT_STARTED + b" %d %d" % (call, reason))
            return True
        finally:
            for fd in message.fds:
                os.close(fd)
        ended = self._attend(call, pid)
        left = self._left_by(pid)
        self._tree.end()
        if ended is None:
            return False
        clean = self._is_as_new() and not self._handed.tried
        status, usage = ended
        microseconds = (int(usage.ru_utime * 1e6), int(usage.ru_stime * 1e6))
        names = self._leftovers.names()
        state = int(clean) | left | self._handed.tried | self._leftovers.asked()
        state |= 0 if clean else self._leftovers.traces()
        figures = (call, status, *microseconds, usage.ru_maxrss, state, 0)
        self._answer(b" ".join((wire.ENDED + b" %d %d %d %d %d %d %d" % figures, *names)))
        return clean

    def _left_by(self, pid: int) -> int:
        """Tell what a program that has ended left running, or was before it was told to end."""
        left, self._served = self._served, None
        if left is not None:
            return left
        return self._leftovers.running(pid) if reap_ended() else 0

    def _is_as_new(self) -> bool:
        is_worn = time.process_time() >= self._worn_after
        return not is_worn and self._priorities.are_unchanged() and self._leftovers.clean()

    def _answer(self, packet: bytes) -> None:
        try:
            self._sock.send(packet)
        except OSError:
            # The host is gone, as the next receive will show.
            return

    def _attend(self, call: int, pid: int) -> tuple[int, struct_rusage] | None:
        """Wait for the end of the program; reap orphans, pass on signals; None without a host."""
        while True:
            for fd, events in self._poll.poll():
                if fd == self._alarm:
                    alarm.clear(fd)
                    ended = _reap_until(pid)
                    if ended is not None:
                        return ended
                elif fd == self._handed.fd:
                    self._handed.take(self._poll, events)
                elif not self._leftovers.take_lookup(self._poll, fd) and not self._obey(call):
                    return None

    def _obey(self, call: int) -> bool:
        """Carry out an order for the running call; return whether the host still exists."""
        message = wire.receive(self._sock)
        if message is None:
            return False
        if int(message.body) == call:
            self._served = (self._served or 0) | self._leftovers.serving()
            if message.kind == wire.KILL:
                self._tree.signal(signals.KILL)
            elif message.kind == wire.TERMINATE:
                # A stopped process handles SIGTERM only after SIGCONT, signal(7).
                self._tree.signal(signals.TERMINATE)
                self._tree.signal(signals.CONTINUE)
        return True


def _reap_until(pid: int) -> tuple[int, struct_rusage] | None:
    """Reap ended processes; return the exit code and usage of `pid` if it is one of them."""
    while True:
        try:
            ended, status, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return None
        if ended == 0:
            return None
        if ended == pid:
            return os.waitstatus_to_exitcode(status), usage


_FIRST_PROCESS = 1  # the id of this process in its own PID namespace


def make_sandbox(
    sock: _socket.socket, config: Fields, limits: Fields, root: NewRoot
) -> SandboxProcess:
    if config["namespaces"]:
        return _in_namespace(sock, config, limits, root)
    return _as_adopter(sock, config, limits)


def _in_namespace(
    sock: _socket.socket, config: Fields, limits: Fields, root: NewRoot
) -> SandboxProcess:
    # The order matters: mounts need capabilities that the seal drops; the seal's Landlock rules
    # need the descriptors, which are closed before anything runs; and after `hide_from_peers`,
    # /proc/self belongs to root.
    loopback = _enter_network(config, limits)
    own = _open_view(config)
    _mount_view(config, limits, root)
    leftovers = OwnFolders(root.paths, loopback)
    seal = Seal(config, limits, (_FIRST_PROCESS,), list(namespaces.TEMPORARY))
    _close_opened(config)
    asked = seal.apply()
    if limits["supervisor_fd"] >= 0:
        tell_supervisor(limits, (*own, asked))
        os.close(asked)
        asked = -1
    _close(own)
    kernel.hide_from_peers()
    sandbox = SandboxProcess(sock, SpawnSealed(), NamespaceTree(), leftovers, limits["cpu_seconds"])
    sandbox.answer(HandedOver(asked, moves=config["moves"]))
    return sandbox


def make_warm_sandbox(
    sock: _socket.socket, control: _socket.socket, config: Fields, limits: Fields, root: NewRoot
) -> WarmSandboxProcess:
    loopback = _enter_network(config, limits)
    own = _open_view(config)
    _mount_view(config, limits, root)
    leftovers = OwnFolders(root.paths, loopback)
    if limits["supervisor_fd"] >= 0:
        tell_supervisor(limits, own)
    try:
        wire.send(control, wire.READY, own)
    except OSError:
        # The prefork server ended before it began: the call is lost, and no process of it is alive.
        wire.send(sock, wire.LOST + b" 1")
        os._exit(0)
    _close(own)
    listens = config["reports"] or config["moves"]
    handed = HandedOver(_asked_of(control) if listens else -1, moves=config["moves"])
    # Without Landlock: from ABI 6 on (Linux 6.12) it lets a process signal only its own domain, but
    # the calls that this process ends are in the domain of the prefork server. This process runs no
    # program itself.
    bare = {**config, "landlock": 0, "profiles": (), "reports": False, "moves": False}
    Seal(bare, limits, (_FIRST_PROCESS,), []).apply()
    kernel.hide_from_peers()
    sandbox = WarmSandboxProcess(sock, control, leftovers)
    sandbox.answer(handed)
    return sandbox


def _asked_of(control: _socket.socket) -> int:
    """Receive the listener of the prefork server, from our code in it, before any other runs."""
    message = wire.receive(control)
    return message.fds[0] if message is not None and message.fds else -1


def _open_view(config: Fields) -> tuple[int, ...]:
    """Open the mounts and the network of this sandbox, before `_mount_view` may cover /proc."""
    names = ("mnt", "net") if config["own_network"] else ("mnt",)
    flags = os.O_RDONLY | os.O_CLOEXEC
    return tuple(os.open("/proc/self/ns/" + name, flags) for name in names)


def tell_supervisor(limits: Fields, fds: tuple[int, ...]) -> None:
    """Send descriptors to the supervisor of local sockets, and close the way to it."""
    line = _socket.socket(fileno=limits["supervisor_fd"])
    wire.send(line, wire.READY, fds)
    line.close()


def _close(fds: tuple[int, ...]) -> None:
    for fd in fds:
        os.close(fd)


def _enter_network(config: Fields, limits: Fields) -> OwnLoopback | None:
    """Enter a network of this sandbox's own, and return its loopback.

    With hosts, the host listens there.
    """
    if not config["own_network"]:
        return None
    namespaces.enter()
    if config["proxy_port"]:
        ports = (config["proxy_port"], *config["relayed_ports"])
        namespaces.listen_for_host(limits["listener_fd"], ports)
        return OwnLoopback(ports, None)
    return OwnLoopback((), _name_server())


def _name_server() -> NameServer | None:
    try:
        return NameServer()
    except OSError:
        return None  # its calls look up names as if there were no server


def _mount_view(config: Fields, limits: Fields, root: NewRoot) -> None:
    """Mount the terminals, processes and temporary folders that only this sandbox sees."""
    namespaces.mount_terminals()
    if config["own_proc"]:
        namespaces.mount_processes(limits["processes"] if config["pid_limit"] else None)
    else:
        namespaces.hide_processes()
    namespaces.mount_temporary(root.paths, root.links, config["temporary_bytes"])


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
    """Close the descriptors of the rules: no tool may reach a folder through them."""
    for fd, _ in config["opened"]:
        os.close(fd)
