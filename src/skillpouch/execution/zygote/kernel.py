"""The Linux system calls the standard library does not offer, through ctypes."""

from __future__ import annotations

import ctypes
import os
import struct
from functools import partial

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Options = Mapping[str, str | list[str] | None]

# None: the C library that this interpreter has already loaded, dlopen(3).
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long

# CLONE_NEW…, clone(2) and unshare(2).
NEWNS, NEWUTS, NEWIPC = 0x00020000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000

# MS_…, mount(2), and MOUNT_ATTR_…, mount_setattr(2): the first four are the same numbers.
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
ATTR_RDONLY, ATTR_NOSUID, ATTR_NODEV, ATTR_NOEXEC = 1, 2, 4, 8

# prctl(2).
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_SECUREBITS, _PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 28, 36, 38
# open(2), open_tree(2), move_mount(2), umount2(2).
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH, _MOVE_MOUNT_T_EMPTY_PATH = 1, 4, 0x40
_MNT_DETACH = 2
_LAST_CAPABILITY = 63  # the highest number that fits the two words of a set, capget(2)
# SECBIT_NOROOT and SECBIT_NOROOT_LOCKED, capabilities(7): user 0 gains no capabilities by an exec.
_NOROOT_AND_LOCKED = 3
_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3, since Linux 2.6.26

# System calls since Linux 5.1 have the same number on every architecture supported here. open_tree
# and move_mount came with Linux 5.2, mount_setattr with 5.12: without them the trial of namespaces
# fails, and the host plans without this layer.
_OPEN_TREE, _MOVE_MOUNT, _MOUNT_SETATTR = 428, 429, 442
_FSOPEN, _FSCONFIG, _FSMOUNT, _FSPICK = 430, 431, 432, 433
_CLOEXEC, _PICK_EMPTY_PATH = 1, 8  # FSOPEN_, FSMOUNT_ and FSPICK_…
_SET_FLAG, _SET_STRING, _CREATE, _RECONFIGURE = 0, 1, 6, 7  # FSCONFIG_…
_PIDFD_GETFD = 438
_SOL_SOCKET = 1
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}
_IOPRIO_GET = {"x86_64": 252, "aarch64": 31}
_STATX = {"x86_64": 332, "aarch64": 291}
_STATX_MNT_ID = 0x1000  # since Linux 5.8
_MNT_ID = struct.Struct("144xQ104x")  # stx_mnt_id of struct statx, statx(2)
_IOPRIO_PROCESS = 1  # IOPRIO_WHO_PROCESS, ioprio_get(2)
_GET_FLAGS = 0x80086601  # FS_IOC_GETFLAGS, ioctl_iflags(2)


def syscall(number: int, *arguments: object) -> int:
    """Make a system call; integers are passed as longs, bytes as pointers."""
    words = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    result: int = _libc.syscall(ctypes.c_long(number), *words)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, "system call %d: %s" % (number, os.strerror(code)))
    return result


def _check(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _check(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), f"prctl {option}")


def die_with_parent() -> None:
    """Have the kernel kill this process when its parent ends.

    Only for children of a single-threaded parent: the signal comes when the thread that forked
    ends, PR_SET_PDEATHSIG in prctl(2).
    """
    _prctl(_PR_SET_PDEATHSIG, 9)  # SIGKILL


def hide_from_peers() -> None:
    """Make this process untraceable, and its /proc entries owned by root.

    PR_SET_DUMPABLE in prctl(2). Call it after the user map is written: the map is one of those
    entries. An exec resets it, so programs are not affected.
    """
    _prctl(_PR_SET_DUMPABLE, 0)


