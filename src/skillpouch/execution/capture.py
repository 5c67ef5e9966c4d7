"""Keeps the start and the end of an output in memory, and all of a long one in a file."""

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from skillpouch.results import Captured

FOLDERS = (".skillpouch", "output")


class SavedOutput:
    """A new file below `<workspace>/.skillpouch/output/`."""

    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd = fd

    def write(self, data: bytes) -> None:
        """Write as far as the disk allows: a full disk must not fail the call."""
        view = memoryview(data)
        with contextlib.suppress(OSError):
            while view:
                view = view[os.write(self._fd, view) :]

    def close(self) -> Path | None:
        """Return where the output is, unless the tool has put something else there."""
        made = os.fstat(self._fd)
        os.close(self._fd)
        try:
            there = os.lstat(self._path)
        except OSError:
            return None
        is_same = (there.st_dev, there.st_ino) == (made.st_dev, made.st_ino)
        return self._path if is_same else None


def save_output(workspace: Path, name: str) -> SavedOutput | None:
    """Open a new file, or return None where the workspace will not have one."""
    opened = open_new_file(workspace, name)
    return SavedOutput(*opened) if opened else None


def kept_output(workspace: Path, name: str, data: bytes, keep_bytes: int) -> Captured:
    """Return an output that is there already as that of a program is kept: bounded, and saved."""
    kept = Captured.of(data, keep_bytes)
    file = save_output(workspace, name) if kept.truncated else None
    if file is None:
        return kept
    file.write(data)
    return replace(kept, saved_to=file.close())


def open_new_file(workspace: Path, name: str) -> tuple[Path, int] | None:
    """Make a new file below `<workspace>/.skillpouch/output/` and return it opened.

    The host writes here unconfined and the tool may write the workspace, so no symbolic link
    is followed below it and no existing file is opened.
    """
    file_name = f"{os.urandom(8).hex()}.{name}"
    folders = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    new_file = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    opened: list[int] = []
    try:
        opened.append(os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        for folder in FOLDERS:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, dir_fd=opened[-1])
            opened.append(os.open(folder, folders, dir_fd=opened[-1]))
        fd = os.open(file_name, new_file, 0o600, dir_fd=opened[-1])
    except OSError:
        return None
    finally:
        for folder_fd in opened:
            os.close(folder_fd)
    return workspace.joinpath(*FOLDERS, file_name), fd


_LONGEST_CHARACTER = 4


class Capture:
    """Takes a stream in pieces of any size and never holds more than about `keep_bytes`."""

    def __init__(self, keep_bytes: int, open_file: Callable[[], SavedOutput | None]) -> None:
        self._keep_bytes = keep_bytes
        self._open_file = open_file
        self._file: SavedOutput | None = None
        self._kept = bytearray()  # everything, until it is too much; then the head
        self._tail = bytearray()
        self._split = False
        self.total_bytes = 0

    def add(self, piece: bytes) -> None:
        self.total_bytes += len(piece)
        if not self._split:
            if self.total_bytes <= self._keep_bytes:
                self._kept += piece
                return
            piece = self._divide(piece)
        elif self._file is not None:
            self._file.write(piece)
        self._tail += piece
        # Trimmed at twice the size it needs, so that each byte is moved once and not every time.
        room = self._keep_bytes - len(self._kept)
        if len(self._tail) > 2 * room + self._keep_bytes:
            del self._tail[: len(self._tail) - room]

    def _divide(self, piece: bytes) -> bytes:
        """Keep the head apart and start the file; return what the tail begins with."""
        self._split = True
        self._file = self._open_file()
        whole = bytes(self._kept) + piece
        if self._file is not None:
            self._file.write(whole)
        head = (self._keep_bytes + 1) // 2
        self._kept = bytearray(whole[:head])
        return whole[head:]

    def finish(self) -> Captured:
        if not self._split:
            return Captured(head=bytes(self._kept), total_bytes=self.total_bytes)
        room = self._keep_bytes - len(self._kept)
        tail = bytes(self._tail[len(self._tail) - room :]) if room else b""
        saved_to = self._file.close() if self._file is not None else None
        return Captured(
            head=_without_broken_end(bytes(self._kept)),
            tail=_without_broken_start(tail),
            total_bytes=self.total_bytes,
            saved_to=saved_to,
        )


def _without_broken_end(data: bytes) -> bytes:
    """Drop a UTF-8 character whose last bytes are missing."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:  # noqa: PLR2004 - a continuation byte
            continue
        return data[:-back] if _length(byte) > back else data
    return data


def _without_broken_start(data: bytes) -> bytes:
    """Drop the last bytes of a UTF-8 character whose first are missing."""
    for place, byte in enumerate(data[:_LONGEST_CHARACTER]):
        if byte & 0xC0 != 0x80:  # noqa: PLR2004
            return data[place:]
    # Nothing but continuation bytes: the rest of one character, or no text at all.
    return data if len(data) >= _LONGEST_CHARACTER else b""


def _length(first: int) -> int:
    for length, mask, bits in ((2, 0xE0, 0xC0), (3, 0xF0, 0xE0), (4, 0xF8, 0xF0)):
        if first & mask == bits:
            return length
    return 1
