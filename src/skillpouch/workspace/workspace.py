"""The folder in which tools work: what no tool may write in it, and what a call changed."""

import errno
import os
import re
import stat
import sys
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from mimetypes import guess_type
from pathlib import Path
from typing import NamedTuple

from skillpouch.calls import Terms
from skillpouch.environment import (
    config_directory,
    environments_directory,
    home_directory,
    programs_directory,
    state_directory,
)
from skillpouch.errors import WorkspaceError
from skillpouch.results import Change, ChangedFile
from skillpouch.text import escape_hidden
from skillpouch.untrusted_files import open_plain

_MOST_ENTRIES = 2_000
_MOST_SECONDS = 0.005  # a walk must not cost more than the call it follows …
_FEW_ENTRIES = 200  # … but this many are always looked at, however busy the machine is
_MOST_DEPTH = 100  # a descriptor is held for each level
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OURS = ".skillpouch"
_CLOCK_REALTIME_COARSE = 5  # Python does not name it
_MOST_CHECKED = 10_000
_MOST_SEEN = 256  # workspaces, each with at most 2,000 names
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
            raise WorkspaceError(str(path), "it is where Skillpouch keeps grants and the journal")
    return real


def _overlap(one: Path, other: Path) -> bool:
    return one.is_relative_to(other) or other.is_relative_to(one)


def file_clock_ns() -> int:
    """Return the time as file systems stamp it: by the tick, a moment behind."""
    try:
        return time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)
    except OSError:  # a clock that only Linux has
        return time.time_ns() - 10_000_000


class _Folder(NamedTuple):
    """What a look saw in a folder: its regular files, and the folders in it."""

    stamp: tuple[int, int, int]  # device, inode, time of change
    files: frozenset[str]
    inner: tuple[str, ...]
    is_settled: bool  # any later change gives it another stamp


_Folders = dict[str, _Folder]  # by path; the workspace itself is ""
_Stamp = tuple[int, int, int]  # of a file: inode, time of change, size


@dataclass(frozen=True, slots=True)
class Before:
    """A workspace as it was before a call; nothing is known of folders that are not in it."""

    workspace: Path
    since_ns: int
    folders: _Folders
    complete: bool


# What the last look at a workspace saw: a folder that has not changed since is not read again.
_seen: OrderedDict[Path, _Folders] = OrderedDict()
# What the last call in a workspace left, by path. A file system's clock ticks slowly, so what was
# made just before a call would look as if the call had made it.
_left: dict[Path, dict[str, _Stamp]] = {}
# Device and inode of a workspace that was opened with nothing on the way being a link: what is
# the same folder is the same folder, by whatever way it was reached.
_roots: dict[Path, tuple[int, int]] = {}


def look_at(workspace: Path) -> Before:
    """Look at a workspace before a call: only so is it known afterwards what was deleted."""
    since_ns = file_clock_ns()
    known = _seen.get(workspace, {})
    if _is_flat_and_unchanged(workspace, known):
        return Before(workspace, since_ns, known, complete=True)
    search = _Search(known=known)
    search.run(workspace)
    _remember(workspace, search.folders)
    return Before(workspace, since_ns, search.folders, search.complete)


def changed_files(before: Before) -> tuple[tuple[ChangedFile, ...], bool]:
    """Return files made, changed or deleted since then, and whether both looks saw everything."""
    root = before.folders.get("")
    if (
        root is not None
        and not root.files
        and _is_flat_and_unchanged(before.workspace, before.folders)
    ):
        return (), True  # it was empty, and still is
    search = _Search(before=before)
    search.run(before.workspace)
    _remember(before.workspace, search.folders)
    left = _left.get(before.workspace, {})
    if len(_left) > _MOST_CHECKED:
        _left.clear()
    _left[before.workspace] = found = search.found
    changes: dict[str, Change] = dict.fromkeys(_deleted(before.folders, search.folders), "deleted")
    for path, stamp in found.items():
        # What is older than the call came with a folder that was renamed.
        if left.get(path) != stamp or stamp[1] < before.since_ns:
            changes[path] = "created" if path in search.created else "modified"
    files = [
        changed_file(path, found[path][2] if path in found else 0, changes[path])
        for path in sorted(changes)
    ]
    return tuple(files), before.complete and search.complete


def _is_flat_and_unchanged(workspace: Path, folders: _Folders) -> bool:
    """Tell whether a workspace without folders in it has the same files as it had."""
    root = folders.get("")
    if root is None or not root.is_settled or root.inner:
        return False
    try:
        status = os.stat(workspace)
    except OSError:
        return False
    return root.stamp == (status.st_dev, status.st_ino, status.st_ctime_ns)


