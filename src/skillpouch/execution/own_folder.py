"""Keeps what the calls of a skill write in its own folder, so that the folder itself never changes.

A call that was granted `own-folder` has another folder at the path of its skill: the top, a private
folder of the state directory, on which every file and folder of the skill is mounted read-only.
What the call makes beside them is new, and in the top. When the call has ended, the host removes
all of it that was not granted by name. So a call decides neither what another one finds among the
files of the skill, nor by which names.

Such calls of one skill run one after the other, each in a process of its own: while a call runs,
nobody else sees its top.
"""

import asyncio
import fcntl
import json
import os
import stat
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

from skillpouch.environment import another_place, state_directory
from skillpouch.errors import CommandStartError
from skillpouch.execution.confinement import OwnFolder
from skillpouch.limits import size_text
from skillpouch.runtime.removal import remove_tree

MOST_BYTES = 1024**3  # of what one skill keeps; a call that ends with more is the last one
_MOST_ENTRIES = 100_000
_MOST_MOUNTS = 400  # files and folders beside what may be made, each of which is a mount
_PAUSE_SECONDS = 0.02
_SECTOR_BYTES = 512  # the unit of st_blocks, stat(2)
_MODE = 0o755  # of the top, in a folder that only its owner enters
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC

T = TypeVar("T")


class OwnFolderError(CommandStartError):
    """A call cannot have a folder of its own to write in; nothing ran."""

    code = "own_folder"


@dataclass(slots=True)
class _Layout:
    """What a skill has beside the entries that may be made: all that is mounted on the top."""

    holders: tuple[str, ...]  # folders of the skill in which entries may be made, besides itself
    covered: dict[str, bool] = field(default_factory=dict)  # path → whether it is a folder
    links: dict[str, str] = field(default_factory=dict)  # path → target

    def has(self, path: str) -> bool:
        return path in self.covered or path in self.links or path in self.holders


def _folders_above(name: str) -> list[str]:
    above = name.split("/")[:-1]
    return ["/".join(above[:length]) for length in range(1, len(above) + 1)]


