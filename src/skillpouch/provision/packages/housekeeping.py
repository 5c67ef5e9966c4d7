"""Keeps one copy of files that environments share, lists environments, and removes unused ones."""

import errno
import fcntl
import os
import stat
import time
from collections.abc import Collection, Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from skillpouch.environment import environments_directory
from skillpouch.provision.packages.store import READY, USED, read_record, remove, try_hold

# In the folder of environments, which no tool and no installer can write: <first two digits of the
# hash>/<the others>. Each entry is another name of a file in an environment. Files are linked here
# and not by the installer: link(2) does not work across the mounts that it is confined with, and
# an installer must not be able to write a file that another environment uses.
SHARED = ".shared"
_BLOCK = 1024 * 1024
_SECTOR_BYTES = 512  # the unit of st_blocks, stat(2)
# Hard links are impossible here: other file systems, or ones without links. The copies stay.
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)


def share_files(root: Path, folder: Path) -> None:
    """Replace files of a new environment with those of others that have the same content.

    To be called when the installer has ended, and before anything uses the environment. Every file
    becomes read-only for its owner, too: a change would be one of all environments.
    """
    store = root / SHARED
    store.mkdir(mode=0o700, exist_ok=True)
    for path, status in _files(folder):
        if status.st_size == 0 or status.st_nlink > 1:
            continue
        try:
            _share(store, path, status)
        except OSError as error:
            if error.errno in _NO_LINKS:
                return
            if error.errno not in (errno.EMLINK, errno.ENOSPC):  # this file stays a copy
                raise


def _share(store: Path, path: Path, status: os.stat_result) -> None:
    mode = 0o555 if status.st_mode & stat.S_IXUSR else 0o444
    digest = _digest(path)
    kept = store / digest[:2] / f"{digest[2:]}-{mode:o}"
    kept.parent.mkdir(mode=0o700, exist_ok=True)
    path.chmod(mode)
    if not _is_same(kept, digest):
        # Missing, or somebody changed it: this file takes its place.
        _link(path, kept)
        return
    try:
        _link(kept, path)
    except FileNotFoundError:  # it was pruned in between
        _link(path, kept)


def _link(source: Path, name: Path) -> None:
    """Give a file another name, atomically and in place of what has that name."""
    new = name.with_name(f".{name.name[:64]}.{os.urandom(4).hex()}")
    os.link(source, new, follow_symlinks=False)
    # rename(2) does nothing if both names are of one file already; then `new` remains.
    os.rename(new, name)
    new.unlink(missing_ok=True)


def _is_same(kept: Path, digest: str) -> bool:
    try:
        return _digest(kept) == digest
    except FileNotFoundError:
        return False


def _digest(path: Path) -> str:
    found = sha256()
    with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def _files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield path, status


@dataclass(slots=True)
class _File:
    size_bytes: int
    links: int
    names: int = 0  # those that were seen


class DiskUse:
    """Counts the bytes of folders on the disk; a file with several names counts once."""

    def __init__(self, folders: Iterable[Path] = ()) -> None:
        self.files: dict[tuple[int, int], _File] = {}  # by device and inode
        self.folder_bytes = 0
        for folder in folders:
            self.add(folder)

    def add(self, folder: Path) -> None:
        """Count a folder, and all that is below it."""
        for parent, _, _ in os.walk(folder):
            with suppress(FileNotFoundError):
                self.folder_bytes += os.lstat(parent).st_blocks * _SECTOR_BYTES
        for _, status in _files(folder):
            size = status.st_blocks * _SECTOR_BYTES
            key = (status.st_dev, status.st_ino)
            self.files.setdefault(key, _File(size, status.st_nlink)).names += 1

    @property
    def size_bytes(self) -> int:
        return self.folder_bytes + sum(file.size_bytes for file in self.files.values())

    def freed_bytes(self, root: Path) -> int:
        """Return what the disk gains when these folders and what then is unused are removed."""
        kept = DiskUse([root / SHARED]).files
        freed = [
            file.size_bytes
            for key, file in self.files.items()
            if file.names + (key in kept) >= file.links
        ]
        orphans = [f.size_bytes for key, f in kept.items() if f.links == 1]
        return self.folder_bytes + sum(freed) + sum(orphans)


