"""Where environments are kept, which of them are finished, and who is using them."""

import asyncio
import fcntl
import json
import os
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from skillpouch.declarations.packages.declared_files import DependencyError
from skillpouch.environment import another_place, environments_directory
from skillpouch.provision.packages.ready import Environment, environment_at
from skillpouch.provision.packages.recipe import FORMAT
from skillpouch.runtime.removal import remove_tree
from skillpouch.untrusted_files import DECLARATION_BYTES, CannotReadError, read_whole

# <store>/environments/<digest>/ready.json names the folder next to it that is the environment, or
# another digest whose environment holds the same packages. The installer can write that folder
# only, so it cannot make an unfinished environment look finished.
READY = "ready.json"
USED = "last_used"
LOCK = "lock"


def open_store() -> Path:
    """Return the folder of environments, made for its user alone.

    Raises:
        DependencyError: there is no home folder, or others could write to it.
    """
    root = environments_directory()
    if root is None:
        raise DependencyError(
            "there is no place for environments: no home folder", hint="set XDG_CACHE_HOME"
        )
    try:
        root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        root.mkdir(mode=0o700, exist_ok=True)
        status = root.stat()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        hint = another_place("XDG_CACHE_HOME")
        raise DependencyError(f"cannot keep environments in {root}: {reason}", hint=hint) from None
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise DependencyError(
            f"cannot keep environments in {root}: others may write there",
            hint=f"chmod 700 {root}, or set XDG_CACHE_HOME to a folder of your own",
        )
    return root


def downloads_folder(root: Path) -> Path:
    """Return where installers keep what they have fetched, next to the environments."""
    folder = root.parent / "downloads"
    for name in ("", "pip", "uv", "npm"):
        (folder / name).mkdir(mode=0o700, exist_ok=True)
    return folder


def read_record(place: Path) -> Mapping[str, Any] | None:
    """Return the record of a finished environment, None for any other folder."""
    try:
        record = json.loads(read_whole(str(place / READY), DECLARATION_BYTES).data)
    except (CannotReadError, ValueError, RecursionError):
        return None
    is_ours = isinstance(record, dict) and record.get("format") == FORMAT
    name = record.get("folder", record.get("same_as")) if is_ours else None
    return record if isinstance(name, str) and name.isalnum() else None


def find_ready(place: Path) -> Environment | None:
    """Return the finished environment in a folder, None when it is missing or incomplete.

    When the record says `same_as`, the environment is in that other folder; one step is followed.
    """
    record = read_record(place)
    if record and "folder" not in record:
        place = place.with_name(record["same_as"])
        record = read_record(place)
    if record is None or "folder" not in record:
        return None
    return environment_at(place / record["folder"], record)


def write_ready(place: Path, record: Mapping[str, Any]) -> None:
    """Mark an environment as finished, atomically: a reader sees the whole record or none."""
    unfinished = place / f"{READY}.{os.getpid()}"
    unfinished.write_text(json.dumps({"format": FORMAT, "built": time.time(), **record}) + "\n")
    unfinished.rename(place / READY)
    touch(place)


def touch(place: Path) -> None:
    """Note that an environment is being used."""
    try:
        (place / USED).touch(mode=0o600)
    except OSError:
        return  # it was just pruned, or the disk is full: the next use reports it


def in_use(place: Path) -> int | None:
    """Keep a finished environment from being removed until the returned descriptor is closed.

    None if it was removed, or is being removed.
    """
    try:
        descriptor = os.open(place / USED, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    with suppress(BlockingIOError, FileNotFoundError):
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), (place / USED).stat()):
            return descriptor
    os.close(descriptor)
    return None


def leftovers(place: Path) -> list[Path]:
    """Return what a killed builder left behind: everything but the lock and the time of use."""
    return [entry for entry in place.iterdir() if entry.name not in (LOCK, USED)]


def remove(entries: Iterable[Path]) -> None:
    """Remove files and folders."""
    for entry in entries:
        if entry.is_dir() and not entry.is_symlink():
            with suppress(OSError):
                remove_tree(entry)
        else:
            entry.unlink(missing_ok=True)


_POLL_SECONDS = 0.1


@asynccontextmanager
async def hold(place: Path, on_wait: Callable[[], None]) -> AsyncIterator[None]:
    """Hold the lock of a folder, made if needed; call `on_wait` once if another holds the lock.

    When a process is killed, the kernel releases its lock.
    """
    told = False
    while True:
        descriptor = _open(place)
        try:
            while not _try_lock(descriptor):
                if not told:
                    on_wait()
                told = True
                await asyncio.sleep(_POLL_SECONDS)
            # The previous holder may have removed the folder: then this lock protects nothing.
            if _is_at(descriptor, place):
                yield
                return
        finally:
            os.close(descriptor)


def try_hold(place: Path) -> int | None:
    """Lock a folder without waiting; return the descriptor, None when another holds the lock."""
    descriptor = _open(place)
    if _try_lock(descriptor) and _is_at(descriptor, place):
        return descriptor
    os.close(descriptor)
    return None


def _open(place: Path) -> int:
    while True:
        place.mkdir(mode=0o700, exist_ok=True)
        try:
            return os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # the folder was removed in between


def _try_lock(descriptor: int) -> bool:
    # flock(2) locks belong to the open file, not to the process: threads exclude each other, too.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), (place / LOCK).stat())
    except FileNotFoundError:
        return False