@dataclass(slots=True, kw_only=True)
class OwnFolderStore:
    """What is kept for one version of a skill; `granted` are the entries that outlive a call.

    Of a folder that the skill has, `.` among them, nothing outlives a call: entries can be made in
    it. `place` is where the skill is installed, `home` the path at which its calls see it.
    """

    skill: str
    place: str
    digest: str
    home: str
    granted: tuple[str, ...]
    names: tuple[str, ...] = field(init=False)  # what is kept
    dropped: list[str] = field(default_factory=list)  # what the last call made, and was removed

    def __post_init__(self) -> None:
        self.names = tuple(name for name in self.granted if not self._is_folder(name))

    def _is_folder(self, name: str) -> bool:
        path = Path(self.home, name)
        return path.is_dir() and not path.is_symlink()

    @asynccontextmanager
    async def in_use(self, workspace: Path, seconds: float) -> AsyncIterator[OwnFolder]:
        """Yield the folder for one call, when no other call of the skill has it.

        Raises:
            OwnFolderError: there is none, it is full, or others used it for this many seconds.
        """
        folder = self._folder(workspace)
        lock = await self._locked(folder, seconds)
        try:
            own = await _to_its_end(lambda: self._prepare(folder))
            try:
                yield own
            finally:
                await _to_its_end(lambda: self._tidy(folder, own))
        except OSError as error:
            raise self._unusable(error) from error
        finally:
            os.close(lock)

    def _folder(self, workspace: Path) -> Path:
        state = state_directory()
        if state is None:
            raise OwnFolderError(self.skill, "there is no home", hint="set XDG_STATE_HOME")
        # Only a folder that no tool reaches by its own path can be trusted later.
        for around in (workspace, Path(self.home)):
            if state.resolve().is_relative_to(around):
                reason = f"the state directory {state} is inside {around}"
                raise OwnFolderError(self.skill, reason, hint=another_place("XDG_STATE_HOME"))
        if Path(self.home) == workspace:
            raise OwnFolderError(self.skill, "its folder is the workspace, which it may write")
        return _place_of(state, self.skill, self.place) / self.digest

    async def _locked(self, folder: Path, seconds: float) -> int:
        deadline = time.monotonic() + seconds
        while True:
            try:
                lock = _lock_in(folder)
            except OSError as error:
                raise self._unusable(error) from error
            if lock >= 0:
                return lock
            if time.monotonic() > deadline:
                reason = f"another call of it used its own folder for {seconds:g} s"
                raise OwnFolderError(self.skill, reason, hint="such calls run one by one")
            await asyncio.sleep(_PAUSE_SECONDS)

    def _unusable(self, error: OSError) -> OwnFolderError:
        reason = f"its own folder cannot be used: {(error.strerror or str(error)).lower()}"
        return OwnFolderError(self.skill, reason, hint=another_place("XDG_STATE_HOME"))

    def _prepare(self, folder: Path) -> OwnFolder:
        size = _read_size(folder)
        if size > MOST_BYTES:
            kept = f"it keeps {size_text(size)} in its own folder, and may keep"
            hint = f"`skillpouch trust {self.skill} --revoke` removes it with the grant"
            raise OwnFolderError(self.skill, f"{kept} {size_text(MOST_BYTES)}", hint=hint)
        about = {"skill": self.skill, "home": self.place, "names": self.names}
        (folder / "about.json").write_text(json.dumps(about))
        layout = self._layout()
        tops = sorted(folder.glob("top-*"))
        # A call that was not tidied up after may still be ending: it keeps the old top.
        is_fit = len(tops) == 1 and not (folder / "busy").exists() and _fit(tops[0], layout)
        top = tops[0] if is_fit else self._new_top(folder, tops, layout)
        (folder / "busy").touch()
        self.dropped.clear()
        return OwnFolder(top=top, holders=layout.holders, covered=tuple(sorted(layout.covered)))

    def _layout(self) -> _Layout:
        own = {name for name in self.granted if name != "." and self._is_folder(name)}
        above = {folder for name in self.granted for folder in _folders_above(name)}
        layout = _Layout(tuple(sorted(own | above)))
        for holder in ("", *layout.holders):
            for entry in os.scandir(f"{self.home}/{holder}"):
                path = f"{holder}/{entry.name}" if holder else entry.name
                if path in self.granted and path not in layout.holders:
                    raise OwnFolderError(self.skill, f"{path} is part of the skill")
                if path not in layout.holders:
                    self._note(layout, path, entry)
        if len(layout.covered) > _MOST_MOUNTS:
            reason = f"it has more than {_MOST_MOUNTS} files beside what it may make"
            raise OwnFolderError(self.skill, reason)
        return layout

    def _note(self, layout: _Layout, path: str, entry: "os.DirEntry[str]") -> None:
        if entry.is_symlink():
            layout.links[path] = str(Path(entry.path).readlink())
        elif entry.is_dir() or entry.is_file():
            layout.covered[path] = entry.is_dir()
        else:
            raise OwnFolderError(self.skill, f"{path} is neither a file nor a folder")

    def _new_top(self, folder: Path, tops: list[Path], layout: _Layout) -> Path:
        """Make another top with what is kept of the old ones, which are removed."""
        new = folder / f"top-{os.urandom(8).hex()}"
        new.mkdir(mode=0o700)
        if not _fit(new, layout):
            raise OwnFolderError(self.skill, "its own folder cannot be made")
        for top in tops:
            for name in self.names:
                if os.path.lexists(top / name) and not os.path.lexists(new / name):
                    _move(top / name, new / name)
            remove_tree(top)
        return new

    def _tidy(self, folder: Path, own: OwnFolder) -> None:
        """Remove what a call made and may not leave; measure what it left."""
        layout = self._layout()
        for holder in ("", *layout.holders):
            _give_rights(own.top / holder)
            for entry in list(os.scandir(own.top / holder)):
                path = f"{holder}/{entry.name}" if holder else entry.name
                if path not in self.names and not layout.has(path):
                    _remove(own.top / path)
                    self.dropped.append(path)
        size = sum(size_on_disk(own.top / name) for name in self.names)
        (folder / "size").write_text(str(size))
        (folder / "busy").unlink(missing_ok=True)