def remove_unused(root: Path) -> None:
    """Remove shared files that no environment contains any more.

    A build may link one at the same time: it keeps its link, or finds none and keeps its own file.
    """
    for path, status in _files(root / SHARED):
        if status.st_nlink == 1:
            path.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEnvironment:
    """One environment on disk; if not `ready`, it is being built or was left by a crash.

    Files that it shares with others are part of its size.
    """

    digest: str
    kind: str
    requirements: tuple[str, ...]
    size_bytes: int
    last_used: float
    ready: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Pruned:
    """What was removed, or would be, and the bytes that the disk gains by that."""

    removed: tuple[StoredEnvironment, ...]
    freed_bytes: int


def list_environments() -> list[StoredEnvironment]:
    """Return the environments of this user, the one used last first."""
    found = [_kept(place) for place in _places()]
    return sorted(found, key=lambda kept: kept.last_used, reverse=True)


def size_on_disk() -> int:
    """Return the bytes of all environments together; what several contain counts once."""
    root = environments_directory()
    return DiskUse([root]).size_bytes if root else 0


def prune(
    older_than_seconds: float, *, keep: Collection[str] = (), dry_run: bool = False
) -> Pruned:
    """Remove environments unused for this long, except those to `keep` by name.

    One that is being built, or that a running call uses, is never removed. With `dry_run` nothing
    is removed, and the same is returned.
    """
    root = environments_directory()
    if root is None:
        return Pruned(removed=(), freed_bytes=0)
    before, wanted = time.time() - older_than_seconds, _with_others(root, keep)
    with ExitStack() as stack:
        places = [
            place
            for place in _places()
            if place.name not in wanted and _last_used(place) <= before
            if _hold_unused(place, before, stack)
        ]
        removed = tuple(map(_kept, places))
        freed = DiskUse(places).freed_bytes(root)
        if not dry_run:
            for place in places:
                _remove(place)
            remove_unused(root)
    return Pruned(removed=removed, freed_bytes=freed)


def _with_others(root: Path, names: Collection[str]) -> set[str]:
    """Return names of environments, and of those in which their packages really are."""
    records = [read_record(root / name) or {} for name in names]
    return {*names, *(str(each["same_as"]) for each in records if "same_as" in each)}


def _hold_unused(place: Path, before: float, stack: ExitStack) -> bool:
    """Lock an environment against builds and calls; False if one of them has it, or used it."""
    building = try_hold(place)
    if building is None:
        return False
    stack.callback(os.close, building)
    try:
        using = os.open(place / USED, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:  # it was never finished, and nobody builds it
        return True
    stack.callback(os.close, using)
    try:
        fcntl.flock(using, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return _last_used(place) <= before  # it may have been built or used meanwhile


def _remove(place: Path) -> None:
    # First, so that nothing uses the environment even when removing the rest fails.
    (place / READY).unlink(missing_ok=True)
    gone = place.with_name(f"{place.name}.gone-{os.urandom(4).hex()}")
    place.rename(gone)
    remove([gone])


def _places() -> list[Path]:
    root = environments_directory()
    if root is None or not root.is_dir():
        return []
    found = (place for place in root.iterdir() if place.name != SHARED)
    return sorted(place for place in found if place.is_dir() and not place.is_symlink())


def _kept(place: Path) -> StoredEnvironment:
    record = read_record(place) or {}
    return StoredEnvironment(
        digest=place.name,
        kind=str(record.get("kind", "")),
        requirements=tuple(map(str, record.get("requirements", ()))),
        size_bytes=DiskUse([place]).size_bytes,
        last_used=_last_used(place),
        ready=bool(record),
    )


def _last_used(place: Path) -> float:
    for path in (place / USED, place):
        try:
            return path.stat().st_mtime
        except FileNotFoundError:
            continue
    return 0.0
