"""Copies of skill folders, so that calls run one version of all files while they are edited."""

import atexit
import os
import re
import stat
import tempfile
import weakref
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from skillpouch.environment import cache_directory
from skillpouch.problems import Problem
from skillpouch.runtime.memoize import Shared
from skillpouch.runtime.removal import lock_folder, remove_left_behind, remove_tree
from skillpouch.skills import Skill
from skillpouch.tools import Binary, Runs, Script, Tool
from skillpouch.untrusted_files import folder_below, open_plain

if TYPE_CHECKING:
    from skillpouch.tools import SkillTools


# Far more than a skill has that is edited while it runs: a limit against copying a whole disk.
_MOST_FILES = 5_000
_MOST_BYTES = 64 * 1024 * 1024
_CHUNK = 1024 * 1024
_PREFIX = "skillpouch-copies-"


class UncopyableError(OSError):
    """A folder that cannot be copied so that its scripts would work the same in the copy."""


class SkillCopy(Shared):
    """The files of one version of a skill; they are removed with the last reference to this."""

    __slots__ = ("__weakref__", "folder", "home")

    def __init__(self, home: str, folder: str) -> None:
        self.home = home
        self.folder = folder

    def holds(self, tool: Tool) -> Tool:
        """Return a tool of the skill, changed to run from the copy."""
        return replace(
            tool,
            home=self.folder,
            copied_from=tool.home,
            runs=self._moved(tool.runs),
            copy=self,
        )

    def _moved(self, runs: Runs) -> Runs:
        match runs:
            case Script(file=file):
                return replace(runs, file=self._path(file))
            case Binary(path=str(path)):
                return replace(runs, path=self._path(path))
            case _:
                return runs

    def _path(self, path: str) -> str:
        inside = path.startswith(f"{self.home}/")
        return f"{self.folder}{path[len(self.home) :]}" if inside else path


def copies_around(folder: Path) -> Path:
    """Return the folder that holds this copy and the copies of other skills."""
    return folder.parents[1]


def name_originals(text: str, home: str) -> str:
    """Replace paths of copies of a skill in a text with the path of the skill itself."""
    if _PREFIX not in text:
        return text
    copies = re.escape(os.path.realpath(_all_copies()))
    one = rf"{copies}/{_PREFIX}[^/\s]+/\d+/{re.escape(os.path.basename(home))}(?![\w.-])"
    return re.sub(one, lambda _copy: home, text)


class SkillCopies:
    """Makes copies in a folder of this process, which is removed when the process ends.

    A process that was killed leaves its folder behind; the next one that starts removes it.
    """

    def __init__(self) -> None:
        copies = _all_copies()
        remove_left_behind(_PREFIX, copies)
        self._folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=copies)).resolve()
        self._lock = lock_folder(self._folder)
        self._owner = os.getpid()
        self._numbers = count(1)
        self._live: set[str] = set()
        self._unused: deque[str] = deque()  # a deque, because finalizers in any thread append to it
        self._closed = False
        atexit.register(self._remove_all)

    def make(self, home: str) -> SkillCopy:
        """Copy a folder with names, modes, times and links, so that its digest is the same.

        Raises:
            UncopyableError: it is too large, or holds something that cannot be copied.
            OSError: it cannot be read, or the disk is full.
        """
        around = f"{self._folder}/{next(self._numbers)}"
        folder = f"{around}/{os.path.basename(home)}"
        os.mkdir(around, 0o700)
        copy = SkillCopy(home, folder)
        self._live.add(around)
        weakref.finalize(copy, self._let_go, around).atexit = False
        _Copying(os.path.realpath(home)).run(folder)
        return copy

    def tidy(self) -> None:
        """Remove the copies that are no longer referenced."""
        with suppress(IndexError):
            while True:
                _remove(self._unused.popleft())

    def close(self) -> None:
        """Remove unused copies now, and each of the others after its last call."""
        self._closed = True
        self._tidy_up()

    def _let_go(self, around: str) -> None:
        self._live.discard(around)
        self._unused.append(around)
        if self._closed:
            self._tidy_up()

    def _tidy_up(self) -> None:
        self.tidy()
        if not self._live:
            self._remove_all()

    def _remove_all(self) -> None:
        atexit.unregister(self._remove_all)
        # Not in a forked child: the copies belong to its parent.
        if self._lock >= 0 and os.getpid() == self._owner:
            _remove(str(self._folder))
            os.close(self._lock)
        self._lock = -1


