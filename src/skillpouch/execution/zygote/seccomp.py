"""The seccomp filter of a sandbox, and the system call numbers it is made of."""

from __future__ import annotations

import ctypes
import errno
import struct

from skillpouch.execution.zygote import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Instruction = tuple[int, int, int, int]


# AUDIT_ARCH_…, linux/audit.h: a filter must check it, because numbers differ between architectures.
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

# System calls since Linux 5.1 have the same number on every architecture.
_COMMON = {
    "pidfd_send_signal": 424,
    "io_uring_setup": 425,
    "io_uring_enter": 426,
    "io_uring_register": 427,
    "open_tree": 428,
    "move_mount": 429,
    "fsopen": 430,
    "fsconfig": 431,
    "fsmount": 432,
    "fspick": 433,
    "pidfd_open": 434,
    "clone3": 435,
    "openat2": 437,
    "pidfd_getfd": 438,
    "process_madvise": 440,
    "mount_setattr": 442,
    "quotactl_fd": 443,
    "memfd_secret": 447,
    "fchmodat2": 452,
    "open_tree_attr": 467,
}

_NAMES = (
    "socket socketpair ptrace process_vm_readv process_vm_writev mount umount2 pivot_root chroot "
    "unshare setns clone keyctl add_key request_key bpf perf_event_open userfaultfd kexec_load "
    "kexec_file_load init_module finit_module delete_module reboot swapon swapoff acct "
    "settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname quotactl "
    "open_by_handle_at name_to_handle_at fanotify_init ioctl kcmp syslog vhangup seccomp "
    "prlimit64 sched_setaffinity sched_setscheduler sched_setparam setpriority kill tkill tgkill "
    "rt_sigqueueinfo rt_tgsigqueueinfo shmget semget msgget mq_open move_pages migrate_pages "
    "sched_setattr ioprio_set openat mkdirat mknodat fchmod fchmodat mmap memfd_create io_setup "
    "inotify_init1 fcntl connect listen renameat renameat2"
).split()

# In the order of _NAMES, from asm/unistd_64.h and asm-generic/unistd.h.
_X86_64 = (
    41, 53, 101, 310, 311, 165, 166, 155, 161,
    272, 308, 56, 250, 248, 249, 321, 298, 323, 246,
    320, 175, 313, 176, 169, 167, 168, 163,
    164, 227, 159, 305, 170, 171, 179,
    304, 303, 300, 16, 312, 103, 153, 317,
    302, 203, 144, 142, 141, 62, 200, 234,
    129, 297, 29, 64, 68, 240, 279, 256,
    314, 251, 257, 258, 259, 91, 268, 9, 319, 206,
    294, 72, 42, 50, 264, 316,
)  # fmt: skip
_AARCH64 = (
    198, 199, 117, 270, 271, 40, 39, 41, 51,
    97, 268, 220, 219, 217, 218, 280, 241, 282, 104,
    294, 105, 273, 106, 142, 224, 225, 89,
    170, 112, 171, 266, 161, 162, 60,
    265, 264, 262, 29, 272, 116, 58, 277,
    261, 122, 119, 118, 140, 129, 130, 131,
    138, 240, 194, 190, 186, 180, 239, 238,
    274, 30, 56, 34, 33, 52, 53, 222, 279, 0,
    26, 25, 203, 201, 38, 276,
)  # fmt: skip

NUMBERS = {
    "x86_64": {
        **_COMMON,
        **dict(zip(_NAMES, _X86_64)),
        # System calls that newer architectures do not have.
        "iopl": 172,
        "ioperm": 173,
        "modify_ldt": 154,
        "open": 2,
        "creat": 85,
        "mkdir": 83,
        "mknod": 133,
        "chmod": 90,
        "inotify_init": 253,
        "rename": 82,
    },
    "aarch64": {**_COMMON, **dict(zip(_NAMES, _AARCH64))},
}