def adopt_orphans() -> None:
    """Become the parent of orphaned descendants, in place of process 1: PR_SET_CHILD_SUBREAPER."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def forbid_new_privileges() -> None:
    """Let no exec give more rights; without privileges, Landlock and seccomp require this."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def drop_capabilities(keep: int = 0) -> None:
    """Give up every capability, also those a later exec as uid 0 would bring back.

    `keep` are bits of capabilities below 32 that this process, which runs no program, retains.
    """
    zero = ctypes.c_ulong(0)
    for capability in range(_LAST_CAPABILITY + 1):
        # Fails after this kernel's last capability, and without CAP_SETPCAP: both are fine.
        _libc.prctl(_PR_CAPBSET_DROP, ctypes.c_ulong(capability), zero, zero, zero)
    try:
        _prctl(_PR_SET_SECUREBITS, _NOROOT_AND_LOCKED)
    except PermissionError:
        # Without CAP_SETPCAP this process had no capabilities, and no_new_privs keeps it so.
        if os.geteuid() == 0 and _effective_capabilities():
            raise
    header = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITY_VERSION, 0), 8)
    # Two times effective, permitted and inheritable, 32 bits each: capset(2).
    sets = struct.pack("6I", keep, keep, 0, 0, 0, 0)
    _check(_libc.capset(header, ctypes.create_string_buffer(sets, 24)), "capset")


def _effective_capabilities() -> int:
    header = ctypes.create_string_buffer(struct.pack("Ii", _CAPABILITY_VERSION, 0), 8)
    data = ctypes.create_string_buffer(24)
    _check(_libc.capget(header, data), "capget")
    low, _, _, high, _, _ = struct.unpack("6I", data.raw)
    return int(low) | int(high) << 32


def unshare(flags: int) -> None:
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def setns(fd: int, kind: int) -> None:
    _check(_libc.setns(ctypes.c_int(fd), ctypes.c_int(kind)), "setns")


def enter_cgroup(procs: int) -> None:
    """Move the calling process and its later children by an open `cgroup.procs`."""
    os.write(procs, b"0")  # 0 stands for the process that writes it, cgroups(7)
    os.close(procs)


def buffer(size: int) -> ctypes.Array[ctypes.c_char]:
    """Return zeroed memory that the kernel can write."""
    return ctypes.create_string_buffer(size)


def buffer_of(data: bytes) -> ctypes.Array[ctypes.c_char]:
    """Return a copy of some bytes that the kernel can read and write."""
    return ctypes.create_string_buffer(data, len(data))


def copy_descriptor(process: int, fd: int) -> int:
    """Return a copy of a descriptor of another process; pidfd_getfd(2), since Linux 5.6."""
    return syscall(_PIDFD_GETFD, process, fd, 0)


def socket_option(sock: int, option: int) -> int:
    """Return a number that is an option of a socket, getsockopt(2)."""
    value, size = ctypes.c_uint64(0), ctypes.c_uint32(8)
    what = (ctypes.c_int(sock), ctypes.c_int(_SOL_SOCKET), ctypes.c_int(option))
    _check(_libc.getsockopt(*what, ctypes.byref(value), ctypes.byref(size)), "getsockopt")
    return value.value


def connect(sock: int, address: bytes) -> int:
    """Connect a socket; return the number of the error, 0 if it is connected."""
    length = ctypes.c_uint32(len(address))
    failed = _libc.connect(ctypes.c_int(sock), ctypes.c_char_p(address), length)
    return ctypes.get_errno() if failed else 0


def listen(sock: int, backlog: int) -> int:
    """Have a socket listen; return the number of the error, 0 if it does."""
    failed = _libc.listen(ctypes.c_int(sock), ctypes.c_int(backlog))
    return ctypes.get_errno() if failed else 0


def control(fd: int, request: int, argument: bytes | ctypes.Array[ctypes.c_char]) -> int:
    # By ctypes, which is already loaded: the file of the module fcntl may be invisible by now.
    result: int = _libc.ioctl(ctypes.c_int(fd), ctypes.c_ulong(request), argument)
    _check(min(result, 0), f"ioctl {request:#x}")
    return result


def io_priority() -> int:
    """Return the I/O priority of this process; 0 if the system call is not available."""
    number = _IOPRIO_GET.get(os.uname().machine)
    return 0 if number is None else syscall(number, _IOPRIO_PROCESS, 0)


def mount_of(fd: int) -> int:
    """Return the id of the mount in which a file was opened."""
    found = buffer(_MNT_ID.size)
    syscall(_STATX[os.uname().machine], fd, b"", _AT_EMPTY_PATH, _STATX_MNT_ID, found)
    mount: int = _MNT_ID.unpack(found.raw)[0]
    return mount


