"""Writes texts of skills into folders, one per content, shared by processes through leases."""

import atexit
import fcntl
import os
import re
import secrets
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from skillpouch.environment import another_place, state_directory
from skillpouch.errors import SkillpouchError
from skillpouch.problems import Problem
from skillpouch.runtime.removal import remove_tree


class SkillTextError(SkillpouchError):
    """A text that is not a skill; `problems` lists everything that is wrong with it."""

    code = "skill_text"

    def __init__(self, name: str, reason: str, problems: Sequence[Problem] = ()) -> None:
        self.name = name
        self.problems = tuple(problems)
        lines = [
            f"line {problem.line}: {problem.message}" if problem.line else problem.message
            for problem in self.problems
        ]
        super().__init__(
            f"the text of skill {name!r} cannot be used: {'; '.join((reason, *lines))}",
            hint="begin it with '---', `name:`, `description:`, its `tools:` and '---'",
        )


class SkillNameError(SkillpouchError):
    """A name that no skill can have."""

    code = "skill_name"

    def __init__(self, name: str) -> None:
        self.name = name
        super().__init__(
            f"{name!r:.80} is not a name for a skill",
            hint="use 1-64 letters, digits, '_' and '-', such as 'word-count'",
        )


class SkillFolderError(SkillpouchError):
    """The folder for skills that are passed as text cannot be used."""

    code = "skill_folder"

    def __init__(self, path: Path | None, reason: str, *, hint: str = "") -> None:
        self.path = path
        where = path or "the folder for skills that come as text"
        super().__init__(f"{where} cannot be used: {reason}", hint=hint)


_PATIENCE_SECONDS = 30.0
_PAUSE_SECONDS = 0.01
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class Lease:
    """A file that is locked while this process lives, which other processes can check."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.name = f"{os.getpid()}-{secrets.token_hex(8)}"
        folder.mkdir(mode=0o700, exist_ok=True)
        self._descriptor = os.open(folder / self.name, _FLAGS | os.O_EXCL, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)

    def close(self) -> None:
        """Remove and unlock the file: to other processes, this one has ended."""
        (self._folder / self.name).unlink(missing_ok=True)
        os.close(self._descriptor)


def lives(folder: Path, name: str) -> bool:
    """Tell whether the process of a lease still lives; remove the file of one that ended."""
    path = folder / name
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        path.unlink(missing_ok=True)
        return False
    finally:
        os.close(descriptor)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a lock against other processes and threads that change a folder."""
    descriptor = os.open(folder / ".lock", _FLAGS, 0o600)
    try:
        _wait_for(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, folder: Path) -> None:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                reason = f"another process has kept it locked for {_PATIENCE_SECONDS:g} s"
                raise SkillFolderError(folder, reason, hint="end that process") from None
            time.sleep(_PAUSE_SECONDS)


_PROCESSES = "processes"
_USERS = "used-by"
_PLAIN = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_KEY = re.compile(r"[0-9a-f]{40}\Z")
TEXT_HOME = re.compile(r".*/texts/[0-9a-f]{40}/[^/]+\Z", re.DOTALL)
_ABOVE = re.compile(r".*/texts/[0-9a-f]{40}/", re.DOTALL)

Files = Mapping[str, str]  # path below the skill's folder → text; Skillpouch chooses the paths
Forget = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextSkillFolder:
    """The folder of a skill, which exists until `let_go`."""

    home: Path
    key: str
    base: Path


class _Users:
    """Counts the uses of each folder by this process. A forked child starts without any."""

    def __init__(self) -> None:
        # Reentrant: a garbage collection while it is held may run finalizers that take it again.
        self.lock = threading.RLock()
        self.counts: dict[tuple[Path, str], int] = {}
        self.holders: dict[Path, Lease] = {}
        self._inside: set[Path] = set()

    @contextmanager
    def alone(self, base: Path) -> Iterator[None]:
        """Hold the lock against all other processes and threads."""
        with self.lock:
            if base in self._inside:
                yield
                return
            with alone(base):
                self._inside.add(base)
                try:
                    yield
                finally:
                    self._inside.discard(base)

    def count(self, place: tuple[Path, str], step: int) -> int:
        """Change the number of uses of a folder; return the number before."""
        with self.lock:
            before = self.counts.get(place, 0)
            self.counts[place] = before + step
            if before + step <= 0:
                del self.counts[place]
            return before

    def holder(self, base: Path) -> Lease:
        if base not in self.holders:
            _sweep(base)
            holder = self.holders[base] = Lease(base / _PROCESSES)
            atexit.register(_close, holder, os.getpid())
        return self.holders[base]


def _close(holder: Lease, owner: int) -> None:
    if os.getpid() == owner:
        holder.close()


_users = _Users()


