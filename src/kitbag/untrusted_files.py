"""Files and folders that tools or strangers can change: opened without following a link unseen.

What is checked is what is used. A path is walked by descriptors: each component is looked at and
opened relative to the folder before it, never following a link; a link is read and its target
walked in the same way. So no rename and no link that appears meanwhile leads somewhere else. What
is read is a regular file, and never more of it than a bound.
"""

import os
import stat
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Literal

from kitbag.errors import CallDeniedError, KitbagError, nearest

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


FaultKind = Literal[
    "not_found", "invalid_argument", "conflict", "timeout", "denied", "unsupported", "too_much"
]

_MOST_LINKS = 40  # as the kernel has it
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)  # enough to walk on; needs no right to list


class OutsideWorkspaceError(CallDeniedError):
    """A path that leads out of the workspace: by `..`, by a link, or because it starts outside."""

    code = "outside_workspace"

    def __init__(self, path: str, workspace: Path) -> None:
        self.path = path
        super().__init__(
            f"{path!r} is outside the workspace {workspace}",
            hint="name a path relative to the workspace, or choose another one: --workspace DIR",
        )


class ToolFaultError(KitbagError):
    """Why a tool could not do what it was asked; `kind` is for programs, the rest for a model."""

    code = "workspace_fault"

    def __init__(self, kind: FaultKind, message: str, *, hint: str = "") -> None:
        self.kind = kind
        super().__init__(message, hint=hint)


@dataclass(slots=True, kw_only=True)
class Place:
    """Where a path leads: a folder that is held open, and what is in it under `name`.

    Of a folder itself `name` is "". `missing` are the components that are not there yet.
    """

    folder: int
    above: tuple[str, ...]
    name: str = ""
    status: os.stat_result | None = None
    missing: tuple[str, ...] = ()

    @property
    def relative(self) -> str:
        """The real path, relative to the workspace: no links, no `..`."""
        return "/".join((*self.above, self.name, *self.missing)).strip("/") or "."


@contextmanager
def find_place(root: Path, path: str) -> Iterator[Place]:
    """Walk to where `path` leads below `root`, and hold the folder open."""
    walk = _Walk(root, path)
    try:
        yield walk.run()
    except OSError as error:
        raise fault_of(error, path) from None
    finally:
        walk.close()


class _Walk:
    def __init__(self, root: Path, path: str) -> None:
        self._root = root
        self._path = path
        self._todo = deque(self._parts(path))
        self._names: list[str] = []
        self._folders: list[int] = []
        self._links = 0

    def run(self) -> Place:
        self._folders = [os.open(self._root, _FOLDER | _PATH_ONLY)]
        while self._todo:
            name = self._todo.popleft()
            if name == "..":
                self._go_up()
                continue
            place = self._step(name)
            if place is not None:
                return place
        return self._place("", os.fstat(self._folders[-1]))

    def close(self) -> None:
        for folder in self._folders:
            os.close(folder)
        self._folders.clear()

    def _step(self, name: str) -> Place | None:
        """Enter a folder or follow a link; return the place when the way ends here."""
        folder = self._folders[-1]
        try:
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return self._not_there(name)
        if stat.S_ISLNK(status.st_mode):
            self._follow(os.readlink(name, dir_fd=folder))
        elif stat.S_ISDIR(status.st_mode):
            self._folders.append(os.open(name, _FOLDER | _PATH_ONLY, dir_fd=folder))
            self._names.append(name)
        elif self._todo:
            raise ToolFaultError("not_found", f"{self._path!r}: {name!r} is a file, not a folder")
        else:
            return self._place(name, status)
        return None

    def _not_there(self, name: str) -> Place:
        missing = (name, *self._todo)
        if ".." in missing:
            raise ToolFaultError("not_found", f"{self._path!r}: there is no {name!r} to go up from")
        return Place(folder=self._folders[-1], above=tuple(self._names), missing=missing)

    def _go_up(self) -> None:
        if not self._names:
            raise OutsideWorkspaceError(self._path, self._root)
        os.close(self._folders.pop())
        self._names.pop()

    def _follow(self, target: str) -> None:
        self._links += 1
        if self._links > _MOST_LINKS:
            raise ToolFaultError(
                "invalid_argument", f"{self._path!r}: too many links, perhaps in a circle"
            )
        if os.path.isabs(target):
            parts = self._parts(target)
            while self._names:
                self._go_up()
        else:
            parts = _components(target)
        self._todo.extendleft(reversed(parts))

    def _parts(self, path: str) -> list[str]:
        """Return the components from the root on."""
        if "\0" in path:
            raise ToolFaultError("invalid_argument", "a path cannot hold a NUL character")
        if not os.path.isabs(path):
            if os.path.normpath(path).split("/")[0] == "..":
                raise OutsideWorkspaceError(path, self._root)
            return _components(path)
        if path != str(self._root) and not path.startswith(f"{self._root}/"):
            raise OutsideWorkspaceError(self._path, self._root)
        return _components(path[len(str(self._root)) :])

    def _place(self, name: str, status: os.stat_result) -> Place:
        return Place(folder=self._folders[-1], above=tuple(self._names), name=name, status=status)


def _components(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def not_found(place: Place, path: str) -> ToolFaultError:
    """Say that nothing is there, and which name was probably meant."""
    missing = place.missing[0] if place.missing else place.name
    meant = nearest(missing, names_in(place.folder))
    where = "/".join(place.above)
    paths = [repr(f"{where}/{name}" if where else name) for name in meant]
    hint = f"did you mean {' or '.join(paths)}?" if paths else "`ls` shows what is there"
    return ToolFaultError("not_found", f"no such file or folder: {path!r}", hint=hint)


def names_in(folder: int) -> list[str]:
    """Return the names in a folder that is held open; none when it may not be listed."""
    with suppress(OSError):
        readable = os.open(".", _FOLDER | os.O_RDONLY, dir_fd=folder)
        try:
            return sorted(os.listdir(readable))
        finally:
            os.close(readable)
    return []


def fault_of(error: OSError, path: str) -> ToolFaultError:
    """Make what the operating system says a fault that names the path."""
    said = (error.strerror or str(error)).lower()
    match error:
        case FileNotFoundError():
            return ToolFaultError("not_found", f"{path!r}: {said}")
        case PermissionError():
            return ToolFaultError("denied", f"{path!r}: {said}")
        case FileExistsError() | NotADirectoryError() | IsADirectoryError():
            return ToolFaultError("conflict", f"{path!r}: {said}")
        case _:
            return ToolFaultError("unsupported", f"{path!r}: {said}")
