"""Opens files and folders that tools or others can change, without following links unnoticed.

What was checked is what is used: a path is walked by descriptors. Each component is checked and
opened relative to the folder before it, without following links; a link is read, and its target is
walked in the same way. So no rename, and no link that appears meanwhile, leads somewhere else.
Only regular files are read, and never more of them than a limit.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from skillpouch.errors import OutsideWorkspaceError, PortableError, ToolFaultError
from skillpouch.runtime.memoize import BoundedCache

# "inode size mtime_ns ctime_ns": text, because thousands of them are kept and compared.
Stamp = str

_MIB = 1024 * 1024
SKILL_FILE_BYTES = _MIB
DECLARATION_BYTES = _MIB
SCRIPT_BYTES = 4 * _MIB
# Frontmatter is 2 kB at most in practice: one read nearly always has all of it.
_HEAD_BYTES = 16 * 1024
_NO_FILE = ("absent", "there is no such file")
_NOT_A_FILE = ("not-a-file", "it is not a regular file")
_READ = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_MOST_LINKS = 40  # the kernel's own limit, path_resolution(7)
_FOLDER = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY)  # needs no permission to read the folder, open(2)


_MOST_TRUSTED = 10_000
_trusted_links: BoundedCache[str, str] = BoundedCache(_MOST_TRUSTED)


class CannotReadError(PortableError, OSError):
    """A file that cannot be read, with a code for programs and a reason for people."""

    def __init__(self, code: str, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason

    @classmethod
    def of(cls, error: OSError | ValueError) -> "CannotReadError":
        if isinstance(error, cls):
            return error
        if isinstance(error, FileNotFoundError):
            return cls(*_NO_FILE)
        strerror = error.strerror if isinstance(error, OSError) else None
        return cls("unreadable", (strerror or str(error)).lower())


@dataclass(frozen=True, slots=True, kw_only=True)
class FileContent:
    """The bytes of a file, or of its beginning, and the file's stamp when they were read."""

    data: bytes
    stamp: Stamp
    whole: bool


def stamp_of(status: os.stat_result) -> Stamp:
    """Return text that changes whenever the file or folder changes."""
    return f"{status.st_ino} {status.st_size} {status.st_mtime_ns} {status.st_ctime_ns}"


def read_head(path: str, most: int = SKILL_FILE_BYTES) -> FileContent:
    """Read the beginning of a SKILL.md; refuse a file of more than `most` bytes."""
    return _read(path, most, _HEAD_BYTES, _open_skill_file)


def read_skill_text(path: str) -> FileContent:
    """Read a SKILL.md; refuse a link that leads out of its folder and was not trusted before."""
    return _read(path, SKILL_FILE_BYTES, SKILL_FILE_BYTES, _open_skill_file)


def trust_link(path: str, target: str) -> None:
    """Remember the target of a SKILL.md that is a link, after discovery saw it inside the roots."""
    _trusted_links[path] = target


