"""Reading files that strangers wrote: regular files only, never more than a bound."""

import os
import stat
from dataclasses import dataclass
from functools import lru_cache

# "inode size mtime_ns ctime_ns": text, because thousands of them are kept and compared.
Stamp = str

_MIB = 1024 * 1024
SKILL_FILE_BYTES = _MIB
DECLARATION_BYTES = _MIB
SCRIPT_BYTES = 4 * _MIB
# Frontmatter is 2 kB at most in practice: one read nearly always has all of it.
_HEAD_BYTES = 16 * 1024


class CannotReadError(OSError):
    """A file that is there but is not read, with a code and a reason for people."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason

    @classmethod
    def of(cls, error: OSError | ValueError) -> "CannotReadError":
        if isinstance(error, cls):
            return error
        if isinstance(error, FileNotFoundError):
            return cls("absent", "there is no such file")
        strerror = error.strerror if isinstance(error, OSError) else None
        return cls("unreadable", (strerror or str(error)).lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """The bytes of a file, or of its beginning, and the stamp they were read under."""

    data: bytes
    stamp: Stamp
    whole: bool


def stamp_of(status: os.stat_result) -> Stamp:
    """Return what changes when a file or folder does."""
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def read_head(path: str, most: int = SKILL_FILE_BYTES) -> FileContent:
    """Read the beginning of a file; refuse one that is longer than `most` altogether."""
    return _read(path, most, _HEAD_BYTES)


def read_whole(path: str, most: int) -> FileContent:
    """Read a file of at most `most` bytes."""
    return _read(path, most, most)


def read_inside(path: str, home: str, most: int) -> FileContent:
    """Read a file of a skill, unless a link leads outside the skill's folder."""
    require_inside(path, home)
    return _read(path, most, most)


def require_inside(path: str, home: str) -> None:
    """Refuse a path whose links lead outside a folder, or nowhere."""
    try:
        real, base = os.path.realpath(path, strict=True), _real_home(home)
    except (OSError, ValueError) as error:
        raise CannotReadError.of(error) from None
    if real != base and not real.startswith(f"{base}/"):
        raise CannotReadError("outside", f"it leads outside the skill, to {real}")


def follow_links_anew() -> None:
    """Forget where folders led: whoever looks for skills again decides again what is inside."""
    _real_home.cache_clear()


@lru_cache(maxsize=1024)
def _real_home(home: str) -> str:
    # Once: a folder that is swapped for a link later no longer holds what is read through it.
    return os.path.realpath(home)


def _read(path: str, most: int, wanted: int) -> FileContent:
    try:
        # Not blocking: a FIFO named SKILL.md would otherwise wait for a writer forever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise CannotReadError.of(error) from None
    try:
        return _read_regular(descriptor, most, wanted)
    except OSError as error:
        raise CannotReadError.of(error) from None
    finally:
        os.close(descriptor)


def _read_regular(descriptor: int, most: int, wanted: int) -> FileContent:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise CannotReadError("not-a-file", "it is not a regular file")
    if status.st_size > most:
        size = f"{status.st_size:,} bytes"
        raise CannotReadError("too-large", f"{size} are more than the {most:,} allowed")
    data = _read_up_to(descriptor, min(wanted, most))
    return FileContent(data=data, stamp=stamp_of(status), whole=len(data) >= status.st_size)


def _read_up_to(descriptor: int, wanted: int) -> bytes:
    data = os.read(descriptor, wanted)
    while data and len(data) < wanted:
        more = os.read(descriptor, wanted - len(data))
        if not more:
            break
        data += more
    return data
