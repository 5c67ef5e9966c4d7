"""Lists environments, and removes unused ones."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from skillpouch.environment import environments_directory
from skillpouch.provision.packages.building import try_hold
from skillpouch.provision.packages.store import READY, USED, read_record, remove


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredEnvironment:
    """One environment on disk; if not `ready`, it is being built or was left by a crash."""

    digest: str
    kind: str
    requirements: tuple[str, ...]
    size_bytes: int
    last_used: float
    ready: bool


def list_environments() -> list[StoredEnvironment]:
    """Return the environments of this user, the one used last first."""
    found = [_kept(place) for place in _places()]
    return sorted(found, key=lambda kept: kept.last_used, reverse=True)


def prune(older_than_seconds: float) -> list[StoredEnvironment]:
    """Remove environments unused for this long, never one that is being built; return those."""
    before = time.time() - older_than_seconds
    return [kept for place in _places() if (kept := _prune_one(place, before)) is not None]


def _prune_one(place: Path, before: float) -> StoredEnvironment | None:
    if _last_used(place) > before:
        return None
    descriptor = try_hold(place)
    if descriptor is None:
        return None
    try:
        if (place / USED).exists() and _last_used(place) > before:  # it was built or used meanwhile
            return None
        kept = _kept(place)
        # First, so that nothing uses the environment even when removing the rest fails.
        (place / READY).unlink(missing_ok=True)
        gone = place.with_name(f"{place.name}.gone-{os.urandom(4).hex()}")
        place.rename(gone)
        remove([gone])
        return kept
    finally:
        os.close(descriptor)


def _places() -> list[Path]:
    root = environments_directory()
    if root is None or not root.is_dir():
        return []
    return sorted(place for place in root.iterdir() if place.is_dir() and not place.is_symlink())


def _kept(place: Path) -> StoredEnvironment:
    record = read_record(place) or {}
    return StoredEnvironment(
        digest=place.name,
        kind=str(record.get("kind", "")),
        requirements=tuple(map(str, record.get("requirements", ()))),
        size_bytes=_size(place),
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


def _size(folder: Path) -> int:
    """Return the bytes on disk; a file with several names counts once."""
    counted: dict[tuple[int, int], int] = {}
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(os.path.join(parent, name))
            except FileNotFoundError:
                continue
            counted[status.st_dev, status.st_ino] = status.st_blocks * 512
    return sum(counted.values())
