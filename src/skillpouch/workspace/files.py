"""Reads and replaces files of the workspace, each through the descriptor that was checked."""

import io
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from skillpouch.errors import ToolFaultError, nearest
from skillpouch.untrusted_files import ResolvedPath, find_place

_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_APPEND = os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PERMISSIONS = 0o777  # without setuid and setgid: they were granted to the old content

Stamp = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFile:
    """A regular file, open for reading; `path` is its real one, relative to the workspace."""

    file: io.BufferedReader
    path: str
    stamp: Stamp
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    path: str
    size: int
    created: bool
    stamp: Stamp


def stamp_of(status: os.stat_result) -> Stamp:
    """Return a value that changes when the file is written or replaced."""
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def is_same(one: Stamp, other: Stamp) -> bool:
    """Tell whether two stamps are of the same state; without an inode only time and size count."""
    return one == other or (0 in (one[1], other[1]) and one[2:] == other[2:])


class WorkspaceFiles:
    """The files below `root`, a real path. Below `read_only` nothing is written."""

    def __init__(self, root: Path, read_only: Iterable[Path] = ()) -> None:
        self.root = root
        self._layers: tuple[Path, list[Path]] | None = None
        kept = [root if root.is_relative_to(folder) else folder for folder in read_only]
        inside = [folder for folder in kept if folder.is_relative_to(root)]
        self._read_only = tuple(folder.relative_to(root).as_posix() for folder in inside)

    def into(self, folder: Path, layers: list[Path]) -> "WorkspaceFiles":
        """Return the same files; what is written goes to a layer over them, made in `folder`.

        A layer has the form of the upper folder of an overlay; `layers` gets each that is complete.
        Files are read as they are below.
        """
        other = copy(self)
        other._layers = (folder, layers)  # noqa: SLF001 - it is one of us
        return other

    @contextmanager
    def reading(self, path: str) -> Iterator[OpenFile]:
        """Open a regular file."""
        with find_place(self.root, path) as place:
            _require_file(place, path)
            descriptor = os.open(place.name, _READ, dir_fd=place.folder)
            with open(descriptor, "rb") as file:
                status = os.fstat(descriptor)
                if not stat.S_ISREG(status.st_mode):
                    raise ToolFaultError("conflict", f"{path!r} was replaced while it was opened")
                found = OpenFile(
                    file=file, path=place.relative, stamp=stamp_of(status), size=status.st_size
                )
                yield found

    @contextmanager
    def listing(self, path: str) -> Iterator[tuple[int, str]]:
        """Open a folder; yield its descriptor and its real path, relative to the workspace."""
        with find_place(self.root, path) as place:
            if place.missing:
                raise not_found(place, path)
            if place.name:
                raise ToolFaultError(
                    "unsupported", f"{path!r} is a file, not a folder", hint="`read` it"
                )
            descriptor = os.open(".", _FOLDER, dir_fd=place.folder)
            try:
                yield descriptor, place.relative
            finally:
                os.close(descriptor)

    def replace(self, path: str, data: bytes, *, expected: Stamp | None = None) -> Written:
        """Replace or create a file atomically; missing folders are created.

        Permissions are kept. With `expected`, the file is replaced only if it has this stamp.
        """
        with self._writing(path) as place:
            before = place.status
            if expected is not None and (before is None or stamp_of(before) != expected):
                raise changed(path)
            if self._layers is None:
                after = _replace(place, data, before)
            else:
                after = self._in_layer(place, lambda file: file.write(data))
            return Written(
                path=place.relative,
                size=len(data),
                created=before is None,
                stamp=stamp_of(after),
            )

    def append(self, path: str, data: bytes) -> Written:
        """Add to the end of a file; create it if it does not exist."""
        with self._writing(path) as place:
            created = place.status is None
            if self._layers is None:
                status = _append(place, data)
            else:
                status = self._in_layer(place, lambda file: _copy_and_append(place, data, file))
            size, stamp = status.st_size, stamp_of(status)
            return Written(path=place.relative, size=size, created=created, stamp=stamp)

    @contextmanager
    def _writing(self, path: str) -> Iterator[ResolvedPath]:
        with find_place(self.root, path) as place:
            self._refuse_read_only(place, path)
            made: list[int] = []
            try:
                if self._layers is None:
                    _make_folders(place, made)
                if place.status is not None:
                    _require_file(place, path)
                yield place
            finally:
                for folder in made:
                    os.close(folder)

    def _in_layer(self, place: ResolvedPath, fill: Callable[[BinaryIO], object]) -> os.stat_result:
        """Make a layer with one file, in folders like those of the workspace."""
        assert self._layers is not None
        within, layers = self._layers
        layer = folder = Path(tempfile.mkdtemp(prefix="layer-", dir=within))
        *above, name = filter(None, place.relative.split("/"))
        with find_place(self.root, ".") as top:
            below = Path(f"/proc/self/fd/{top.folder}")
            times = _keep_folder(below, folder)
            for each in above:
                outer, folder, below = folder, folder / each, below / each
                folder.mkdir()
                if below.is_dir():
                    os.utime(outer, ns=times)  # only in the layer something was made in it
                    times = _keep_folder(below, folder)
        descriptor = os.open(folder / name, _NEW, 0o666)
        with open(descriptor, "wb") as file:
            fill(file)
            file.flush()
            if place.status is not None:
                _keep_owner_and_mode(descriptor, place.status)
            made = os.fstat(descriptor)
        layers.append(layer)
        return made

    def _refuse_read_only(self, place: ResolvedPath, path: str) -> None:
        real = f"{place.relative}/"
        for folder in self._read_only:
            if folder == "." or real.startswith(f"{folder}/"):
                hint = "write somewhere else in the workspace"
                raise ToolFaultError("denied", f"{path!r} is read-only for tools", hint=hint)