def _remember(workspace: Path, folders: _Folders) -> None:
    _seen[workspace] = folders
    _seen.move_to_end(workspace)
    if len(_seen) > _MOST_SEEN:
        _seen.popitem(last=False)


def _deleted(before: _Folders, after: _Folders) -> Iterator[str]:
    """Give the files that were there and are gone; what was not looked at may still be there."""
    for path, folder in before.items():
        now = after.get(path)
        if now is not None:
            gone = folder.files - now.files
        else:
            gone = folder.files if _is_absent(after, path) else frozenset()
        yield from (_joined(path, name) for name in gone)


def _is_absent(folders: _Folders, path: str) -> bool:
    """Tell whether a look saw that there is no such folder."""
    while path:
        path, _, name = path.rpartition("/")
        if path in folders:
            return name not in folders[path].inner
    return False


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def _open_root(workspace: Path) -> int:
    """Open a workspace for reading; only the first time by every folder on the way to it."""
    descriptor = os.open(workspace, _FOLDER)
    try:
        if _identity(descriptor) == _roots.get(workspace):
            return descriptor
    except BaseException:
        os.close(descriptor)
        raise
    os.close(descriptor)
    root = open_plain(str(workspace))
    try:
        descriptor = os.open(".", _FOLDER, dir_fd=root)
    finally:
        os.close(root)
    if len(_roots) > _MOST_CHECKED:
        _roots.clear()
    _roots[workspace] = _identity(descriptor)
    return descriptor


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


class _Search:
    """A look through folders that other calls may be renaming: by descriptors, never by name.

    After a call every folder is read: a file that changes leaves its folder's time as it was.
    """

    def __init__(self, *, known: _Folders | None = None, before: Before | None = None) -> None:
        self._known = known or {}
        self._before = before
        self._entries = 0
        self._deadline = time.monotonic() + _MOST_SECONDS
        self.folders: _Folders = {}
        self.found: dict[str, _Stamp] = {}  # what is new or has changed
        self.created: set[str] = set()  # of that, what is known not to have been there
        self.complete = True

    def run(self, workspace: Path) -> None:
        try:
            root = _open_root(workspace)
        except OSError:
            self.complete = False
            return
        self._enter(root, "")

    def _open(self, above: int, name: str) -> int | None:
        try:
            # Without following: what was a folder a moment ago may be a link by now.
            return os.open(name, _FOLDER, dir_fd=above)
        except OSError as error:
            self.complete &= error.errno != errno.EACCES
            return None

    def _enter(self, descriptor: int, path: str) -> None:
        try:
            folder = self._look(descriptor, path)
            if folder is None:
                self.complete = False
            else:
                self.folders[path] = folder
                self._go_down(descriptor, path, folder.inner)
        finally:
            os.close(descriptor)

    def _go_down(self, descriptor: int, path: str, inner: tuple[str, ...]) -> None:
        if inner and path.count("/") >= _MOST_DEPTH:
            self.complete = False
            return
        for name in inner:
            inner_folder = self._open(descriptor, name) if path or name != _OURS else None
            if inner_folder is not None:
                self._enter(inner_folder, _joined(path, name))

    def _look(self, descriptor: int, path: str) -> _Folder | None:
        """Return what is in a folder; None where that is more than may be looked at."""
        now_ns = file_clock_ns()
        status = os.fstat(descriptor)
        stamp = (status.st_dev, status.st_ino, status.st_ctime_ns)
        known = self._known.get(path)
        if known is not None and known.is_settled and known.stamp == stamp:
            return None if self._is_too_much(len(known.files) + len(known.inner)) else known
        files: dict[str, os.DirEntry[str]] = {}
        inner: list[str] = []
        with suppress(OSError), os.scandir(descriptor) as listing:
            for entry in listing:
                if self._is_too_much(1):
                    return None
                if entry.is_dir(follow_symlinks=False):
                    inner.append(entry.name)
                elif entry.is_file(follow_symlinks=False):
                    files[entry.name] = entry
            if self._before is not None:
                self._compare(path, files, self._before)
        return _Folder(stamp, frozenset(files), tuple(inner), status.st_ctime_ns < now_ns)

    def _is_too_much(self, more: int) -> bool:
        self._entries += more
        if self._entries <= _FEW_ENTRIES:
            return False
        return self._entries > _MOST_ENTRIES or time.monotonic() > self._deadline

    def _compare(self, path: str, files: dict[str, "os.DirEntry[str]"], before: Before) -> None:
        known = before.folders.get(path)
        is_new_folder = known is None and _is_absent(before.folders, path)
        for name, entry in files.items():
            is_new = is_new_folder or (known is not None and name not in known.files)
            self._note(_joined(path, name), entry, before.since_ns, is_new=is_new)

    def _note(self, path: str, entry: "os.DirEntry[str]", since_ns: int, *, is_new: bool) -> None:
        with suppress(FileNotFoundError):  # another call may be deleting it
            status = entry.stat(follow_symlinks=False)
            if is_new or status.st_ctime_ns >= since_ns:
                self.found[path] = (status.st_ino, status.st_ctime_ns, status.st_size)
            if is_new:
                self.created.add(path)