def file_flags(folder: str) -> int:
    """Return the flags that lsattr(1) shows, such as `nodump`; 0 if the file system has none."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        flags = ctypes.c_ulong(0)
        failed = _libc.ioctl(ctypes.c_int(fd), ctypes.c_ulong(_GET_FLAGS), ctypes.byref(flags))
        return 0 if failed else flags.value
    finally:
        os.close(fd)


def mount(source: str, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    words = [s.encode() if s is not None else None for s in (source, target, kind, data)]
    _check(
        _libc.mount(words[0], words[1], words[2], ctypes.c_ulong(flags), words[3]),
        f"mount {target}",
    )


def new_tree(kind: str, options: Options, attributes: int = 0) -> int:
    """Make a file system that is mounted nowhere yet; return the descriptor of its mount.

    An option without a value is None, one that is set several times has a list of values; each has
    fewer than 256 bytes, fsconfig(2).
    """
    context = syscall(_FSOPEN, kind.encode(), _CLOEXEC)
    try:
        for name, given in options.items():
            for value in given if isinstance(given, list) else [given]:
                command = _SET_FLAG if value is None else _SET_STRING
                text = None if value is None else value.encode()
                syscall(_FSCONFIG, context, command, name.encode(), text, 0)
        syscall(_FSCONFIG, context, _CREATE, None, None, 0)
        return syscall(_FSMOUNT, context, _CLOEXEC, attributes)
    finally:
        os.close(context)


def configuration_of(tree: int) -> int:
    """Return a descriptor by which a mounted file system can be reconfigured."""
    return syscall(_FSPICK, tree, b"", _CLOEXEC | _PICK_EMPTY_PATH)


def names_forgetter(configuration: int) -> Callable[[], int]:
    """Return what has the kernel drop all names that it remembers of a file system; 0 if it does.

    Reconfiguring does that, also when nothing is changed (reconfigure_super in fs/super.c). Names
    that are in use stay: those of the root, of mount points, of open files and current folders.
    """
    numbers = (ctypes.c_long(each) for each in (_FSCONFIG, configuration, _RECONFIGURE))
    return partial(_libc.syscall, *numbers, None, None, ctypes.c_long(0))


def detach(path: str) -> None:
    """Unmount what is at `path` in this mount namespace, even if it is in use."""
    _check(_libc.umount2(os.fsencode(path), _MNT_DETACH), f"umount {path}")


def clone_tree(path: str) -> int:
    """Copy the mounts at and below `path`; the descriptor stays valid when `path` is covered."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    return syscall(_OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags)


def clone_tree_of(fd: int) -> int:
    """Copy the mounts at and below the file or folder `fd`, in this mount namespace."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | _AT_EMPTY_PATH | os.O_CLOEXEC
    return syscall(_OPEN_TREE, fd, b"", flags)


def set_attributes(fd: int, attributes: int) -> None:
    """Set mount attributes on a whole cloned tree."""
    _mount_setattr(fd, b"", _AT_EMPTY_PATH | _AT_RECURSIVE, attributes)


def set_attributes_at(path: str, attributes: int) -> None:
    """Set mount attributes on the one mount at `path`."""
    _mount_setattr(_AT_FDCWD, os.fsencode(path), 0, attributes)


def _mount_setattr(fd: int, path: bytes, flags: int, attributes: int) -> None:
    # struct mount_attr: flags to set, to clear, propagation, user namespace; MOUNT_ATTR_SIZE_VER0
    # is 32 bytes, mount_setattr(2).
    value = ctypes.create_string_buffer(struct.pack("QQQQ", attributes, 0, 0, 0), 32)
    syscall(_MOUNT_SETATTR, fd, path, flags, value, 32)


def attach_tree(fd: int, target: str) -> None:
    syscall(_MOVE_MOUNT, fd, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)


def attach_tree_on(fd: int, target: int) -> None:
    """Attach a tree on the open `target`: its name could lead elsewhere by now."""
    flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH
    syscall(_MOVE_MOUNT, fd, b"", target, b"", flags)


def enter_root(folder: str) -> None:
    """Make `folder` the root and detach the old one."""
    os.chdir(folder)
    # This stacks the old root on the new one, and then detaches it, so no folder for it is needed:
    # pivot_root(2), "pivot_root(\".\", \".\")". MNT_DETACH, because it is still in use.
    syscall(_PIVOT_ROOT[os.uname().machine], b".", b".")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount old root")
    os.chdir("/")