# Refused whatever their arguments. Those of the last row would leave memory behind after the call.
DENIED = (
    "ptrace process_vm_readv process_vm_writev process_madvise pidfd_getfd kcmp "
    "mount umount2 pivot_root chroot unshare setns open_tree open_tree_attr move_mount fsopen "
    "fsconfig fsmount fspick mount_setattr open_by_handle_at name_to_handle_at fanotify_init "
    "keyctl add_key request_key bpf perf_event_open userfaultfd memfd_secret "
    "io_uring_setup io_uring_enter io_uring_register io_setup "
    "kexec_load kexec_file_load init_module finit_module delete_module reboot swapon swapoff "
    "acct settimeofday clock_settime adjtimex clock_adjtime sethostname setdomainname quotactl "
    "quotactl_fd syslog vhangup iopl ioperm modify_ldt move_pages migrate_pages "
    "shmget semget msgget mq_open"
).split()


# Classic BPF, linux/filter.h: load a word, jump if equal, if at least, if any bit is set, return.
_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
# SECCOMP_RET_ALLOW, _KILL_PROCESS (since Linux 4.14), _ERRNO and _USER_NOTIF (5.0), seccomp(2).
_ALLOW, _KILL, _ERRNO, _NOTIFY = 0x7FFF0000, 0x80000000, 0x00050000, 0x7FC00000
_SET_MODE_FILTER = 1
# SECCOMP_FILTER_FLAG_NEW_LISTENER, and _WAIT_KILLABLE_RECV (Linux 5.19): without the second, a
# signal restarts a connect that the supervisor has made already, which then fails with EISCONN.
_WITH_LISTENER = 8 | 32
# Calls of the x32 ABI have the same AUDIT_ARCH, and this bit in their numbers: without a check they
# would match no rule, seccomp(2).
_X32_BIT = 0x40000000

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
LOCAL = "local-sockets"
REPORTS = "reports"
MOVES = "moves"
RENAMES = ("rename", "renameat", "renameat2")
# In the sixth argument of renameat2(2), which the kernel does not use: it shall not hand this one
# over. No secret: whoever says it gets what the kernel allows the call.
BY_KERNEL = 0x5EED
# SOCK_STREAM and SOCK_SEQPACKET, with and without SOCK_NONBLOCK and SOCK_CLOEXEC.
_STREAMS = (1, 0x801, 0x80001, 0x80801)
_PACKETS = (5, 0x805, 0x80005, 0x80805)
# SOCK_DGRAM with SOCK_NONBLOCK and SOCK_CLOEXEC: glibc, musl and Go ask a name server with one. For
# localhost, which glibc finds in a file, it orders the addresses with one that blocks.
_LOOKUP = 0x80802
_TCP = (0, 6)
# NEWTIME, NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET
_NAMESPACE_FLAGS = 0x7E020000 | 0x80
# The child would become a sibling of the call, which the sandbox does not track, clone(2).
_CLONE_PARENT = 0x8000
# Insert input into a terminal; and load a line discipline, code of the kernel that no terminal of a
# program needs: ioctl_tty(2).
_TERMINAL_IOCTLS = (0x5412, 0x541C, 0x5423)  # TIOCSTI, TIOCLINUX, TIOCSETD
_PRIO_PROCESS, _IOPRIO_PROCESS = 0, 1
_ONESELF = (0,)
# Set-user-ID and set-group-ID: such a file runs with the rights of its owner.
_MARKS = 0o6000
_MODE_PLACES = {
    "chmod": 1,
    "fchmod": 1,
    "fchmodat": 2,
    "fchmodat2": 2,
    "creat": 1,
    "mkdir": 1,
    "mkdirat": 2,
    "mknod": 1,
    "mknodat": 2,
}
_MAP_SHARED, _MAP_ANONYMOUS = 1, 0x20
_CREATES = 0o100 | 0o20000000  # O_CREAT and __O_TMPFILE: without them the mode is not used, open(2)
_EVERYBODY = 0xFFFFFFFF  # kill(-1)
# F_SETLEASE, and F_SETDELEG of Linux 6.19: another process that opens the file must wait for the
# lease holder, up to /proc/sys/fs/lease-break-time. The right to read a file is enough for a lease,
# fcntl(2).
_LEASES = (1024, 1040)
_SET_OWNER = (8, 15)  # F_SETOWN and F_SETOWN_EX
_SET_SOCKET_OWNER = (0x8901, 0x8902)  # FIOSETOWN and SIOCSPGRP


