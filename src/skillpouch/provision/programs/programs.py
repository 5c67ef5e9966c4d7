"""Programs that skills name by address: downloaded once, checked, and kept by content."""

import asyncio
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from skillpouch.calls import Fetched, OnProgress, Vouch
from skillpouch.environment import another_place, programs_directory
from skillpouch.errors import SkillpouchError
from skillpouch.provision.packages.store import hold
from skillpouch.provision.programs.fetching import Fetch, FetchLimits, Opener, Partial, WantedFile
from skillpouch.provision.programs.progress import DownloadProgress
from skillpouch.runtime.removal import remove_tree
from skillpouch.trust.errors import DownloadError, HashDiffersError, PinDiffersError, PinNeededError
from skillpouch.untrusted_files import Stamp, stamp_of

_PIECE = 1024 * 1024
_PROGRAM = "program"
# Path → the stamp of a program when its content was last verified.
_seen: dict[str, Stamp] = {}


def open_programs() -> Path:
    """Return the folder of programs, made for its user alone."""
    root = programs_directory()
    if root is None:
        raise DownloadError(
            "the program", "there is no place to keep it", hint="set XDG_CACHE_HOME"
        )
    try:
        root.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        for folder in (root, root / "partial"):
            folder.mkdir(mode=0o700, exist_ok=True)
        status = root.stat()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise DownloadError(str(root), reason, hint=another_place("XDG_CACHE_HOME")) from None
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise DownloadError(str(root), "others may write there", hint=f"chmod 700 {root}")
    return root


def find_program(root: Path, digest: str) -> Path | None:
    """Return the program with this hash; a file whose content has changed is removed."""
    path = root / digest / _PROGRAM
    try:
        stamp = _regular(path)
        if _seen.get(str(path)) == stamp or hash_of(path) == digest:
            _seen[str(path)] = stamp
            return path
        path.unlink()
    except FileNotFoundError:
        return None
    return None


def keep_program(root: Path, unfinished: Path, digest: str) -> Path:
    """Move a complete, checked file into the folder of programs, atomically.

    An existing file is kept: a call may be starting it at this moment.
    """
    there = find_program(root, digest)
    if there is not None:
        return there
    folder = root / digest
    folder.mkdir(mode=0o700, exist_ok=True)
    unfinished.chmod(0o500)
    return unfinished.rename(folder / _PROGRAM)


def hash_of(path: Path) -> str:
    """Return the sha256 of a file."""
    found = sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            found.update(piece)
    return found.hexdigest()


def _regular(path: Path) -> Stamp:
    status = path.lstat()
    if not stat.S_ISREG(status.st_mode):
        raise DownloadError(str(path), "it is not a regular file", hint="remove it")
    return stamp_of(status)


@dataclass(frozen=True, slots=True, kw_only=True)
class DownloadTerms:
    """The skill that something is fetched for, and how; `vouch` approves a file without a hash."""

    skill: str
    opener: Opener
    vouch: Vouch | None = None
    on_progress: OnProgress | None = None
    limits: FetchLimits = field(default_factory=FetchLimits)


async def program_for(wanted: WantedFile, terms: DownloadTerms) -> Path:
    """Return the complete file with the expected content.

    Raises:
        DownloadError: it cannot be fetched, or has other content.
        PinNeededError: no hash is known, and nobody approved the content.
    """
    root = open_programs()
    known = await _known(root, wanted)
    if known is not None:
        return known
    place = root / "partial" / wanted.key
    async with hold(place, _waiting(wanted, terms)):
        # The previous holder of the lock may have fetched it.
        known = await _known(root, wanted)
        if known is None:
            known = await _fetched(root, place, wanted, terms)
        with suppress(OSError):
            remove_tree(place)
        return known


async def _known(root: Path, wanted: WantedFile) -> Path | None:
    digest = wanted.sha256
    return await asyncio.to_thread(find_program, root, digest) if digest else None


async def _fetched(root: Path, place: Path, wanted: WantedFile, terms: DownloadTerms) -> Path:
    partial = Partial(place)
    was_there = partial.size() > 0
    digest = await _fetch(wanted, partial, terms)
    if was_there and wanted.sha256 not in (None, digest):
        # The part from the last time may belong to another file.
        partial.discard()
        digest = await _fetch(wanted, partial, terms)
    if wanted.sha256 not in (None, digest):
        partial.discard()
        raise _difference(wanted, digest, terms)
    if wanted.sha256 is None:
        await _have_vouched(wanted, partial, digest, terms)
    try:
        return keep_program(root, partial.file, digest)
    except OSError as error:
        raise DownloadError(wanted.url, (error.strerror or str(error)).lower()) from None


async def _fetch(wanted: WantedFile, partial: Partial, terms: DownloadTerms) -> str:
    name = wanted.url.partition("?")[0].rpartition("/")[2] or wanted.host
    progress = DownloadProgress(name[:80], terms.on_progress)
    await Fetch(wanted, partial, terms.opener, terms.limits, progress).run()
    return await asyncio.to_thread(_settled_hash, partial.file)


def _settled_hash(file: Path) -> str:
    """Return the hash of the file after it was written to the disk."""
    with file.open("ab") as opened:
        os.fsync(opened.fileno())
    return hash_of(file)


def _difference(wanted: WantedFile, digest: str, terms: DownloadTerms) -> HashDiffersError:
    expected = str(wanted.sha256)
    if wanted.is_pinned:
        return PinDiffersError(terms.skill, wanted.url, expected, digest)
    return HashDiffersError(wanted.url, expected, digest)


async def _have_vouched(
    wanted: WantedFile, partial: Partial, digest: str, terms: DownloadTerms
) -> None:
    size = partial.size()
    if terms.vouch is None:
        partial.discard()
        raise PinNeededError(wanted.host, size, digest)
    fetched = Fetched(url=wanted.url, host=wanted.host, size_bytes=size, sha256=digest)
    try:
        await terms.vouch(fetched)
    except SkillpouchError:
        partial.discard()
        raise


def _waiting(wanted: WantedFile, terms: DownloadTerms) -> Callable[[], None]:
    tell = terms.on_progress or (lambda _: None)
    return lambda: tell(f"waiting: another process is fetching {wanted.url}")
