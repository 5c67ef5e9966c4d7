"""Computes a skill's digest: one hash over the names, kinds, modes and contents of its files."""

import os
import stat
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Literal, NamedTuple

from skillpouch.discovery.index import is_settled
from skillpouch.errors import SkillUnreadableError
from skillpouch.runtime.memoize import BoundedCache
from skillpouch.skills import ScriptMetadata, Skill
from skillpouch.untrusted_files import Stamp, folder_below, stamp_of

_CHUNK = 1024 * 1024
# Far more than any skill has: a limit against folders that would keep a reader busy for hours.
_MOST_ENTRIES = 100_000
_MOST_BYTES = 4 * 1024**3
_MOST_KEPT = 1_024  # skills


class DigestEntry(NamedTuple):
    """What the digest covers of one file, folder or link; `content`: a hash, or a link's target."""

    kind: Literal["file", "folder", "link", "special"]
    mode: int
    content: str = ""


Manifest = Mapping[str, DigestEntry]  # by path below the skill's folder, which itself is "."


class FolderSnapshot(NamedTuple):
    """A skill's folder as it was at one moment."""

    digest: str
    manifest: Manifest


class _Kept(NamedTuple):
    stamps: dict[str, Stamp]
    snapshot: FolderSnapshot


# Only in memory: an attacker could write a file to make a changed skill look unchanged.
_kept: BoundedCache[str, _Kept] = BoundedCache(_MOST_KEPT)


class SkillFiles:
    """Reads the files of skills for `Skill`, each at its first use."""

    def body(self, skill: Skill) -> str:
        # Imported here and below, so that listing skills does not load their readers.
        from skillpouch.declarations.skill_md import read_body

        return read_body(skill.file)

    def digest(self, skill: Skill) -> str:
        return digest_of(skill.home)

    def scripts(self, skill: Skill) -> list[ScriptMetadata]:
        from skillpouch.scripts import detect_scripts

        return detect_scripts(skill)

    def __reduce__(self) -> str:
        return "SKILL_FILES"  # unpickled as the one object of the process


SKILL_FILES = SkillFiles()


def digest_of(home: str | Path) -> str:
    """Hash a folder; any change of a byte, a name, a mode or a link gives another digest."""
    return snapshot_of(home).digest


def manifest_of(home: str | Path) -> Manifest:
    """Return the entries from which the digest is computed, by path."""
    return snapshot_of(home).manifest


def snapshot_of(home: str | Path, *, reread: bool = False) -> FolderSnapshot:
    """Stat every file of a folder, and read those that changed since they were last read.

    Nothing is left out, not even `.git` or `__pycache__`: a script may read these, and Python may
    run them. For a SKILL.md that is a link, the content of its target is included. With `reread`
    every file is read: a process with a shared mapping can change bytes without changing the
    file's times, mmap(2).
    """
    folder = str(home)
    kept = _kept.get(folder)
    try:
        if kept is not None and _is_as_kept(folder, kept, reread=reread):
            return kept.snapshot
        walk = _Walk(folder, None if reread else kept)
        walk.run()
    except OSError as error:
        _kept.pop(folder, None)
        reason = (error.strerror or str(error)).lower()
        raise SkillUnreadableError(str(error.filename or home), reason) from None
    snapshot = FolderSnapshot(_hash_of(walk.entries), walk.entries)
    _kept[folder] = _Kept(walk.stamps, snapshot)
    return snapshot


def _is_as_kept(folder: str, kept: _Kept, *, reread: bool) -> bool:
    lstat = os.lstat
    for path, stamp in kept.stamps.items():
        if stamp_of(lstat(f"{folder}/{path}")) != stamp:
            return False
    return not reread or _has_same_bytes(folder, kept)


def _has_same_bytes(folder: str, kept: _Kept) -> bool:
    """Tell whether files with unchanged times have unchanged content, too."""
    for path, entry in kept.snapshot.manifest.items():
        if (
            entry.kind == "file"
            and _hash_at(f"{folder}/{path}", kept.stamps[path]) != entry.content
        ):
            return False
    return True


