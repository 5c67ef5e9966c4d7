"""Files of the workspace that a request sends, opened so that no link leads them elsewhere."""

import asyncio
import os
import stat
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from kitbag.http.errors import ExchangeError

_PIECE_BYTES = 256 * 1024
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Without O_NONBLOCK, opening a FIFO would wait for whoever writes to it.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class UploadError(ValueError):
    """A path that is not sent; says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """A file that was opened and looked at: exactly `size` bytes of it are sent."""

    fd: int
    name: str
    size: int

    async def pieces(self) -> AsyncIterator[bytes]:
        """Read from the start each time: a request may have to be sent again."""
        place = 0
        while place < self.size:
            most = min(_PIECE_BYTES, self.size - place)
            piece = await asyncio.to_thread(os.pread, self.fd, most, place)
            if not piece:
                raise ExchangeError("upload", f"{self.name} became shorter while it was sent")
            place += len(piece)
            yield piece


def open_upload(
    workspace: Path, path: str, *, most_bytes: int | None, stack: ExitStack
) -> OpenFile:
    """Open a file below the workspace, one folder after the other; `stack` closes it."""
    names = _names(workspace, path)
    try:
        with ExitStack() as folders:
            fd = os.open(workspace, _FOLDER & ~os.O_NOFOLLOW)
            folders.callback(os.close, fd)
            for name in names[:-1]:
                fd = os.open(name, _FOLDER, dir_fd=fd)
                folders.callback(os.close, fd)
            file = os.open(names[-1], _FILE, dir_fd=fd)
            stack.callback(os.close, file)
    except OSError as error:
        raise UploadError(f"{path}: {_reason(error)}") from None
    status = os.fstat(file)
    if not stat.S_ISREG(status.st_mode):
        raise UploadError(f"{path}: it is not a regular file")
    if most_bytes is not None and status.st_size > most_bytes:
        raise UploadError(f"{path}: it has {status.st_size:,} bytes, the limit is {most_bytes:,}")
    return OpenFile(fd=file, name=names[-1], size=status.st_size)


def _names(workspace: Path, path: str) -> list[str]:
    """Return the folders below the workspace that lead to a file, and its name."""
    if "\0" in path:
        raise UploadError("a path cannot hold a NUL character")
    inside = path
    if path.startswith("/"):
        root = f"{workspace}/"
        if not path.startswith(root):
            raise UploadError(f"{path}: only files of the workspace are sent")
        inside = path.removeprefix(root)
    names = [name for name in inside.split("/") if name not in ("", ".")]
    if ".." in names:
        raise UploadError(f"{path}: a path that steps up is not followed")
    if not names:
        raise UploadError(f"{path or 'an empty path'}: it names no file")
    return names


def _reason(error: OSError) -> str:
    if error.errno in (40, 20):  # ELOOP, ENOTDIR: with O_NOFOLLOW what a link gives
        return "there is no such file, or a link leads to it, and links are not followed"
    return (error.strerror or str(error)).lower()