def _open_skill_file(path: str) -> int:
    try:
        return os.open(path, _READ | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
    found = _trusted_links.get(path, path)
    # A link inside the skill's own folder may change. Any other keeps the target that discovery
    # saw: a tool that can write the folder could point the link at any file of this machine.
    with _inside(found, found.rpartition("/")[0]) as place:
        return os.open(place.name, _READ | os.O_NOFOLLOW, dir_fd=place.folder)


def read_whole(path: str, most: int) -> FileContent:
    """Read a file of at most `most` bytes."""
    return _read(path, most, most)


def read_inside(path: str, home: str, most: int) -> FileContent:
    """Read a file below a folder, unless a link on the way leads out of it.

    While the folder is held open, a file is read only once: all its readers see the same bytes.
    """
    held = _held.get()
    if held is None or held.home != real_home(home):
        return _read_inside(path, home, most)
    if path not in held.read or len(held.read[path].data) > most:
        held.read[path] = _read_inside(path, home, most)
    return held.read[path]


def _read_inside(path: str, home: str, most: int) -> FileContent:
    with _inside(path, home) as place:
        if place.missing or not place.name:
            raise CannotReadError(*_NO_FILE if place.missing else _NOT_A_FILE)
        descriptor = os.open(place.name, _READ | os.O_NOFOLLOW, dir_fd=place.folder)
        try:
            return _read_regular(descriptor, most, most)
        finally:
            os.close(descriptor)


def require_inside(path: str, home: str) -> os.stat_result:
    """Refuse a path whose links lead outside a folder, or nowhere; return its target's status."""
    with _inside(path, home) as place:
        if place.status is None:
            raise CannotReadError(*_NO_FILE)
        return place.status


@dataclass(frozen=True, slots=True)
class _Held:
    home: str
    folder: int
    read: dict[str, FileContent]


# What `hold_open` holds for the current thread.
_held: ContextVar[_Held | None] = ContextVar("held", default=None)


@contextmanager
def hold_open(home: str) -> Iterator[None]:
    """Hold a skill's folder open while its files are read, so that each is opened only once."""
    real = real_home(home)
    try:
        descriptor = open_plain(real)
    except OSError:
        yield  # every read will fail, and report the reason
        return
    with shown_by(real, descriptor):
        yield


@contextmanager
def shown_by(root: str, folder: int) -> Iterator[None]:
    """Let the files of a root be found in an open folder inside this block, and close it then."""
    before = _held.set(_Held(root, folder, {}))
    try:
        yield
    finally:
        _held.reset(before)
        os.close(folder)


@contextmanager
def _inside(path: str, home: str) -> Iterator["ResolvedPath"]:
    """Find the target of a path below a folder, and hold the target's folder open."""
    walk = None
    try:
        below = path[len(home) + 1 :] if path.startswith(f"{home}/") else path
        walk = _Walk(real_home(home), below)
        yield walk.run()
    except OutsideWorkspaceError:
        raise CannotReadError("outside", f"it leads outside the skill{_whereto(path)}") from None
    except ToolFaultError as fault:
        code = "absent" if fault.kind == "not_found" else "unreadable"
        raise CannotReadError(code, str(fault)) from None
    except (OSError, ValueError) as error:
        raise CannotReadError.of(error) from None
    finally:
        if walk is not None:
            walk.close()


def _whereto(path: str) -> str:
    """Return the target of a path for a message only: it may have changed since the check."""
    with suppress(OSError, ValueError):
        return f", to {os.path.realpath(path)}"
    return ""


def follow_links_anew() -> None:
    """Forget the real paths of skills' folders; a new discovery resolves them again."""
    real_home.cache_clear()


@lru_cache(maxsize=1024)
def real_home(home: str) -> str:
    """Return the real path of a skill's folder, as it was at the first request."""
    # Resolved once: if the folder is replaced with a link later, the link is not followed.
    return os.path.realpath(home)


def open_plain(path: str) -> int:
    """Open a file or folder by an absolute path in which nothing is a link, as O_PATH.

    Raises OSError: ELOOP where a component is a link, however briefly.
    """
    folder = os.open("/", _FOLDER | _PATH_ONLY)
    *above, name = _components(path) or ["."]
    try:
        for part in above:
            inner = _enter(part, folder)
            os.close(folder)
            folder = inner
        found = os.open(name, os.O_NOFOLLOW | os.O_CLOEXEC | _PATH_ONLY, dir_fd=folder)
    finally:
        os.close(folder)
    if stat.S_ISLNK(os.fstat(found).st_mode):
        os.close(found)
        raise OSError(errno.ELOOP, "it is a link", path)
    return found


def _enter(name: str, folder: int) -> int:
    try:
        return os.open(name, _FOLDER | _PATH_ONLY, dir_fd=folder)
    except NotADirectoryError:
        if stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode):
            raise OSError(errno.ELOOP, "it leads through a link", name) from None
        raise


@contextmanager
def folder_below(root: int, path: str) -> Iterator[int]:
    """Hold open, for reading, a folder below an open one; nothing on the way may be a link."""
    folder = os.dup(root)
    try:
        for name in _components(path):
            inner = _enter(name, folder)
            os.close(folder)
            folder = inner
        readable = os.open(".", _FOLDER | os.O_RDONLY, dir_fd=folder)
    finally:
        os.close(folder)
    try:
        yield readable
    finally:
        os.close(readable)


def make_folder(path: str) -> int:
    """Open a folder by an absolute path in which nothing is a link; create missing folders.

    Raises OSError: ELOOP where a component is a link, however briefly.
    """
    folder = os.open("/", _FOLDER | _PATH_ONLY)
    for name in _components(path):
        try:
            inner = make_folder_in(folder, name)
        finally:
            os.close(folder)
        folder = inner
    return folder


def make_folder_in(folder: int, name: str) -> int:
    """Open a folder in an open one, as O_PATH; make it when it is not there."""
    try:
        return _enter(name, folder)
    except FileNotFoundError:
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
    return _enter(name, folder)