def changed_file(path: str, size: int, change: Change) -> ChangedFile:
    """Return a file as a result names it, with its type guessed from its name."""
    kind = guess_type(path)[0] or "application/octet-stream"
    return ChangedFile(path=escape_hidden(path), type=kind, size=size, change=change)


# What programs run or obey by themselves, outside of any confinement: a shell that enters the
# folder, an editor or an agent that opens it, git. What a person starts, such as a Makefile, and
# what runs elsewhere, such as .github/workflows, is source like any other.
_SHELLS = ".envrc .bashrc .bash_profile .profile .zshrc .zshenv .zprofile mise.toml .mise.toml"
_EDITORS = ".vscode .idea .zed .devcontainer .exrc .vimrc .nvimrc .nvim.lua .dir-locals.el"
_AGENTS = ".mcp.json .claude .cursor .gemini .codex skillpouch.toml"
_HOOKS = ".husky .pre-commit-config.yaml lefthook.yml .lefthook.yml .gitconfig"
_NAMES = tuple(f"{_SHELLS} {_EDITORS} {_AGENTS} {_HOOKS}".split())
# Of a repository only what makes git run something: a commit must still be possible.
# `commondir` says where hooks and config are looked for instead, gitrepository-layout(5).
_OF_GIT = ("hooks", "config", "config.worktree", "commondir")
_HEAD = "HEAD"  # git takes any folder for a repository that has this, objects and refs
_ANY_NAME, _ANY_OF_GIT = ("|".join(map(re.escape, names)) for names in (_NAMES, _OF_GIT))
_INNER = r"(?:(?:modules|worktrees)/.+/)?"
_RUNS_LATER = re.compile(
    rf"(?:.*/)?(?:{_ANY_NAME}|\.git(?=\Z)|\.git/{_INNER}(?:{_ANY_OF_GIT}))(?=/|\Z)"
)
_OF_A_REPOSITORY = re.compile(rf"(?P<home>(?:.*/)?)(?:{_HEAD}\Z|(?:{_ANY_OF_GIT})(?=/|\Z))")
_SETTLED_NS = 50_000_000  # a file system's clock ticks slowly: what is younger is looked at again
_MOST_FOLDERS = 500  # that are searched for repositories inside the workspace
_MOST_LEVELS = 4
_MOST_REPOSITORIES = 64
_MOST_POINTS = 160  # mounts for all of that; a sandbox has some more
_SEARCH_SECONDS = 5.0  # from one search to the next
_MOST_KNOWN = 4_096


Seen = dict[str, int]  # path below the workspace → when a file or link changed, 0 for a folder


def kept_folders(terms: Terms, *more: Path) -> tuple[Path, ...]:
    """Return the folders and files below the workspace that stay as they are."""
    stores = [*filter(None, (environments_directory(), programs_directory()))]
    own = [path.resolve() for path in (*more, Path(sys.prefix))]
    kept = [*own, *stores, *terms.read_only]
    below = [path for path in dict.fromkeys(kept) if terms.workspace in path.parents]
    for store in stores:
        # What is not there yet cannot be protected, and a tool could make it first.
        if store in below:
            with suppress(OSError):
                store.mkdir(mode=0o700, parents=True, exist_ok=True)
    return tuple(path for path in below if path.exists())


def run_later(terms: Terms, writable: Iterable[Path]) -> tuple[Path, ...]:
    """Return what others run later and the call was not granted: by itself, or a folder around it.

    A grant of the whole workspace, or of more, is not a grant of these.
    """
    granted = {path for path in writable if terms.workspace in path.parents}
    return tuple(path for path in terms.run_later if not _is_below(path, granted))


def _is_below(path: Path, folders: set[Path]) -> bool:
    return not folders.isdisjoint((path, *path.parents))


