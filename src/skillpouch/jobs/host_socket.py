"""The socket of the job host: in a folder that only its user can open, and only for its user."""

import asyncio
import fcntl
import json
import os
import socket
import stat
import struct
from contextlib import suppress
from pathlib import Path
from typing import Any

from skillpouch.jobs.job import JobHostError
from skillpouch.store.database import private_folder

PROTOCOL = 1
SOCKET, LOCK, LOG = "host.sock", "host.lock", "host.log"
_LENGTH = struct.Struct(">I")
_MOST_BYTES = 256 * 1024 * 1024
_BACKLOG = 1024
_HINT = "move it out of the way, or set XDG_STATE_HOME to a folder of yours"


def open_folder(directory: Path) -> int:
    """Return a descriptor of the folder; raise JobHostError if it is not only ours."""
    try:
        return private_folder(directory)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise JobHostError(f"{directory}: {reason}", hint=_HINT) from None


def connect(directory: Path) -> socket.socket | None:
    """Return a connection to the host of a folder, None if no host listens.

    The path that the kernel is given leads through a descriptor: it is short, whatever the folder
    is called (unix(7): 108 bytes), and it is the folder that was checked.
    """
    folder = open_folder(directory)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if not _is_ours(folder, directory):
            line.close()
            return None
        line.settimeout(10.0)
        line.connect(_path(folder, directory))
        check_peer(line, directory)
        line.setblocking(False)
    except (ConnectionRefusedError, FileNotFoundError):
        line.close()
        return None
    except OSError as error:
        line.close()
        raise JobHostError(f"{directory}/{SOCKET}: {error.strerror or error}") from None
    except BaseException:
        line.close()
        raise
    finally:
        os.close(folder)
    return line


def listen(folder: int, directory: Path) -> socket.socket:
    """Return a socket that listens; the caller holds the lock, so an older one is stale."""
    with suppress(FileNotFoundError):
        os.unlink(SOCKET, dir_fd=folder)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    line.bind(_path(folder, directory))
    line.listen(_BACKLOG)
    return line


def lock(folder: int) -> int | None:
    """Return a descriptor that holds the lock of the host while it is open, None if another has it.

    The kernel lets it go when the process ends, however that happens.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(LOCK, flags, 0o600, dir_fd=folder)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def open_log(directory: Path) -> int:
    """Return a descriptor of the file for errors of the next host, empty."""
    folder = open_folder(directory)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(LOG, flags, 0o600, dir_fd=folder)
    except OSError as error:
        raise JobHostError(f"{directory}/{LOG}: {error.strerror or error}") from None
    finally:
        os.close(folder)


def check_peer(line: socket.socket, directory: Path) -> None:
    """Refuse a process of another user at the other end, unix(7)."""
    if not hasattr(socket, "SO_PEERCRED"):
        return  # not on Linux: only this user can open the folder
    size = struct.calcsize("3i")
    _, user, _ = struct.unpack("3i", line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))
    if user != os.geteuid():
        raise JobHostError(f"{directory}/{SOCKET}: a process of user {user} is there", hint=_HINT)


def _is_ours(folder: int, directory: Path) -> bool:
    """Tell whether there is a socket; raise JobHostError for one that another user planted."""
    try:
        found = os.stat(SOCKET, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        reason = "it is not a socket that belongs to you"
        raise JobHostError(f"{directory}/{SOCKET}: {reason}", hint=_HINT)
    return True


def _path(folder: int, directory: Path) -> str:
    short = f"/proc/self/fd/{folder}"
    return f"{short if os.path.isdir(short) else directory}/{SOCKET}"


async def read_message(reader: asyncio.StreamReader) -> dict[str, Any] | None:
    """Return the next message, None when the other end has closed the connection."""
    try:
        (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        if length > _MOST_BYTES:
            return None
        message = json.loads(await reader.readexactly(length))
    except (OSError, ValueError, asyncio.IncompleteReadError):
        return None
    return message if isinstance(message, dict) else None


def message_bytes(message: dict[str, Any]) -> bytes:
    """Return a message as it is sent."""
    data = json.dumps(message, ensure_ascii=True, separators=(",", ":")).encode()
    return _LENGTH.pack(len(data)) + data
