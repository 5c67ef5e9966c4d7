"""The folder in which tools work: which folders are refused, and what a call changed there."""

import errno
import os
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from mimetypes import guess_type
from pathlib import Path
from typing import NamedTuple

from skillpouch.environment import (
    config_directory,
    home_directory,
    state_directory,
)
from skillpouch.errors import WorkspaceError
from skillpouch.results import Change, ChangedFile
from skillpouch.runtime.memoize import BoundedCache
from skillpouch.text import escape_hidden
from skillpouch.untrusted_files import open_plain

_MOST_ENTRIES = 2_000
_MOST_SECONDS = 0.005  # a walk must not take longer than the call it follows …
_FEW_ENTRIES = 200  # … but this many entries are always read, however busy the machine is
_MOST_DEPTH = 100  # a descriptor is held for each level
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OURS = ".skillpouch"
_CLOCK_REALTIME_COARSE = 5  # clock_gettime(2); the module time does not define it
_MOST_CHECKED = 10_000
_MOST_SEEN = 256  # workspaces, each with at most 2,000 names
_SYSTEM = ("/etc", "/usr", "/bin", "/sbin", "/lib", "/boot", "/proc", "/sys", "/dev", "/run")
_CROWDED = ("/var", "/home", "/opt", "/srv", "/mnt", "/media")  # folders below them are allowed
_KEYS = (".ssh", ".gnupg", ".aws", ".azure", ".config", ".docker", ".kube", ".pki")


# Path as the caller wrote it → real path, device, inode.
_checked: BoundedCache[str, tuple[Path, int, int]] = BoundedCache(_MOST_CHECKED)


def check_workspace(path: str) -> Path:
    """Return the real path of a workspace; refuse folders that tools must not see or write."""
    known = _checked.get(path)
    if known is not None and _is_same(path, known):
        return known[0]
    real = _check(Path(path))
    status = real.stat()
    _checked[path] = (real, status.st_dev, status.st_ino)
    return real


def _is_same(path: str, known: tuple[Path, int, int]) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == known[1:]


def _check(path: Path) -> Path:
    try:
        real = path.resolve(strict=True)
    except OSError as error:
        raise WorkspaceError(str(path), (error.strerror or str(error)).lower()) from None
    if not real.is_dir():
        raise WorkspaceError(str(path), "it is not a folder")
    home = home_directory()
    if real == Path("/") or (home is not None and home.resolve().is_relative_to(real)):
        raise WorkspaceError(str(path), "it holds your home folder, which tools must not see")
    if str(real) in _CROWDED or any(real.is_relative_to(folder) for folder in _SYSTEM):
        raise WorkspaceError(str(path), "it belongs to the system")
    if home is not None and any(real.is_relative_to(home.resolve() / name) for name in _KEYS):
        raise WorkspaceError(str(path), "it is where your keys and settings are")
    for kept in (state_directory(), config_directory()):
        # A tool that can write there could grant itself anything, and rewrite the journal.
        if kept is not None and _overlap(real, Path(os.path.realpath(kept))):
            raise WorkspaceError(str(path), "it is where Skillpouch keeps grants and the journal")
    return real


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def file_clock_ns() -> int:
    """Return the clock that file systems use for their time stamps; it lags by up to a tick."""
    try:
        return time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)
    except OSError:  # only Linux has this clock; 10 ms is its longest tick
        return time.time_ns() - 10_000_000


class _Folder(NamedTuple):
    """The regular files and the folders in a folder when it was read."""

    stamp: tuple[int, int, int]  # device, inode, time of change
    files: frozenset[str]
    inner: tuple[str, ...]
    is_settled: bool  # its time is before the clock's, so any later change changes the stamp


_Folders = dict[str, _Folder]  # by path; the workspace itself is ""
_Stamp = tuple[int, int, int]  # of a file: inode, time of change, size


@dataclass(frozen=True, slots=True)
class Before:
    """A workspace as it was before a call; folders that are not in `folders` were not read."""

    workspace: Path
    since_ns: int
    folders: _Folders
    complete: bool


