"""The file a long output is saved to, opened so that no tool can point it somewhere else."""

import contextlib
import os
from dataclasses import replace
from pathlib import Path

from skillpouch.execution.command import Captured

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