def _after_fork() -> None:
    # Nothing is closed or unlocked: the locks still belong to the parent.
    global _users  # noqa: PLW0603 - another process
    _users = _Users()


os.register_at_fork(after_in_child=_after_fork)


def keep(files: Files, name: str) -> TextSkillFolder:
    """Write a skill's files into a folder that only this user can enter; equal skills share it."""
    base = _base()
    key = _key(files, name)
    # The name comes from a text: only one without special characters may name a folder.
    home = base / key / (name if _PLAIN.match(name) else "skill")
    users = _users
    try:
        with users.alone(base):
            users.count((base, key), 1)
            holder = users.holder(base)
            if not _holds(home, files):
                _write(base, key, home, files)
            (base / key / _USERS / holder.name).touch(mode=0o600)
    except OSError as error:
        users.count((base, key), -1)
        raise SkillFolderError(base, (error.strerror or str(error)).lower()) from None
    return TextSkillFolder(home=home, key=key, base=base)


def is_text_home(home: str) -> bool:
    """Tell whether a skill's folder was written here, from a text."""
    return TEXT_HOME.match(home) is not None


def path_in_text(path: str) -> str:
    """Return a path without the folders above the skill's, which the author does not know."""
    return _ABOVE.sub("", path, count=1)


def hold(home: str) -> TextSkillFolder | None:
    """Add one more use of a folder; None if this process no longer uses it."""
    place = Path(home)
    kept = TextSkillFolder(home=place, key=place.parent.name, base=place.parent.parent)
    users = _users
    with users.lock:
        if (kept.base, kept.key) not in users.counts:
            return None
        users.count((kept.base, kept.key), 1)
    return kept


def let_go(kept: TextSkillFolder, forget: Forget = lambda _: None) -> None:
    """End one use of a skill; the last one of all processes removes its folder.

    `forget` is called with the skill's home at the last use in this process.
    """
    users = _users
    place = (kept.base, kept.key)
    with users.lock:
        if place not in users.counts or users.count(place, -1) > 1:
            return
        forget(str(kept.home))
        # If it cannot be removed now, the next process removes it.
        with suppress(OSError, SkillFolderError), users.alone(kept.base):
            user = users.holders[kept.base].name
            (kept.base / kept.key / _USERS / user).unlink(missing_ok=True)
            _remove_unused(kept.base, kept.key)


def _base() -> Path:
    state = state_directory()
    if state is None:
        raise SkillFolderError(None, "there is no home directory", hint="set XDG_STATE_HOME")
    base = state / "texts"
    try:
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
        base.mkdir(mode=0o700, exist_ok=True)
        found = base.lstat()
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise SkillFolderError(base, reason, hint=another_place("XDG_STATE_HOME")) from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        hint = "move it out of the way, or set XDG_STATE_HOME to a folder of yours"
        raise SkillFolderError(base, "it is not a folder that belongs to you", hint=hint)
    if stat.S_IMODE(found.st_mode) & 0o077:
        base.chmod(0o700)
    return base


def _key(files: Files, name: str) -> str:
    whole = sha256(f"{name}\0".encode())
    for path in sorted(files):
        data = files[path].encode()
        whole.update(f"{path}\0{len(data)}\0".encode() + data)
    return whole.hexdigest()[:40]


def _holds(home: Path, files: Files) -> bool:
    """Tell whether a folder still has exactly these files: another program may have changed it."""
    try:
        there = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
        return there == set(files) and all(
            (home / path).read_bytes() == text.encode() for path, text in files.items()
        )
    except OSError:
        return False


def _write(base: Path, key: str, home: Path, files: Files) -> None:
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=base))
    try:
        (draft / _USERS).mkdir()
        for path, text in files.items():
            file = draft / home.name / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="")
        if (base / key).exists():  # damaged: its users continue with the new files
            for user in _names(base / key / _USERS):
                (draft / _USERS / user).touch()
            remove_tree(base / key)
        draft.rename(base / key)
    finally:
        _remove(draft)


def _sweep(base: Path) -> None:
    """Remove what killed processes left behind."""
    for name in _names(base):
        if name.startswith(".draft-"):
            _remove(base / name)
        elif _KEY.match(name):
            _remove_unused(base, name)
    for name in _names(base / _PROCESSES):
        lives(base / _PROCESSES, name)


def _remove_unused(base: Path, key: str) -> None:
    users = _names(base / key / _USERS)
    if not any(lives(base / _PROCESSES, user) for user in users):
        _remove(base / key)


def _remove(folder: Path) -> None:
    with suppress(OSError):  # what cannot be removed now, the next process may
        remove_tree(folder)


def _names(folder: Path) -> list[str]:
    try:
        return [path.name for path in folder.iterdir()]
    except OSError:
        return []
