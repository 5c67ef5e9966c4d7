"""Removes folders, whatever a tool left in them, and folders of processes that are gone.

All of Skillpouch removes folders here: without recursion, so that no depth is too deep; by
descriptors that follow no link, so that nothing outside is touched; after restoring the owner's
rights, so that no mode protects a folder from removal.
"""

import errno
import fcntl
import os
import stat
import tempfile
from contextlib import suppress
from itertools import count
from pathlib import Path

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)  # can be opened without the right to read
_LOCK = "lock"


def remove_tree(path: str | Path, *, within: int | None = None) -> None:
    """Remove a folder with everything in it; a missing folder is not an error.

    A relative path is resolved below `within`, the descriptor of an open folder.

    Raises:
        OSError: something could not be removed; the rest is gone.
    """
    try:
        folder = _open(str(path), within)
    except FileNotFoundError:
        return
    try:
        _Removal(folder).run()
    finally:
        os.close(folder)
    os.rmdir(path, dir_fd=within)


class _Removal:
    """One folder being emptied.

    Folders inside folders are first moved up, to the top: nothing is ever more than two levels
    deep, and two descriptors are enough.
    """

    def __init__(self, top: int) -> None:
        self._top = top
        self._device = os.fstat(top).st_dev
        self._names = (f".removed-{os.getpid()}-{number}" for number in count())
        self._failure: OSError | None = None

    def run(self) -> None:
        kept: set[str] = set()  # what could not be removed is not tried again
        while names := set(os.listdir(self._top)) - kept:
            kept |= {name for name in names if not self._remove(name)}
        if self._failure is not None:
            raise self._failure

    def _remove(self, name: str) -> bool:
        try:
            if _is_folder(name, self._top):
                self._empty(name)
                os.rmdir(name, dir_fd=self._top)
            else:
                os.unlink(name, dir_fd=self._top)
        except FileNotFoundError:
            return True
        except OSError as error:
            self._failure = self._failure or error
            return False
        return True

    def _empty(self, name: str) -> None:
        folder = _open(name, self._top)
        try:
            if os.fstat(folder).st_dev != self._device:
                raise OSError(errno.EBUSY, "another file system is mounted there", name)
            for inner in os.listdir(folder):
                self._take_out(inner, folder)
        finally:
            os.close(folder)

    def _take_out(self, name: str, folder: int) -> None:
        try:
            if _is_folder(name, folder):
                self._move_up(name, folder)
            else:
                os.unlink(name, dir_fd=folder)
        except OSError as error:
            self._failure = self._failure or error

    def _move_up(self, name: str, folder: int) -> None:
        # Moving a folder needs the right to write to it, because its ".." changes, rename(2).
        # `_open` grants that.
        os.close(_open(name, folder))
        for free in self._names:
            try:
                os.rename(name, free, src_dir_fd=folder, dst_dir_fd=self._top)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOTDIR):
                    raise
            else:
                return


def _open(name: str, above: int | None) -> int:
    """Open a folder, never through a link, and give its owner all rights."""
    try:
        folder = os.open(name, _FOLDER, dir_fd=above)
    except PermissionError:
        _give_rights(name, above)
        folder = os.open(name, _FOLDER, dir_fd=above)
    if stat.S_IMODE(os.fstat(folder).st_mode) & stat.S_IRWXU != stat.S_IRWXU:
        os.fchmod(folder, stat.S_IRWXU)
    return folder


def _give_rights(name: str, above: int | None) -> None:
    """Make a folder readable that cannot be opened for reading yet."""
    held = os.open(name, _FOLDER | _PATH_ONLY, dir_fd=above)
    try:
        # fchmod(2) refuses an O_PATH descriptor; its name in /proc always leads to the same file.
        os.chmod(f"/proc/self/fd/{held}", stat.S_IRWXU)
    finally:
        os.close(held)


def _is_folder(name: str, above: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode)


def lock_folder(folder: Path) -> int:
    """Mark a folder as owned by this process; return the lock, which ends with the process."""
    # The file is locked before it gets its name: a process that finds it unlocked may remove the
    # folder.
    unnamed = folder / f"{_LOCK}.new"
    lock = os.open(unnamed, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    unnamed.rename(folder / _LOCK)
    return lock


def is_left_behind(folder: Path) -> bool | None:
    """Tell whether the process that owned a folder is gone; None if the folder has no lock."""
    try:
        lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(lock)
    return True


def remove_left_behind(prefix: str, parent: Path | None = None) -> None:
    """Remove folders of this user whose process is gone, which shows by the free lock."""
    for folder in (parent or Path(tempfile.gettempdir())).glob(f"{prefix}*"):
        with suppress(OSError):
            status = folder.lstat()
            if status.st_uid != os.geteuid() or not stat.S_ISDIR(status.st_mode):
                continue
            lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(folder)
            finally:
                os.close(lock)