def not_found(place: ResolvedPath, path: str) -> ToolFaultError:
    """Return a fault for a path that does not exist, with the names that were probably meant."""
    missing = place.missing[0] if place.missing else place.name
    meant = nearest(missing, names_in(place.folder))
    where = "/".join(place.above)
    paths = [repr(f"{where}/{name}" if where else name) for name in meant]
    hint = f"did you mean {' or '.join(paths)}?" if paths else "`ls` shows what is there"
    return ToolFaultError("not_found", f"no such file or folder: {path!r}", hint=hint)


def names_in(folder: int) -> list[str]:
    """Return the names in an open folder; none if it cannot be listed."""
    with suppress(OSError):
        readable = os.open(".", _FOLDER | os.O_RDONLY, dir_fd=folder)
        try:
            return sorted(os.listdir(readable))
        finally:
            os.close(readable)
    return []


def changed(path: str) -> ToolFaultError:
    """Return a fault for a file that has changed since it was read."""
    hint = "read it again, then decide"
    return ToolFaultError("conflict", f"{path!r} has changed since it was read", hint=hint)


def _require_file(place: ResolvedPath, path: str) -> None:
    if place.missing or place.status is None:
        raise not_found(place, path)
    if not place.name:
        raise ToolFaultError("unsupported", f"{path!r} is a folder", hint="`ls` lists it")
    if not stat.S_ISREG(place.status.st_mode):
        raise ToolFaultError("unsupported", f"{path!r} is not a regular file")


def _make_folders(place: ResolvedPath, made: list[int]) -> None:
    """Create the missing folders, and update `place` to the last of them."""
    if not place.missing:
        return
    *folders, name = place.missing
    for folder in folders:
        with suppress(FileExistsError):
            os.mkdir(folder, dir_fd=place.folder)
        # O_NOFOLLOW: fails if another process has just made a link of this name.
        made.append(os.open(folder, _FOLDER, dir_fd=place.folder))
        place.folder = made[-1]
        place.above = (*place.above, folder)
    place.name, place.missing = name, ()


def _append(place: ResolvedPath, data: bytes) -> os.stat_result:
    flags = _NEW if place.status is None else _APPEND
    descriptor = os.open(place.name, flags, 0o666, dir_fd=place.folder)
    with open(descriptor, "ab") as file:
        file.write(data)
        file.flush()
        return os.fstat(descriptor)


def _copy_and_append(place: ResolvedPath, data: bytes, file: BinaryIO) -> None:
    if place.status is not None:
        descriptor = os.open(place.name, _READ, dir_fd=place.folder)
        with open(descriptor, "rb") as old:
            shutil.copyfileobj(old, file)
    file.write(data)


def _keep_folder(below: Path, folder: Path) -> tuple[int, int]:
    """Give a folder of a layer what the folder below it has: only a difference is a change.

    Return its times.
    """
    status = below.stat()
    with suppress(OSError):
        for name in os.listxattr(below):
            os.setxattr(folder, name, os.getxattr(below, name))
    with suppress(PermissionError):
        os.chown(folder, status.st_uid, status.st_gid)
    # Writable for this process: the owner's own bits are enough to fill it.
    folder.chmod(stat.S_IMODE(status.st_mode))
    times = status.st_atime_ns, status.st_mtime_ns
    os.utime(folder, ns=times)
    return times


def _replace(place: ResolvedPath, data: bytes, before: os.stat_result | None) -> os.stat_result:
    temporary = f".skillpouch-{secrets.token_hex(8)}.new"
    descriptor = os.open(temporary, _NEW, 0o666, dir_fd=place.folder)
    try:
        with open(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            if before is not None:
                _keep_owner_and_mode(descriptor, before)
            after = os.fstat(descriptor)
        _require_unchanged(place, before)
        os.rename(temporary, place.name, src_dir_fd=place.folder, dst_dir_fd=place.folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=place.folder)
        raise
    return after


def _keep_owner_and_mode(descriptor: int, before: os.stat_result) -> None:
    with suppress(PermissionError):  # another user's file in a folder of this user
        os.fchown(descriptor, before.st_uid, before.st_gid)
    os.fchmod(descriptor, before.st_mode & _PERMISSIONS)


def _require_unchanged(place: ResolvedPath, before: os.stat_result | None) -> None:
    """Check again just before the rename: what another process wrote meanwhile is kept."""
    try:
        now = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
    except FileNotFoundError:
        now = None
    if (now and stamp_of(now)) != (before and stamp_of(before)):
        raise changed(place.relative)