# The folders of a workspace when it was last read: one that has not changed is not read again.
_seen: BoundedCache[Path, _Folders] = BoundedCache(_MOST_SEEN)
# The stamps of files that the last call in a workspace made, by path. File times are coarse: a
# file made just before a call would otherwise be reported as made by this call, too.
_left: BoundedCache[Path, dict[str, _Stamp]] = BoundedCache(_MOST_CHECKED)
# Device and inode of a workspace that was once opened without any link on its path. The same
# device and inode are the same folder, so that later it may be opened by its path in one step.
_roots: BoundedCache[Path, tuple[int, int]] = BoundedCache(_MOST_CHECKED)


def look_at(workspace: Path) -> Before:
    """Read a workspace before a call: otherwise deleted files could not be reported after it."""
    since_ns = file_clock_ns()
    known = _seen.get(workspace, {})
    if _is_flat_and_unchanged(workspace, known):
        return Before(workspace, since_ns, known, complete=True)
    search = _Search(known=known)
    search.run(workspace)
    _seen[workspace] = search.folders
    return Before(workspace, since_ns, search.folders, search.complete)


def changed_files(before: Before) -> tuple[tuple[ChangedFile, ...], bool]:
    """Return files made, changed or deleted since then, and whether both walks were complete."""
    root = before.folders.get("")
    if (
        root is not None
        and not root.files
        and _is_flat_and_unchanged(before.workspace, before.folders)
    ):
        return (), True  # it was empty, and still is
    search = _Search(before=before)
    search.run(before.workspace)
    _seen[before.workspace] = search.folders
    left = _left.get(before.workspace, {})
    _left[before.workspace] = found = search.found
    changes: dict[str, Change] = dict.fromkeys(_deleted(before.folders, search.folders), "deleted")
    for path, stamp in found.items():
        # A new path with a file older than the call: its folder was renamed by the call.
        if left.get(path) != stamp or stamp[1] < before.since_ns:
            changes[path] = "created" if path in search.created else "modified"
    files = [
        changed_file(escape_hidden(path), found[path][2] if path in found else 0, changes[path])
        for path in sorted(changes)
    ]
    return tuple(files), before.complete and search.complete


def _is_flat_and_unchanged(workspace: Path, folders: _Folders) -> bool:
    """Tell whether a workspace holds no folders, and no file was added or removed."""
    root = folders.get("")
    if root is None or not root.is_settled or root.inner:
        return False
    try:
        status = os.stat(workspace)
    except OSError:
        return False
    return root.stamp == (status.st_dev, status.st_ino, status.st_ctime_ns)


def _deleted(before: _Folders, after: _Folders) -> Iterator[str]:
    """Yield the files that no longer exist; files in folders that were not read may still exist."""
    for path, folder in before.items():
        now = after.get(path)
        if now is not None:
            gone = folder.files - now.files
        else:
            gone = folder.files if _is_absent(after, path) else frozenset()
        yield from (_joined(path, name) for name in gone)


def _is_absent(folders: _Folders, path: str) -> bool:
    """Tell whether a walk has shown that there is no such folder."""
    while path:
        path, _, name = path.rpartition("/")
        if path in folders:
            return name not in folders[path].inner
    return False


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _open_root(workspace: Path) -> int:
    """Open a workspace for reading; the first time component by component, without links."""
    descriptor = os.open(workspace, _FOLDER)
    try:
        if _identity(descriptor) == _roots.get(workspace):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    root = open_plain(str(workspace))
    try:
        descriptor = os.open(".", _FOLDER, dir_fd=root)
    finally:
        os.close(root)
    _roots[workspace] = _identity(descriptor)
    return descriptor


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


