"""Tries each layer of protection in a throw-away child; reports whether it really denies access."""

from __future__ import annotations

import _socket
import errno
import os
import resource
import stat

from skillpouch.execution.zygote import (
    kernel,
    landlock,
    local_sockets,
    namespaces,
    overlay,
    seccomp,
    signals,
    spawn,
    wire,
)
from skillpouch.execution.zygote.seccomp import LOCAL, NUMBERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from skillpouch.execution.zygote.wire import Fields

# Exists on every machine, is readable by everybody, and is not granted below.
_FORBIDDEN = "/etc/passwd"
_GRANTED = [("/usr", "run"), ("/dev/null", "device")]
_SOCKET = "/skillpouch-trial"
_MEMORY_BYTES = 256 << 20  # more than an interpreter needs, and more than the small cgroup allows
_FEW_PROCESSES, _MORE_PROCESSES = 4, 20  # the limit to try, and how many processes try to exceed it


def report(control: _socket.socket) -> None:
    """Send one line per layer: its name, its value (0: not available), the reason.

    The host sends the `cgroup.procs` of a cgroup to try, and the folder in which to try layers over
    a workspace, as far as it has them.
    """
    message = wire.receive(control)
    given: Fields = message.value() if message is not None else {"cgroup": False, "layers": ""}
    fds = message.fds if message is not None else []
    # All at once, each in its own child: no trial needs the result of another.
    under_way = [
        begin("user_namespaces", lambda: try_namespaces(user=True)),
        begin("landlock", try_landlock),
        begin("seccomp", try_seccomp),
        begin("memory", try_memory),
        begin("adoption", try_adoption),
    ]
    if given["layers"]:
        begun = begin("overlay", lambda: try_overlay(True, given["layers"], fds[-1]))
        under_way.append(begun)
    if given["cgroup"]:
        under_way.append(begin("cgroup", lambda: try_cgroup(fds[0])))
    lines = [finish(*trial) for trial in under_way]
    if lines[0].startswith("user_namespaces 0") and os.geteuid() == 0:
        lines.append(attempt("root_namespaces", lambda: try_namespaces(user=False)))
        if given["layers"]:
            again = attempt("overlay", lambda: try_overlay(False, given["layers"], fds[-1]))
            lines.append(again)
    control.send("\n".join(lines).encode(errors="replace")[:4000])  # fits one packet


def attempt(name: str, trial: Callable[[], int]) -> str:
    return finish(*begin(name, trial))


def begin(name: str, trial: Callable[[], int]) -> tuple[str, int, int]:
    """Start a trial in a child; return its name, process id and result pipe."""
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_end, b"%s %d" % (name.encode(), trial()))
        except BaseException as error:
            os.write(write_end, f"{name} 0 {error}".encode(errors="replace")[:300])
        finally:
            os._exit(0)
    os.close(write_end)
    return name, pid, read_end


def finish(name: str, pid: int, read_end: int) -> str:
    answer = os.read(read_end, 400).decode(errors="replace")
    os.close(read_end)
    status = os.waitpid(pid, 0)[1]
    return answer.replace("\n", " ") or f"{name} 0 died with status {status}"


class NotEnforcedError(Exception):
    """The kernel accepted a layer, but it denied nothing."""


def must_deny(action: Callable[[], object], *codes: int) -> None:
    try:
        action()
    except OSError as error:
        if error.errno in codes:
            return
        raise
    raise NotEnforcedError("accepted, but it denies nothing")


def try_landlock() -> int:
    abi = landlock.version()
    if not abi:
        raise OSError(errno.ENOSYS, "not offered by this kernel")
    rules = landlock.ruleset(abi, [("/usr", "run")], "none")
    kernel.forbid_new_privileges()
    landlock.restrict(rules)
    must_deny(lambda: os.open(_FORBIDDEN, os.O_RDONLY), errno.EACCES)
    return abi


def try_seccomp() -> int:
    machine = os.uname().machine
    if machine not in NUMBERS:
        raise OSError(errno.ENOSYS, f"no system call table for {machine}")
    program = seccomp.assemble(machine, seccomp.arms("none", (1,), False))
    kernel.forbid_new_privileges()
    seccomp.install(machine, program)
    must_deny(lambda: _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM), errno.EACCES)
    must_deny(lambda: kernel.unshare(kernel.NEWUSER), errno.EPERM)
    return 1


