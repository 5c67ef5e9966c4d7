"""Where a handler's value is written: beside its output, so that nothing it prints can touch it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from kitbag.errors import WorkspaceError
from kitbag.execution.saved_output import open_new_file

_LARGEST_ANSWER = 16 * 1024 * 1024


class AnswerFile:
    """A file that only this call writes.

    It is read through the descriptor it was made with: what stands at its path when the call has
    ended may be something else.
    """

    def __init__(self, path: Path, fd: int) -> None:
        self.path = path
        self._fd = fd

    def read(self) -> bytes:
        return os.pread(self._fd, _LARGEST_ANSWER, 0)

    def close(self, *, keep: bool) -> None:
        os.close(self._fd)
        if not keep:
            with suppress(OSError):
                self.path.unlink()


@contextmanager
def answer_file(workspace: Path, *, keep_bytes: int, wanted: bool) -> Iterator[AnswerFile | None]:
    """Give a file for the value; one that is too long for a model stays, the others go."""
    if not wanted:
        yield None
        return
    opened = open_new_file(workspace, "answer.json")
    if opened is None:
        raise WorkspaceError(str(workspace), "it cannot be written")
    file = AnswerFile(*opened)
    too_long = False
    try:
        yield file
        too_long = len(file.read()) > keep_bytes
    finally:
        file.close(keep=too_long)