def _hash_at(path: str, stamp: Stamp) -> str:
    """Return the hash of a file; "" if it was replaced or changed."""
    content = sha256()
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        status = os.fstat(descriptor)
        if stamp_of(status) != stamp:
            return ""
        left = status.st_size
        while chunk := os.read(descriptor, min(left + 1, _CHUNK)):
            left -= len(chunk)
            if left < 0:
                return ""  # it grows while it is read, so it has changed
            content.update(chunk)
    finally:
        os.close(descriptor)
    return content.hexdigest()


def _hash_of(entries: Manifest) -> str:
    whole = sha256()
    for path in sorted(entries):
        kind, mode, content = entries[path]
        # Names and links cannot contain a NUL, so no entry can imitate the beginning of another.
        whole.update(os.fsencode(f"{path}\0{kind} {mode:o}\0{content}\0"))
    return whole.hexdigest()


class _Walk:
    """One walk of a folder. A stamp that is too recent to be trusted later is stored as ""."""

    def __init__(self, folder: str, kept: _Kept | None) -> None:
        self.entries: dict[str, DigestEntry] = {}
        self.stamps: dict[str, Stamp] = {}
        self._folder = folder
        self._known = kept
        self._started = time.time_ns()
        self._bytes = 0

    def run(self) -> None:
        self._take(".", os.stat(self._folder), -1)
        root = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._look(root)
        finally:
            os.close(root)

    def _look(self, root: int) -> None:
        """Walk by descriptors: a tool that can write the folder may be renaming its files."""
        pending = [""]
        while pending:
            prefix = pending.pop()
            try:
                with folder_below(root, prefix) as folder:
                    pending += self._look_in(folder, prefix)
            except OSError as error:
                if error.filename is not None:  # None for errors that this class raises
                    name = "" if error.filename == "." else error.filename
                    error.filename = f"{self._folder}/{prefix}{name}".rstrip("/")
                raise
            if len(self.entries) > _MOST_ENTRIES:
                raise OSError(f"more than {_MOST_ENTRIES:,} files")

    def _look_in(self, folder: int, prefix: str) -> list[str]:
        """Add the entries of a folder; return the folders in it."""
        inner: list[str] = []
        with os.scandir(folder) as listing:
            for found in listing:
                path = f"{prefix}{found.name}"
                status = found.stat(follow_symlinks=False)
                self._take(path, status, folder)
                if stat.S_ISDIR(status.st_mode):
                    inner.append(f"{path}/")
        return inner

    def _take(self, path: str, status: os.stat_result, folder: int) -> None:
        stamp = stamp_of(status)
        known = self._known
        if known is not None and known.stamps.get(path) == stamp:
            self.entries[path] = known.snapshot.manifest[path]
            self.stamps[path] = stamp
            return
        self.entries[path] = self._entry(path, status, folder)
        # The stamp of a link does not change with its target, so a linked SKILL.md is always read.
        is_sure = is_settled(stamp, self._started) and not _is_linked_text(path, status)
        self.stamps[path] = stamp if is_sure else ""

    def _entry(self, path: str, status: os.stat_result, folder: int) -> DigestEntry:
        mode = stat.S_IMODE(status.st_mode)
        name = path.rpartition("/")[2]
        if stat.S_ISREG(status.st_mode):
            return DigestEntry("file", mode, self._content(name, folder, os.O_NOFOLLOW))
        if stat.S_ISDIR(status.st_mode):
            return DigestEntry("folder", mode)
        if not stat.S_ISLNK(status.st_mode):
            return DigestEntry("special", mode, f"{stat.S_IFMT(status.st_mode):o} {status.st_rdev}")
        target = os.readlink(name, dir_fd=folder)
        said = f" {self._content(name, folder)}" if _is_linked_text(path, status) else ""
        return DigestEntry("link", mode, f"{target}{said}")

    def _content(self, name: str, folder: int, flags: int = 0) -> str:
        content = sha256()
        # O_NONBLOCK: what was a file when it was listed may be a FIFO now.
        flags |= os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(name, flags, dir_fd=folder)
        with open(descriptor, "rb", buffering=0) as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return "not a file"
            while chunk := file.read(_CHUNK):
                content.update(chunk)
                self._bytes += len(chunk)
                if self._bytes > _MOST_BYTES:
                    raise OSError(f"more than {_MOST_BYTES:,} bytes")
        return content.hexdigest()


def _is_linked_text(path: str, status: os.stat_result) -> bool:
    return path.lower() == "skill.md" and stat.S_ISLNK(status.st_mode)