def try_memory() -> int:
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    try:
        bytearray(2 * _MEMORY_BYTES)
    except MemoryError:
        return 1
    raise NotEnforcedError("accepted, but it denies nothing")


def try_cgroup(procs: int) -> int:
    """Prove that the small cgroup limits memory and the number of processes."""
    if not _ends_in_cgroup(procs, _fill_memory, by_signal=signals.KILL):
        raise NotEnforcedError("its processes can exceed the memory limit")
    if not _ends_in_cgroup(procs, _fork_more, by_signal=0):
        raise NotEnforcedError("it can exceed the limit of processes")
    return 1


def _ends_in_cgroup(procs: int, action: Callable[[], object], by_signal: int) -> bool:
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            kernel.enter_cgroup(procs)
            action()
        except BlockingIOError:
            status = 0  # EAGAIN: too many processes, fork(2)
        finally:
            os._exit(status)
    return os.waitpid(pid, 0)[1] == by_signal


def _fill_memory() -> None:
    # Written to, because memory that is only reserved does not count.
    bytearray(b"\1") * _MEMORY_BYTES


def _fork_more() -> None:
    for _ in range(_MORE_PROCESSES):
        if os.fork() == 0:
            os._exit(0)  # a zombie counts until it is reaped


def try_adoption() -> int:
    """Prove that an orphan becomes our child, and that we can see it."""
    kernel.adopt_orphans()
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        if os.fork() == 0:
            os.write(write_end, b"%d" % os.getpid())
            signals.wait_for_ever()
        os._exit(0)
    orphan = int(os.read(read_end, 20))
    os.waitpid(pid, 0)
    seen = orphan in spawn.children(os.getpid())
    spawn.AdoptedTree().end()
    return int(seen)


def try_namespaces(user: bool) -> int:
    """Return 1, plus 2 for a new /proc, plus 4 if processes can be limited, plus 8 for connects."""
    namespaces.leave(user, "none")
    return _in_child(_try_new_root)


def _try_new_root() -> int:
    namespaces.enter_new_root(_GRANTED, [], {}, {})
    must_deny(lambda: os.open(_FORBIDDEN, os.O_RDONLY), errno.ENOENT)
    must_deny(lambda: os.mkdir("/usr/skillpouch-trial"), errno.EROFS)
    if [name for _, name in _socket.if_nameindex() if name != "lo"]:
        raise NotEnforcedError("the network of the machine can be seen")
    table = os.open("/proc/self/ns/pid", os.O_RDONLY)
    kernel.unshare(kernel.NEWPID)
    given = _in_child(_try_process_table)
    kernel.setns(table, kernel.NEWPID)
    supervised = given > 1 and not attempt("connects", _try_connects).startswith("connects 0")
    return given + (8 if supervised else 0)


def _try_connects() -> int:
    """Prove that a supervisor refuses a socket outside of a sandbox's folders, and no other."""
    kernel.unshare(kernel.NEWNS)
    namespaces.mount_temporary([], {}, 1 << 20)
    namespaces.mount_own_processes()
    os.chdir("/proc")
    foreign, own = namespaces.TEMPORARY
    listening = [_listen(folder + _SOCKET) for folder in (foreign, own)]
    line, end = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        _connect_supervised(end, foreign + _SOCKET, own + _SOCKET)
    end.close()
    message = wire.receive(line)
    if message is None:
        raise OSError(errno.ENOSYS, "not offered by this kernel")
    local_sockets.Supervisor(message.fds[0], [os.stat(own).st_dev]).serve()
    if os.waitpid(pid, 0)[1]:
        raise NotEnforcedError("connects are not handed over, or not refused")
    return len(listening) // 2


def _listen(path: str) -> _socket.socket:
    sock = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    sock.bind(path)
    sock.listen(1)
    return sock