def _lock_in(folder: Path) -> int:
    """Lock a folder, made if it is missing; -1 if somebody else has the lock."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(folder / "lock", _FLAGS, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(lock), (folder / "lock").lstat()):
            return lock
    except (BlockingIOError, FileNotFoundError):  # the second: the folder was just removed
        pass
    os.close(lock)
    return -1


async def _to_its_end(function: Callable[[], T]) -> T:
    """Run a function in a thread, and wait for its end even if the caller is cancelled."""
    running = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


def _fit(top: Path, layout: _Layout) -> bool:
    """Make the places that files of the skill are mounted on; False if one is not as we made it."""
    _give_rights(top)
    for holder in layout.holders:
        (top / holder).mkdir(mode=0o700, exist_ok=True)
        if (top / holder).is_symlink():
            return False
    for path, is_folder in layout.covered.items():
        if not _is_place(top / path, is_folder=is_folder):
            return False
    for path, target in layout.links.items():
        if not os.path.lexists(top / path):
            (top / path).symlink_to(target)
        elif not (top / path).is_symlink() or str((top / path).readlink()) != target:
            # A link is no mount point: the last call may have replaced it.
            _remove(top / path)
            (top / path).symlink_to(target)
    return True


def _is_place(path: Path, *, is_folder: bool) -> bool:
    """Tell whether an empty file or folder is there, made if nothing is."""
    if is_folder:
        with suppress(FileExistsError):
            path.mkdir()
        return path.is_dir() and not path.is_symlink() and not any(path.iterdir())
    with suppress(FileExistsError):
        os.close(os.open(path, _FLAGS | os.O_EXCL, 0o444))
    found = path.lstat()
    return stat.S_ISREG(found.st_mode) and found.st_size == 0


def _give_rights(folder: Path) -> None:
    """Undo a change of the mode: the next call must find its folder as every call does."""
    held = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        Path(f"/proc/self/fd/{held}").chmod(_MODE)
    finally:
        os.close(held)


def _move(old: Path, new: Path) -> None:
    if old.is_dir() and not old.is_symlink():
        old.chmod(0o700)  # moving a folder needs the right to write to it, rename(2)
    old.rename(new)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
    else:
        path.unlink(missing_ok=True)


def size_on_disk(path: Path) -> int:
    """Return the bytes of a file or folder; too many entries count as too many bytes."""
    size = 0
    for count, status in enumerate(_statuses(path)):
        size += status.st_blocks * _SECTOR_BYTES
        if count > _MOST_ENTRIES:
            return max(size, MOST_BYTES + 1)
    return size


def _statuses(path: Path) -> Iterator[os.stat_result]:
    with suppress(OSError):
        yield path.lstat()
    for folder, folders, names in os.walk(path):
        for name in (*folders, *names):
            with suppress(OSError):
                yield os.lstat(f"{folder}/{name}")


def _read_size(folder: Path) -> int:
    try:
        return int((folder / "size").read_text())
    except (OSError, ValueError):
        return 0


def _place_of(state: Path, skill: str, place: str) -> Path:
    identity = f"{os.path.realpath(place)}\0{skill}".encode("utf-8", "surrogatepass")
    return state / "own-folders" / sha256(identity).hexdigest()[:32]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredOwnFolder:
    """What is kept on disk for one version of a skill."""

    skill: str
    home: str
    digest: str
    names: tuple[str, ...]
    size_bytes: int
    path: Path


def list_own_folders() -> list[StoredOwnFolder]:
    """Return what is kept for skills in their own folders, sorted by skill."""
    state = state_directory()
    found = [] if state is None else list((state / "own-folders").glob("*/*/about.json"))
    kept = [_stored(path.parent) for path in found]
    return sorted((each for each in kept if each), key=lambda each: (each.skill, each.home))


def _stored(folder: Path) -> StoredOwnFolder | None:
    try:
        about = json.loads((folder / "about.json").read_text())
        skill, home, names = str(about["skill"]), str(about["home"]), tuple(about["names"])
    except (OSError, ValueError, TypeError, KeyError):
        return None
    size = sum(size_on_disk(top) for top in folder.glob("top-*"))
    return StoredOwnFolder(
        skill=skill, home=home, digest=folder.name, names=names, size_bytes=size, path=folder
    )


def prune_own_folders(
    is_granted: Callable[[StoredOwnFolder], bool], *, dry_run: bool = False
) -> list[StoredOwnFolder]:
    """Remove what is kept for skills without a grant, and not in use; return it."""
    removed = []
    for each in list_own_folders():
        if is_granted(each):
            continue
        lock = _lock_in(each.path)
        if lock < 0:
            continue
        try:
            removed.append(each)
            if not dry_run:
                remove_tree(each.path)
        finally:
            os.close(lock)
    return removed


def forget_own_folders(skill: str, home: str) -> None:
    """Remove all that is kept for a skill: its grant was revoked."""
    state = state_directory()
    if state is not None:
        with suppress(OSError):
            remove_tree(_place_of(state, skill, home))