_TOLD: list[Instruction] = [(_RETURN, 0, 0, _NOTIFY)]


def _argument(index: int) -> int:
    # struct seccomp_data: number, architecture, instruction pointer, arguments from byte 16 on.
    # This loads the low half of a 64-bit argument (little endian): nearly every compared value is
    # an int.
    return 16 + 8 * index


def _refuse(code: int) -> list[Instruction]:
    return [(_RETURN, 0, 0, _ERRNO | code)]


def _only(code: int, *choices: tuple[int, ...]) -> list[Instruction]:
    """Allow the call if each argument, from the first on, is one of its choices."""
    return _choices(code, 0, choices)


def _choices(code: int, first: int, choices: Sequence[tuple[int, ...]]) -> list[Instruction]:
    """Allow the call if each argument, from number `first` on, is one of its choices."""
    body: list[Instruction] = []
    for index, values in enumerate(choices, first):
        body.append((_LOAD, 0, 0, _argument(index)))
        # A match jumps over the other choices and the refusal after them.
        body += [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
        body += _refuse(code)
    return [*body, (_RETURN, 0, 0, _ALLOW)]


def _never(index: int, values: tuple[int, ...], code: int) -> list[Instruction]:
    """Refuse the call when the argument is one of `values`."""
    body: list[Instruction] = [(_LOAD, 0, 0, _argument(index))]
    for value in values:
        body += [(_EQUAL, 0, 1, value & 0xFFFFFFFF), *_refuse(code)]
    return [*body, (_RETURN, 0, 0, _ALLOW)]


def _without(index: int, bits: int, code: int) -> list[Instruction]:
    body: list[Instruction] = [(_LOAD, 0, 0, _argument(index)), (_ANY_BIT, 0, 1, bits)]
    return [*body, *_refuse(code), (_RETURN, 0, 0, _ALLOW)]


def _made_without(flags: int, mode: int) -> list[Instruction]:
    """Refuse to create a file with set-ID bits; `flags` and `mode` are argument numbers."""
    return [
        (_LOAD, 0, 0, _argument(flags)),
        (_ANY_BIT, 1, 0, _CREATES),
        (_RETURN, 0, 0, _ALLOW),
        *_without(mode, _MARKS, errno.EPERM),
    ]


# Which sockets may be made: allowed families, types, protocols. No datagrams between processes:
# each can have its own address, behind a pointer.
_OF_THE_INTERNET = ((AF_INET, AF_INET6), _STREAMS, _TCP)
_OF_THE_MACHINE = ((AF_INET, AF_INET6, AF_NETLINK),)
_BETWEEN_PROCESSES = ((AF_UNIX,), (*_STREAMS, *_PACKETS))


def _for_sockets(network: str, opened: Sequence[str]) -> dict[str, list[Instruction]]:
    """Return the rules for sockets; `opened` are the profiles of the call.

    A unix socket that is refused gives EUNATCH and nothing else does, so that an error message
    tells what the call lacked. With EAFNOSUPPORT, LibreOffice would try again until its time is up.
    With "reports" in it, the sandbox is told of a refused one, too: not of the kind by which glibc
    asks nscd(8) for names, in nearly every program. And it is told of names that are looked up.
    """
    kinds: list[tuple[tuple[int, ...], ...]] = []
    if network == "host":
        kinds.append(_OF_THE_MACHINE)
    elif network == "hosts" or "loopback" in opened:
        kinds.append(_OF_THE_INTERNET)
    body: list[Instruction] = [(_LOAD, 0, 0, _argument(0))]
    for families, *others in [*kinds, *([_BETWEEN_PROCESSES] if LOCAL in opened else [])]:
        rest = _choices(errno.EACCES, 1, others)
        if REPORTS in opened:
            rest = [(_LOAD, 0, 0, _argument(1)), (_EQUAL, 0, 1, _LOOKUP), *_TOLD, *rest]
        for family in families:
            body += [(_EQUAL, 0, len(rest), family), *rest]
    if LOCAL not in opened:
        refused = _TOLD if REPORTS in opened else _refuse(errno.EUNATCH)
        unnoticed = [(_EQUAL, 0, 1, _STREAMS[-1]), *_refuse(errno.EUNATCH)]
        body += [(_EQUAL, 0, 4, AF_UNIX), (_LOAD, 0, 0, _argument(1)), *unnoticed, *refused]
    table = {"socket": [*body, *_refuse(errno.EACCES)]}
    # Sockets of these types stay connected to each other. A datagram socket could send to any
    # socket whose name is visible.
    table["socketpair"] = _only(errno.EACCES, (AF_UNIX,), (*_STREAMS, *_PACKETS))
    if LOCAL in opened:
        # Their supervisor does both: an address is behind a pointer, and a socket that listens may
        # lie where others find it.
        table["connect"] = table["listen"] = _TOLD
    return table


def _for_files() -> dict[str, list[Instruction]]:
    """Return the rules for system calls that make files, the most frequent first.

    Like systemd's RestrictSUIDSGID=, but also for files without a name (O_TMPFILE).
    """
    table = {"openat": _made_without(2, 3), "open": _made_without(1, 2)}
    for name, place in _MODE_PLACES.items():
        table[name] = _without(place, _MARKS, errno.EPERM)
    # A filter cannot read its mode, which is behind a pointer. ENOSYS makes programs fall back to
    # openat, as on kernels before 5.6.
    table["openat2"] = _refuse(errno.ENOSYS)
    return table


def _for_memory(most_shared: int | None) -> dict[str, list[Instruction]]:
    """Refuse memory that RLIMIT_DATA does not count, getrlimit(2), because no process owns it.

    memfd_create has no limit of its own; with ENOSYS, programs fall back to a temporary file. Each
    anonymous shared mapping may have at most `most_shared` bytes.
    """
    table = {"memfd_create": _refuse(errno.ENOSYS)}
    if most_shared is not None:
        size = _argument(1)
        table["mmap"] = [
            (_LOAD, 0, 0, _argument(3)),
            (_ANY_BIT, 0, 6, _MAP_ANONYMOUS),
            (_ANY_BIT, 0, 5, _MAP_SHARED),
            (_LOAD, 0, 0, size + 4),  # the high half of the size: any bit in it is too much
            (_ANY_BIT, 2, 0, 0xFFFFFFFF),
            (_LOAD, 0, 0, size),
            (_AT_LEAST, 0, 1, min(most_shared, 0xFFFFFFFE) + 1),
            *_refuse(errno.ENOMEM),
            (_RETURN, 0, 0, _ALLOW),
        ]
    return table


def _for_priorities() -> dict[str, list[Instruction]]:
    """Let a process change only its own priorities, limits and processors.

    A call could otherwise slow down its sandbox, and with it the next call.
    """
    table = {"setpriority": _only(errno.EPERM, (_PRIO_PROCESS,), _ONESELF)}
    table["ioprio_set"] = _only(errno.EPERM, (_IOPRIO_PROCESS,), _ONESELF)
    for name in ("setaffinity", "setattr", "setscheduler", "setparam"):
        table["sched_" + name] = _only(errno.EPERM, _ONESELF)
    table["prlimit64"] = _only(errno.EPERM, _ONESELF)
    return table


def arms(
    network: str,
    guarded: tuple[int, ...] | None,
    shared_pids: bool,
    shared_user: bool = False,
    most_shared: int | None = None,
    opened: Sequence[str] = (),
) -> dict[str, list[Instruction]]:
    """Return the rules of the filter: the instructions for each system call, by name.

    With `shared_pids` the tool shares the machine's PID namespace, so signals to `guarded`
    processes and to all are refused; with `shared_user` its resources count for the host's user.
    `most_shared` limits shared memory; `opened` are the profiles of the call. With "local-sockets",
    "reports" or "moves" the filter needs a listener, which `install` returns; with "moves" it is
    handed every rename.
    """
    table = {**_for_files(), **_for_memory(most_shared), **_for_sockets(network, opened)}
    if MOVES in opened:
        table.update(dict.fromkeys(RENAMES, _TOLD))
        by_kernel = (_EQUAL, 0, 1, BY_KERNEL), (_RETURN, 0, 0, _ALLOW)
        table["renameat2"] = [(_LOAD, 0, 0, _argument(5)), *by_kernel, *_TOLD]
    if shared_user:
        # A user has 128 inotify instances by default; without a free one, no program can watch
        # files.
        for name in ("inotify_init", "inotify_init1"):
            table[name] = _refuse(errno.EMFILE)
    table.update({name: _refuse(errno.EPERM) for name in DENIED})
    table.update(_for_priorities())
    # A filter cannot read its flags, which are behind a pointer; ENOSYS makes every C library fall
    # back to clone.
    table["clone3"] = _refuse(errno.ENOSYS)
    table["clone"] = _without(0, _NAMESPACE_FLAGS | _CLONE_PARENT, errno.EPERM)
    table["ioctl"] = _never(1, _TERMINAL_IOCTLS, errno.EPERM)
    table["fcntl"] = _never(1, _LEASES, errno.EPERM)
    if shared_pids:
        # These choose the process that the kernel signals about a descriptor, and F_SETSIG chooses
        # the signal, even SIGKILL, fcntl(2).
        table["fcntl"] = _never(1, (*_LEASES, *_SET_OWNER), errno.EPERM)
        table["ioctl"] = _never(1, (*_TERMINAL_IOCTLS, *_SET_SOCKET_OWNER), errno.EPERM)
    if shared_pids and guarded is not None:
        targets = (*guarded, *(-pid for pid in guarded), _EVERYBODY)
        for name in ("kill", "tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"):
            table[name] = _never(0, targets, errno.EPERM)
        for name in ("pidfd_open", "pidfd_send_signal"):
            table[name] = _refuse(errno.EPERM)
    return table


def assemble(machine: str, table: dict[str, list[Instruction]]) -> bytes:
    """Return the filter for `machine` as an array of struct sock_filter."""
    numbers = NUMBERS[machine]
    # Of struct seccomp_data the architecture is at byte 4, the number at byte 0.
    program: list[Instruction] = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, AUDIT[machine])]
    program += [(_RETURN, 0, 0, _KILL), (_LOAD, 0, 0, 0)]
    if machine == "x86_64":
        program += [(_AT_LEAST, 0, 1, _X32_BIT), (_RETURN, 0, 0, _KILL)]
    for name, body in table.items():
        if name in numbers:
            program += [(_EQUAL, 0, len(body), numbers[name]), *body]
    program.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("HBBI", *instruction) for instruction in program)


def install(machine: str, program: bytes, *, listens: bool = False) -> int:
    """Install the filter in this process for good; needs no_new_privs.

    With `listens`, return the descriptor by which a supervisor answers system calls.
    """
    flags = _WITH_LISTENER if listens else 0
    code = ctypes.create_string_buffer(program, len(program))
    # struct sock_fprog: the number of instructions, eight bytes each, and their address.
    header = struct.pack("HxxxxxxQ", len(program) // 8, ctypes.addressof(code))
    return kernel.syscall(
        NUMBERS[machine]["seccomp"],
        _SET_MODE_FILTER,
        flags,
        ctypes.create_string_buffer(header, 16),
    )