class _Copying:
    """One copy being made."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._files = 0
        self._bytes = 0

    def run(self, target: str) -> None:
        root = open_plain(self._home)
        try:
            self._copy_all(root, target)
        finally:
            os.close(root)

    def _copy_all(self, root: int, target: str) -> None:
        """Copy by descriptors: a tool that can write the folder may be renaming its files."""
        pending = [""]
        folders: list[tuple[str, os.stat_result]] = []
        while pending:
            inside = pending.pop()
            os.mkdir(target + inside, 0o700)
            with folder_below(root, inside) as folder, os.scandir(folder) as entries:
                folders.append((target + inside, os.fstat(folder)))
                for entry in entries:
                    path = f"{inside}/{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(path)
                    else:
                        self._copy(folder, path, target + path)
        # After all files, the deepest folder first: a folder may be read-only, and adding an entry
        # changes its time.
        for copied, status in reversed(folders):
            os.utime(copied, ns=(status.st_atime_ns, status.st_mtime_ns))
            os.chmod(copied, stat.S_IMODE(status.st_mode))

    def _copy(self, folder: int, path: str, target: str) -> None:
        self._files += 1
        if self._files > _MOST_FILES:
            raise UncopyableError(f"more than {_MOST_FILES:,} files")
        name = path.rpartition("/")[2]
        if stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode):
            self._copy_link(folder, path, target)
            return
        # O_NONBLOCK, O_NOFOLLOW: what was a file when it was listed may be a FIFO or a link now.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC
        with open(os.open(name, flags, dir_fd=folder), "rb", buffering=0) as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise UncopyableError(f"{path[1:]} is not a file")
            with open(target, "xb", buffering=0) as made:
                while chunk := file.read(_CHUNK):
                    made.write(chunk)
                    self._count(len(chunk))
                os.fchmod(made.fileno(), stat.S_IMODE(status.st_mode))
                os.utime(made.fileno(), ns=(status.st_atime_ns, status.st_mtime_ns))

    def _copy_link(self, folder: int, path: str, target: str) -> None:
        leads_to = os.readlink(path.rpartition("/")[2], dir_fd=folder)
        real = os.path.realpath(self._home + path)
        if leads_to.startswith("/") or not real.startswith(f"{self._home}/"):
            raise UncopyableError(f"the link {path[1:]} leads out of the skill")
        os.symlink(leads_to, target)

    def _count(self, size: int) -> None:
        self._bytes += size
        if self._bytes > _MOST_BYTES:
            raise UncopyableError(f"more than {_MOST_BYTES:,} bytes")


def _all_copies() -> Path:
    """Return the folder for the copies of all processes; /tmp only if there is no cache folder.

    A call has a /tmp of its own, in which it could write beside a copy that is mounted there.
    """
    cache = cache_directory()
    if cache is not None:
        copies = cache / "copies"
        with suppress(OSError):
            copies.mkdir(mode=0o700, parents=True, exist_ok=True)
            return copies
    return Path(tempfile.gettempdir())


def _remove(folder: str) -> None:
    with suppress(OSError):  # what cannot be removed now, the next process may
        remove_tree(folder)


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillVersion:
    """A skill as it was at a moment when none of its files was changing. Its body has been read.

    `noticed` are the problems in its SKILL.md. Without a `copy`, calls run the files in the
    skill's own folder; `uncopied` says why there should be a copy and is none.
    """

    skill: Skill
    tools: "SkillTools"
    digest: str
    noticed: tuple[Problem, ...] = ()
    copy: "SkillCopy | None" = None
    uncopied: Problem | None = None

    @property
    def problems(self) -> tuple[Problem, ...]:
        return (*self.noticed, *self.tools.problems)
