"""Where fetched programs are kept, by content: what is there is whole, and is looked at again."""

import os
import stat
from hashlib import sha256
from pathlib import Path

from skillpouch.environment import another_place, programs_directory
from skillpouch.trust.errors import DownloadError
from skillpouch.untrusted_files import Stamp, stamp_of

_PIECE = 1024 * 1024
_PROGRAM = "program"
# Path → how a program looked when its content was last seen to be right.
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
    """Return the program with this content; one that has changed is removed, not run."""
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
    """Put a whole, checked file among the programs, in one step.

    One that is there stays: a call may just be starting it.
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
