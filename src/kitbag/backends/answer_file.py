"""Where a handler's value is written: beside its output, so that nothing it prints can touch it."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_LARGEST_ANSWER = 16 * 1024 * 1024


class AnswerFile:
    """A file that only this call writes.

    No descriptor is held while it waits for its turn. What stands at the path when the call has
    ended is read only if it is still the file that was made.
    """

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._identity = _identity(fd)
        os.close(fd)

    def read(self) -> bytes:
        try:
            fd = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return b""
        try:
            is_same = _identity(fd) == self._identity
            return os.pread(fd, _LARGEST_ANSWER, 0) if is_same else b""
        finally:
            os.close(fd)

    def remove(self) -> None:
        with suppress(OSError):
            self.path.unlink()


def _identity(fd: int) -> tuple[int, int]:
    status = os.fstat(fd)
    return status.st_dev, status.st_ino


@contextmanager
def answer_file(folder: Path, *, wanted: bool) -> Iterator[AnswerFile | None]:
    """Give a file for the value that a handler returns; it is gone afterwards."""
    if not wanted:
        yield None
        return
    fd, name = tempfile.mkstemp(suffix=".json", dir=folder)
    file = AnswerFile(Path(name), fd)
    try:
        yield file
    finally:
        file.remove()
