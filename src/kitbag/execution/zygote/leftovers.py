"""What a call left in the temporary folders, and whether the slot may serve another after it."""

from __future__ import annotations

import os
import stat

from kitbag.execution.zygote import own_view


class OwnFolders:
    """Folders mounted for this slot alone.

    A slot in which a file was left ends, and its folders with it, so that nothing is ever
    deleted by walking a tree that may have a workspace inside.
    """

    def __init__(self, granted: list[str]) -> None:
        self._granted = granted
        self._at_start = own_view.used_inodes(granted)

    def clean(self) -> bool:
        if own_view.used_inodes(self._granted) > self._at_start:
            return False
        return not own_view.changed_folders(self._granted)

    def remove(self) -> None:
        """Nothing to do: they go with the last process that sees them."""


class SharedFolder:
    """A folder of this slot's own in the machine's temporary folder, emptied after each call."""

    def __init__(self, path: str) -> None:
        self._path = path
        os.mkdir(path, 0o700)

    def clean(self) -> bool:
        try:
            _empty_folder(self._path)
        except OSError:
            return False
        return True

    def remove(self) -> None:
        remove_folder(self._path)


def remove_folder(path: str) -> None:
    """Remove a slot's folder, as far as it lets itself be removed."""
    try:
        _empty_folder(path)
        os.rmdir(path)
    except OSError:
        return


def _empty_folder(path: str) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        os.fchmod(fd, 0o700)
        _empty(fd)
    finally:
        os.close(fd)


def _empty(folder: int) -> None:
    """Delete everything in an open folder, never through a symbolic link."""
    for name in os.listdir(folder):
        if not stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
            continue
        os.chmod(name, 0o700, dir_fd=folder)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        inner = os.open(name, flags, dir_fd=folder)
        try:
            _empty(inner)
        finally:
            os.close(inner)
        os.rmdir(name, dir_fd=folder)