def followed_inside(path: Path, workspace: Path) -> Path:
    """Return where a path of the workspace leads: a tool may have put a link there."""
    step, inner = str(workspace), str(path)
    if inner.startswith(f"{step}/"):
        for name in inner[len(step) + 1 :].split("/"):
            step = f"{step}/{name}"
            if os.path.islink(step):
                return Path(_real_path(str(path)))
    return path


def _real_path(path: str) -> str:
    try:
        return os.path.realpath(path)
    except OSError:  # a link was replaced between lstat and readlink: it is what it is now
        return path


def is_read_only(terms: Terms) -> bool:
    """Tell whether the workspace itself, or a folder around it, was said to be read-only."""
    return any(terms.workspace.is_relative_to(path) for path in terms.read_only)


def around(kept: Iterable[Path], workspace: Path) -> tuple[Path, ...]:
    """Return the folders between a workspace and what is kept in it.

    A folder that something is mounted on cannot be renamed: without that, what is read-only
    could be moved aside, with the folders around it, and replaced.
    """
    inside = set(kept)
    found = {folder for path in inside for folder in path.parents if workspace in folder.parents}
    # Nothing around it needs a mount where it is read-only as a whole.
    return tuple(sorted(f for f in found - inside if inside.isdisjoint(f.parents)))


def find_run_later(workspace: Path) -> tuple[tuple[Path, ...], Seen]:
    """Return the files and folders in a workspace that others run later, without links.

    And what `look_at_run_later` would see at this moment: both are asked for before each call.
    """
    top = str(workspace)
    found = [(names.links, tuple(_real(names, top))) for names in _all_names(top)]
    return _within_reason(top, tuple(real for _, real in found)), _look(top, found)


@lru_cache(maxsize=_MOST_KNOWN)
def _within_reason(top: str, found: tuple[tuple[str, ...], ...]) -> tuple[Path, ...]:
    """Return all that was found in each repository; of too many, the folder around it."""
    kept: dict[Path, None] = {}
    points: set[Path] = set()
    for paths in found:
        own = [Path(path) for path in paths]
        needed = {point for path in own for point in (path, *path.parents)}
        if len(points | needed) > _MOST_POINTS:
            own = [Path(top, *path.relative_to(top).parts[:1]) for path in own]
        else:
            points |= needed
        kept.update(dict.fromkeys(own))
    return tuple(kept)


def look_at_run_later(workspace: Path) -> Seen:
    """Return what is there of that kind at this moment, with links and what they lead to."""
    top = str(workspace)
    return _look(top, [(names.links, tuple(_real(names, top))) for names in _all_names(top)])


def _look(top: str, found: "list[tuple[tuple[str, ...], tuple[str, ...]]]") -> Seen:
    start = len(top) + 1
    seen: Seen = {}
    for links, real in found:
        for path in (*links, *real):
            try:
                status = os.lstat(path)
            except OSError:
                continue
            is_folder = stat.S_ISDIR(status.st_mode)
            seen[path[start:]] = 0 if is_folder else status.st_ctime_ns
    return seen


def made_to_run_later(
    workspace: Path,
    before: Mapping[str, int],
    changed: Iterable[str] = (),
    granted: Iterable[Path] = (),
) -> tuple[str, ...]:
    """Return what was made of that kind, or changed without a grant, since it was looked at.

    What is read-only by one name may be written by another: a hard link that was there before.
    `changed` are files that the call made, relative to the workspace, wherever they are.
    """
    now = look_at_run_later(workspace)
    made = {path for path, time_ns in now.items() if before.get(path) != time_ns}
    for path in changed:
        made |= _told_by(workspace, path, before)
    own = {path for path in granted if workspace in path.parents}
    theirs = {path for path in made & before.keys() if not _is_below(workspace / path, own)}
    return tuple(sorted(theirs | made - before.keys()))


def _told_by(workspace: Path, path: str, before: Mapping[str, int]) -> set[str]:
    """Return what runs later, given that a file was made or changed."""
    fits = _RUNS_LATER.match(path)
    if fits is not None:
        is_new = fits.group() not in before or _has_names(workspace / path)
        return {fits.group()} if is_new else set()
    part = _OF_A_REPOSITORY.match(path)
    if part is None or not os.path.lexists(workspace / part["home"] / _HEAD):
        return set()
    paths = (part["home"] + name for name in _OF_GIT)
    return {each for each in paths if each not in before and os.path.lexists(workspace / each)}


def _has_names(path: Path) -> bool:
    try:
        return path.lstat().st_nlink > 1
    except OSError:
        return False


@dataclass(frozen=True, slots=True)
class _Names:
    """Which of the names that count are in a folder."""

    plain: tuple[str, ...] = ()
    links: tuple[str, ...] = ()

    def __add__(self, other: "_Names") -> "_Names":
        if other is _NONE:
            return self
        return _Names((*self.plain, *other.plain), (*self.links, *other.links))