class _Search:
    """Walks folders by descriptors, not by path, because other calls may be renaming them.

    After a call every folder is read: changing a file does not change its folder's time.
    """

    def __init__(self, *, known: _Folders | None = None, before: Before | None = None) -> None:
        self._known = known or {}
        self._before = before
        self._entries = 0
        self._deadline = time.monotonic() + _MOST_SECONDS
        self.folders: _Folders = {}
        self.found: dict[str, _Stamp] = {}  # what is new or has changed
        self.created: set[str] = set()  # those in `found` that did not exist before
        self.complete = True

    def run(self, workspace: Path) -> None:
        try:
            root = _open_root(workspace)
        except OSError:
            self.complete = False
            return
        self._enter(root, "")

    def _open(self, above: int, name: str) -> int | None:
        try:
            # O_NOFOLLOW: what was a folder when it was listed may be a link by now.
            return os.open(name, _FOLDER, dir_fd=above)
        except OSError as error:
            self.complete &= error.errno != errno.EACCES
            return None

    def _enter(self, descriptor: int, path: str) -> None:
        try:
            folder = self._look(descriptor, path)
            if folder is None:
                self.complete = False
            else:
                self.folders[path] = folder
                self._go_down(descriptor, path, folder.inner)
        finally:
            os.close(descriptor)

    def _go_down(self, descriptor: int, path: str, inner: tuple[str, ...]) -> None:
        if inner and path.count("/") >= _MOST_DEPTH:
            self.complete = False
            return
        for name in inner:
            inner_folder = self._open(descriptor, name) if path or name != _OURS else None
            if inner_folder is not None:
                self._enter(inner_folder, _joined(path, name))

    def _look(self, descriptor: int, path: str) -> _Folder | None:
        """Return what is in a folder; None if that exceeds the limits of a walk."""
        now_ns = file_clock_ns()
        status = os.fstat(descriptor)
        stamp = (status.st_dev, status.st_ino, status.st_ctime_ns)
        known = self._known.get(path)
        if known is not None and known.is_settled and known.stamp == stamp:
            return None if self._is_too_much(len(known.files) + len(known.inner)) else known
        files: dict[str, os.DirEntry[str]] = {}
        inner: list[str] = []
        with suppress(OSError), os.scandir(descriptor) as listing:
            for entry in listing:
                if self._is_too_much(1):
                    return None
                if entry.is_dir(follow_symlinks=False):
                    inner.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    files[entry.name] = entry
            if self._before is not None:
                self._compare(path, files, self._before)
        return _Folder(stamp, frozenset(files), tuple(inner), status.st_ctime_ns < now_ns)

    def _is_too_much(self, more: int) -> bool:
        self._entries += more
        if self._entries <= _FEW_ENTRIES:
            return False
        return self._entries > _MOST_ENTRIES or time.monotonic() > self._deadline

    def _compare(self, path: str, files: dict[str, "os.DirEntry[str]"], before: Before) -> None:
        known = before.folders.get(path)
        is_new_folder = known is None and _is_absent(before.folders, path)
        for name, entry in files.items():
            is_new = is_new_folder or (known is not None and name not in known.files)
            self._note(_joined(path, name), entry, before.since_ns, is_new=is_new)

    def _note(self, path: str, entry: "os.DirEntry[str]", since_ns: int, *, is_new: bool) -> None:
        with suppress(FileNotFoundError):  # another call may be deleting it
            status = entry.stat(follow_symlinks=False)
            if is_new or status.st_ctime_ns >= since_ns:
                self.found[path] = (status.st_ino, status.st_ctime_ns, status.st_size)
            if is_new:
                self.created.add(path)


def changed_file(path: str, size: int, change: Change) -> ChangedFile:
    """Return the entry for `ToolResult.files`, with a media type guessed from the name.

    Hidden characters of the path are written out already.
    """
    stem, dot, endings = path.rpartition("/")[2].partition(".")
    kind = _media_type(f"{stem and 'name'}{dot}{endings}")
    return ChangedFile(path=path, type=kind, size=size, change=change)


@lru_cache(maxsize=1024)
def _media_type(name: str) -> str:
    return guess_type(name)[0] or "application/octet-stream"
