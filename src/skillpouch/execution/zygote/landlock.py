"""Landlock: the kernel enforces which files and ports a process and all it starts may use."""

from __future__ import annotations

import ctypes
import fcntl
import os
import stat
import struct

from skillpouch.execution.zygote import kernel

# Numbers of the three system calls, then of linux/landlock.h; landlock(7).
_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_OUT_OF_THE_WAY = 16  # above the descriptors 0 to 4 of a program
_VERSION_FLAG, _PATH_BENEATH, _NET_PORT = 1, 1, 2

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
_FIRST_ABI = (1 << 13) - 1  # the thirteen rights of ABI 1
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
_BIND_TCP, _CONNECT_TCP = 1, 2
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2

READ = READ_FILE | READ_DIR
RUN = READ | EXECUTE
# Everything except making device files and device ioctls, which tools do not need.
WRITE = (_FIRST_ABI | REFER | TRUNCATE) & ~(_MAKE_CHAR | _MAKE_BLOCK)
DEVICE = READ_FILE | WRITE_FILE

# Terminals are useless without ioctls; seccomp refuses those that type into one.
TERMINAL = DEVICE | READ_DIR | IOCTL_DEV

RIGHTS = {
    "list": READ_DIR,
    "read": READ,
    "run": RUN,
    "write": WRITE,
    "device": DEVICE,
    "terminal": TERMINAL,
    "driver": DEVICE | IOCTL_DEV,
    "pipe": WRITE_FILE,
}


def version() -> int:
    """Return the kernel's Landlock ABI; 0 when it is absent, switched off or blocked."""
    try:
        return kernel.syscall(_CREATE, None, 0, _VERSION_FLAG)
    except OSError:
        return 0


def handled(abi: int) -> tuple[int, int, int]:
    """Return the rights that this ABI can deny: (files, network, scopes).

    ABI 1 came with Linux 5.13, 2 with 5.19, 3 with 6.2, 4 with 6.7, 5 with 6.10, 6 with 6.12.
    """
    files = _FIRST_ABI
    files |= REFER if abi >= 2 else 0  # noqa: PLR2004 - see the ABIs above
    files |= TRUNCATE if abi >= 3 else 0  # noqa: PLR2004
    files |= IOCTL_DEV if abi >= 5 else 0  # noqa: PLR2004
    network = _BIND_TCP | _CONNECT_TCP if abi >= 4 else 0  # noqa: PLR2004
    scopes = _ABSTRACT_SOCKETS | _SIGNALS if abi >= 6 else 0  # noqa: PLR2004
    return files, network, scopes


def ruleset(abi: int, paths: list[tuple[str | int, str]], network: str, port: int = 0) -> int:
    """Build a ruleset; its descriptor survives fork and is applied by `restrict`.

    A path is a name or an open descriptor; `port` is the only one that may be connected to, 0 for
    none. With "loopback" as `network`, all ports may be used.
    """
    files, ports, scopes = handled(abi)
    if network in ("host", "loopback"):
        ports = 0
    # The structure grew with ABI 4 and 6, and a kernel refuses unknown fields that are not zero
    # (E2BIG): it is cut to the size of the ABI.
    size = 8 if abi < 4 else 16 if abi < 6 else 24  # noqa: PLR2004
    attributes = ctypes.create_string_buffer(struct.pack("QQQ", files, ports, scopes), 24)
    fd = _moved_up(kernel.syscall(_CREATE, attributes, size, 0))
    for path, right in paths:
        rights = RIGHTS[right] & files
        if isinstance(path, int):
            _allow(fd, path, rights)
        else:
            _allow_named(fd, path, rights)
    if port and ports:
        rule = ctypes.create_string_buffer(struct.pack("QQ", _CONNECT_TCP, port), 16)
        kernel.syscall(_ADD_RULE, fd, _NET_PORT, rule, 0)
    return fd


def _moved_up(fd: int) -> int:
    """Move a descriptor to a higher number: a program's streams get the lowest ones."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY)
    os.close(fd)
    return moved


def _allow_named(ruleset_fd: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return
    try:
        _allow(ruleset_fd, fd, rights)
    finally:
        os.close(fd)


def _allow(ruleset_fd: int, fd: int, rights: int) -> None:
    """Allow rights below an open file or folder: rules refer to inodes, not to names."""
    if not stat.S_ISDIR(os.fstat(fd).st_mode):
        rights &= _FOR_FILES  # the kernel answers EINVAL to a right that only folders can have
    # struct landlock_path_beneath_attr is packed: 12 bytes, no padding after the descriptor.
    rule = ctypes.create_string_buffer(struct.pack("=Qi", rights, fd), 12)
    kernel.syscall(_ADD_RULE, ruleset_fd, _PATH_BENEATH, rule, 0)


def restrict(ruleset_fd: int) -> None:
    """Restrict this process for good; needs no_new_privs."""
    kernel.syscall(_RESTRICT, ruleset_fd, 0)