def _connect_supervised(supervisor: _socket.socket, foreign: str, own: str) -> None:
    status = 1
    try:
        machine = os.uname().machine
        program = seccomp.assemble(machine, seccomp.arms("none", (1,), False, opened=[LOCAL]))
        kernel.forbid_new_privileges()
        listener = seccomp.install(machine, program, listens=True)
        wire.send(supervisor, wire.READY, (listener,))
        supervisor.close()
        os.close(listener)
        one = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
        must_deny(lambda: one.connect(foreign), errno.EACCES)
        one.connect(own)
        status = 0
    finally:
        os._exit(status)


def _try_process_table() -> int:
    if os.getpid() != 1:
        raise NotEnforcedError("not the first process of its process namespace")
    kernel.unshare(kernel.NEWNS)
    namespaces.mount_temporary([], {}, 1 << 20)
    try:
        namespaces.mount_processes(None)
    except OSError:
        namespaces.hide_processes()
        return 1
    if [name for name in os.listdir("/proc") if name.isdigit() and name != "1"]:
        raise NotEnforcedError("processes of others can be seen")
    return 1 + 2 + (4 if _processes_are_limited() else 0)


def _processes_are_limited() -> bool:
    try:
        namespaces.mount_processes(_FEW_PROCESSES)
    except OSError:
        return False
    started = 0
    try:
        for _ in range(_MORE_PROCESSES):
            if os.fork() == 0:
                signals.wait_for_ever()
            started += 1
    except OSError:
        return started <= _FEW_PROCESSES
    finally:
        spawn.NamespaceTree().end()
    return False


def _in_child(trial: Callable[[], int]) -> int:
    name, given, *why = attempt("trial", trial).split(" ", 2)
    if given == "0":
        raise OSError(errno.EPERM, why[0] if why else name)
    return int(given)


_SEEN_AT = namespaces.TEMPORARY[1]  # where the overlay of the trial is mounted


def try_overlay(user: bool, layers: str, given: int) -> int:
    """Prove that an overlay keeps a folder as it is, and that its caches can be emptied.

    `given` is the opened folder `layers`, in which the real ones will be.
    """
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    trial = begin("overlay", lambda: _try_overlay_in(theirs, user, layers, given))
    theirs.close()
    message = wire.receive(ours)
    if message is not None:
        # Here, in the place of the host, which is outside of the namespaces, too.
        kernel.names_forgetter(message.fds[0])()
        wire.send(ours, wire.READY)
    _, value, *why = finish(*trial).split(" ", 2)
    if value == "0":
        raise OSError(errno.EPERM, why[0] if why else "denies nothing")
    return int(value)


def _try_overlay_in(line: _socket.socket, user: bool, layers: str, given: int) -> int:
    namespaces.leave(user, "none")
    return _in_child(lambda: _try_layer(line, layers, given))


def _try_layer(line: _socket.socket, layers: str, given: int) -> int:
    granted = [(layers, "write", given)]
    namespaces.enter_new_root(_GRANTED, granted, {}, {layers: overlay.LAYERS})
    lower, layer = (overlay.LAYERS + "/trial" + name for name in ("-lower", ""))
    for folder in (lower, layer, layer + "/upper", layer + "/work"):
        os.mkdir(folder)
    for name in ("/changed", "/deleted"):
        _write(lower + name, "before")
    tree = overlay.new_overlay(lower, layer, [])
    kernel.attach_tree(tree, _SEEN_AT)
    os.stat(_SEEN_AT + "/changed")
    _write(_SEEN_AT + "/changed", "after")
    os.unlink(_SEEN_AT + "/deleted")
    _must_be(_read(lower + "/changed") == _read(lower + "/deleted") == "before")
    _must_be(stat.S_ISCHR(os.stat(layer + "/upper/deleted").st_mode))
    os.rename(layer + "/upper/changed", layer + "/changed")
    os.unlink(layer + "/upper/deleted")
    _write(lower + "/deleted", "again")
    wire.send(line, wire.READY, (kernel.configuration_of(tree),))
    wire.receive(line)
    _must_be(_read(_SEEN_AT + "/changed") + _read(_SEEN_AT + "/deleted") == "beforeagain")
    return 1


def _must_be(holds: bool) -> None:
    if not holds:
        raise NotEnforcedError("an overlay can be mounted, but it does not keep a folder as it is")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _read(path: str) -> str:
    with open(path) as file:
        return file.read()