def is_plain(path: str) -> bool:
    """Tell whether there is a file or folder at an absolute path in which nothing is a link."""
    try:
        os.close(open_plain(path))
    except (OSError, ValueError):  # ValueError: a NUL in the path
        return False
    return path == os.path.normpath(path) and path.startswith("/")


def follow_trusted_links(path: str, changeable: Iterable[str]) -> tuple[str, dict[str, str]]:
    """Return the real path of an absolute path, and the links on the way with their targets.

    Raises OSError: ELOOP for a link below one of `changeable`, where a tool may have put it.
    """
    links: dict[str, str] = {}
    distrusted = tuple(f"{folder.rstrip('/')}/" for folder in changeable)
    todo, real = deque(_components(path)), ""
    while todo:
        name = todo.popleft()
        if name == "..":
            real = real.rpartition("/")[0]
            continue
        step = f"{real}/{name}"
        if not stat.S_ISLNK(os.lstat(step).st_mode):
            real = step
            continue
        if step.startswith(distrusted) or len(links) >= _MOST_LINKS:
            raise OSError(errno.ELOOP, "it leads through a link", step)
        links[step] = os.readlink(step)
        real = "" if links[step].startswith("/") else real
        todo.extendleft(reversed(_components(links[step])))
    return real or "/", links


def _read(
    path: str, most: int, wanted: int, opened: Callable[[str], int] | None = None
) -> FileContent:
    try:
        # O_NONBLOCK: opening a FIFO named SKILL.md would otherwise wait forever for a writer.
        descriptor = opened(path) if opened else os.open(path, _READ)
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
        raise CannotReadError(*_NOT_A_FILE)
    if status.st_size > most:
        reason = f"{status.st_size:,} bytes are more than the {most:,} allowed"
        raise CannotReadError("too-large", reason)
    data = _read_up_to(descriptor, min(wanted, most))
    return FileContent(data=data, stamp=stamp_of(status), whole=len(data) >= status.st_size)


def _read_up_to(descriptor: int, wanted: int) -> bytes:
    data = more = os.read(descriptor, wanted)
    while more and len(data) < wanted:
        data += (more := os.read(descriptor, wanted - len(data)))
    return data


@dataclass(slots=True, kw_only=True)
class ResolvedPath:
    """The target of a path: a folder that is held open, and the `name` of an entry in it.

    `name` is "" if the target is the folder itself. `missing` are components that do not exist yet.
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
def find_place(root: Path, path: str) -> Iterator[ResolvedPath]:
    """Find the target of `path` below `root`, and hold the target's folder open."""
    walk = _Walk(str(root), path)
    try:
        yield walk.run()
    except OSError as error:
        raise fault_of(error, path) from None
    finally:
        walk.close()


class _Walk:
    def __init__(self, root: str, path: str) -> None:
        self._root = root
        self._path = path
        self._todo = deque(self._parts(path))
        self._names: list[str] = []
        self._folders: list[int] = []
        self._links = 0

    def run(self) -> ResolvedPath:
        held = _held.get()
        is_held = held is not None and held.home == self._root
        self._folders = [os.dup(held.folder) if held and is_held else open_plain(self._root)]
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

    def _step(self, name: str) -> ResolvedPath | None:
        """Enter a folder or follow a link; return the place if the path ends here."""
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

    def _not_there(self, name: str) -> ResolvedPath:
        missing = (name, *self._todo)
        if ".." in missing:
            raise ToolFaultError("not_found", f"{self._path!r}: there is no {name!r} to go up from")
        return ResolvedPath(folder=self._folders[-1], above=tuple(self._names), missing=missing)

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
        """Return the components of a path below the root."""
        if "\0" in path:
            raise ToolFaultError("invalid_argument", "a path cannot hold a NUL character")
        if not os.path.isabs(path):
            if ".." in path and os.path.normpath(path).split("/")[0] == "..":
                raise OutsideWorkspaceError(path, self._root)
            return _components(path)
        if path != self._root and not path.startswith(f"{self._root}/"):
            raise OutsideWorkspaceError(self._path, self._root)
        return _components(path[len(self._root) :])

    def _place(self, name: str, status: os.stat_result) -> ResolvedPath:
        return ResolvedPath(
            folder=self._folders[-1], above=tuple(self._names), name=name, status=status
        )


def _components(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]


def fault_of(error: OSError, path: str) -> ToolFaultError:
    """Turn an error of the operating system into a fault that names the path."""
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


def look(path: str) -> Stamp | None:
    """Return the stamp of the file or folder at a path, None if there is none."""
    try:
        return stamp_of(os.stat(path))
    except (OSError, ValueError):
        return None
