"""The folder in which tools work: whether it may be one, and what a call changed in it."""

import os
import stat
import time
from contextlib import suppress
from mimetypes import guess_type
from pathlib import Path

from kitbag.environment import config_directory, home_directory, state_directory
from kitbag.errors import WorkspaceError
from kitbag.hidden_text import escape_hidden
from kitbag.results import ChangedFile
from kitbag.untrusted_files import open_plain

_MOST_ENTRIES = 2_000
_MOST_SECONDS = 0.005  # a walk must not cost more than the call it follows
_MOST_DEPTH = 100  # a descriptor is held for each level
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OURS = ".kitbag"
_CLOCK_REALTIME_COARSE = 5  # Python does not name it
_MOST_CHECKED = 10_000
_SYSTEM = ("/etc", "/usr", "/bin", "/sbin", "/lib", "/boot", "/proc", "/sys", "/dev", "/run")
_CROWDED = ("/var", "/home", "/opt", "/srv", "/mnt", "/media")  # below them is fine
_KEYS = (".ssh", ".gnupg", ".aws", ".azure", ".config", ".docker", ".kube", ".pki")


_checked: dict[str, tuple[Path, int, int]] = {}  # what was given → real path, device, inode


def check_workspace(path: str) -> Path:
    """Return the real path of a workspace; refuse one that would give a tool too much."""
    known = _checked.get(path)
    if known is not None and _is_same(path, known):
        return known[0]
    real = _check(Path(path))
    status = real.stat()
    if len(_checked) > _MOST_CHECKED:
        _checked.clear()
    _checked[path] = (real, status.st_dev, status.st_ino)
    return real


def _is_same(path: str, known: tuple[Path, int, int]) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return (status.st_dev, status.st_ino) == known[1:]


def _check(path: Path) -> Path:
    try:
        real = path.resolve(strict=True)
    except OSError as error:
        raise WorkspaceError(str(path), (error.strerror or str(error)).lower()) from None
    if not real.is_dir():
        raise WorkspaceError(str(path), "it is not a folder")
    home = home_directory()
    if real == Path("/") or (home is not None and home.resolve().is_relative_to(real)):
        raise WorkspaceError(str(path), "it holds your home folder, which tools must not see")
    if str(real) in _CROWDED or any(real.is_relative_to(folder) for folder in _SYSTEM):
        raise WorkspaceError(str(path), "it belongs to the system")
    if home is not None and any(real.is_relative_to(home.resolve() / name) for name in _KEYS):
        raise WorkspaceError(str(path), "it is where your keys and settings are")
    for kept in (state_directory(), config_directory()):
        # Whoever may write there may grant itself anything, and rewrite what is on record.
        if kept is not None and _overlap(real, Path(os.path.realpath(kept))):
            raise WorkspaceError(str(path), "it is where Kitbag keeps grants and the journal")
    return real


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def file_clock_ns() -> int:
    """Return the time as file systems stamp it: by the tick, a moment behind."""
    try:
        return time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)
    except OSError:  # a clock that only Linux has
        return time.time_ns() - 10_000_000


# What the last call in a workspace left, by path: inode, time and size. A file system's clock ticks
# slowly, so what was made just before a call would look as if the call had made it.
_left: dict[Path, dict[str, tuple[int, int, int]]] = {}


def changed_files(workspace: Path, since_ns: int) -> tuple[tuple[ChangedFile, ...], bool]:
    """Return files made or changed since then, and whether the walk saw everything."""
    found: dict[str, tuple[int, int, int]] = {}
    complete = _walk(workspace, since_ns, found)
    before = _left.get(workspace, {})
    if len(_left) > _MOST_CHECKED:
        _left.clear()
    _left[workspace] = found
    changed = [path for path in sorted(found) if before.get(path) != found[path]]
    return tuple(changed_file(path, found[path][2]) for path in changed), complete


def _walk(workspace: Path, since_ns: int, found: dict[str, tuple[int, int, int]]) -> bool:
    """Note the files that changed; whether everything was seen."""
    search = _Search(since_ns, found)
    try:
        root = open_plain(str(workspace))
    except OSError:
        return False
    try:
        search.enter(root, ".", "")
    finally:
        os.close(root)
    return search.complete


class _Search:
    """A look through folders that other calls may be renaming: by descriptors, never by name."""

    def __init__(self, since_ns: int, found: dict[str, tuple[int, int, int]]) -> None:
        self._since_ns = since_ns
        self._found = found
        self._entries = 0
        self._deadline = time.monotonic() + _MOST_SECONDS
        self.complete = True

    def enter(self, above: int, name: str, prefix: str) -> None:
        try:
            # Without following: what was a folder a moment ago may be a link by now.
            folder = os.open(name, _FOLDER, dir_fd=above)
        except OSError:
            return
        try:
            self._look(folder, prefix)
        finally:
            os.close(folder)

    def _look(self, folder: int, prefix: str) -> None:
        inner: list[str] = []
        with suppress(OSError), os.scandir(folder) as listing:
            for entry in listing:
                self._entries += 1
                if self._entries > _MOST_ENTRIES or time.monotonic() > self._deadline:
                    self.complete = False
                    return
                if entry.is_dir(follow_symlinks=False):
                    inner.append(entry.name)
                else:
                    self._note(f"{prefix}{entry.name}", entry.stat(follow_symlinks=False))
        if inner and prefix.count("/") >= _MOST_DEPTH:
            self.complete = False
            return
        for name in inner:
            if prefix or name != _OURS:
                self.enter(folder, name, f"{prefix}{name}/")

    def _note(self, path: str, status: os.stat_result) -> None:
        if stat.S_ISREG(status.st_mode) and status.st_ctime_ns >= self._since_ns:
            self._found[path] = (status.st_ino, status.st_ctime_ns, status.st_size)


def changed_file(path: str, size: int) -> ChangedFile:
    """Return a file as a result names it, with its type guessed from its name."""
    kind = guess_type(path)[0] or "application/octet-stream"
    return ChangedFile(path=escape_hidden(path), type=kind, size=size)