_NONE = _Names()


def _all_names(top: str) -> Iterator[_Names]:
    """Return what is there in a workspace itself, and then in each repository inside it."""
    for folder in (top, *_now_and_then(top, (".git", _HEAD))):
        yield _present(folder, _NAMES) + _of_git(f"{folder}/.git") + _of_bare(folder)


def _of_git(folder: str) -> _Names:
    """Return what makes git run something, of a repository, its submodules and worktrees."""
    try:
        mode = os.lstat(folder).st_mode
    except OSError:
        return _NONE
    if stat.S_ISLNK(mode):
        return _Names(links=(folder,))
    if not stat.S_ISDIR(mode):
        return _Names((folder,))  # of a worktree or a submodule: it says where the repository is
    found = _present(folder, _OF_GIT)
    for inner in ("modules", "worktrees"):
        for each in _now_and_then(f"{folder}/{inner}", (_HEAD,)):
            found += _present(each, _OF_GIT)
    return found


def _of_bare(folder: str) -> _Names:
    return _present(folder, _OF_GIT) if os.path.lexists(f"{folder}/{_HEAD}") else _NONE


# Folder and names → its time of change when it was looked at, and what was there. Not the time
# of modification, which a tool can set.
_looked: dict[tuple[str, tuple[str, ...]], tuple[int, _Names]] = {}


def _present(folder: str, names: tuple[str, ...]) -> _Names:
    try:
        changed_ns = os.stat(folder).st_ctime_ns
    except OSError:
        return _NONE
    known = _looked.get((folder, names))
    if known is not None and known[0] == changed_ns:
        return known[1]
    paths = [f"{folder}/{name}" for name in names]
    there = [path for path in paths if os.path.lexists(path)]
    links = tuple(path for path in there if os.path.islink(path))
    found = _Names(tuple(path for path in there if path not in links), links)
    if len(_looked) > _MOST_KNOWN:
        _looked.clear()
    if time.time_ns() - changed_ns > _SETTLED_NS:
        _looked[folder, names] = (changed_ns, found)
    return found


def _real(names: _Names, top: str) -> list[str]:
    """Return where names lead, as far as that is inside; a link out of it shows nothing more."""
    if not names.links:
        return [*names.plain]
    # What a link leads to comes and goes, whatever the time of change of the link's own folder.
    real = [_real_path(path) for path in names.links]
    inside = [path for path in real if path.startswith(f"{top}/") and os.path.exists(path)]
    return [*names.plain, *inside]


_searched: dict[str, tuple[float, tuple[str, ...]]] = {}


def _now_and_then(top: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Search for folders, not for every call: what one makes is among the files it changed.

    Those that were found once come first: no number of others makes them forgotten.
    """
    known = _searched.get(top)
    if known is not None and time.monotonic() - known[0] < _SEARCH_SECONDS:
        return tuple(folder for folder in known[1] if _is_reached(folder, top))
    if len(_searched) > _MOST_KNOWN:
        _searched.clear()
    still = [folder for folder in known[1] if _has_any(folder, names)] if known else []
    still = [folder for folder in still if _is_reached(folder, top)]
    found = tuple(dict.fromkeys((*still, *_folders_with(names, top))))[:_MOST_REPOSITORIES]
    _searched[top] = (time.monotonic(), found)
    return found


def _is_reached(folder: str, top: str) -> bool:
    """Tell whether there is a folder, and no link on the way to it: it could lead anywhere."""
    step = top
    for name in folder[len(top) + 1 :].split("/"):
        step = f"{step}/{name}"
        try:
            if not stat.S_ISDIR(os.lstat(step).st_mode):
                return False
        except OSError:
            return False
    return True


def _folders_with(names: tuple[str, ...], top: str) -> list[str]:
    """Return the folders strictly below another that hold such an entry; not all of a huge tree."""
    found: list[str] = []
    level, seen = [top], 0
    for _ in range(_MOST_LEVELS):
        below: list[str] = []
        for folder in level[: _MOST_FOLDERS - seen]:
            seen += 1
            with suppress(OSError), os.scandir(folder) as listing:
                entries = [each for each in listing if each.name != ".git"]
                below += [e.path for e in entries if e.is_dir(follow_symlinks=False)]
        found += [folder for folder in below if _has_any(folder, names)]
        level = below
    return found


def _has_any(folder: str, names: tuple[str, ...]) -> bool:
    return any(os.path.lexists(f"{folder}/{name}") for name in names)
