"""What no tool may write in a workspace: skills, Python, files that other programs run later."""

import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from skillpouch.calls import Terms, ToolCall
from skillpouch.environment import (
    cache_directory,
    downloads_directory,
    environments_directory,
    programs_directory,
    system_directory,
)
from skillpouch.results import ToolResult
from skillpouch.runtime.memoize import BoundedCache

# How programs report EROFS.
READ_ONLY_ERROR = re.compile(r"EROFS|[Rr]ead-only file system")
_BUSY_ERROR = re.compile(r"EBUSY|[Dd]evice or resource busy")

# Files that other programs run or obey without being asked, and unconfined: a shell that enters
# the folder, an editor or an agent that opens it, git. Not files that a person starts, such as a
# Makefile, or that run on another machine, such as .github/workflows: these are ordinary source.
_SHELLS = ".envrc .bashrc .bash_profile .profile .zshrc .zshenv .zprofile mise.toml .mise.toml"
_EDITORS = ".vscode .idea .zed .devcontainer .exrc .vimrc .nvimrc .nvim.lua .dir-locals.el"
_AGENTS = ".mcp.json .claude .cursor .gemini .codex skillpouch.toml"
_HOOKS = ".husky .pre-commit-config.yaml lefthook.yml .lefthook.yml .gitconfig"
_NAMES = tuple(f"{_SHELLS} {_EDITORS} {_AGENTS} {_HOOKS}".split())
# In a repository only the files that make git run programs: a tool must still be able to commit.
# `commondir` names another folder for hooks and config, see gitrepository-layout(5).
_OF_GIT = ("hooks", "config", "config.worktree", "commondir")
_HEAD = "HEAD"  # to git, any folder that has this, objects and refs is a repository
_ANY_NAME, _ANY_OF_GIT = ("|".join(map(re.escape, names)) for names in (_NAMES, _OF_GIT))
_INNER = r"(?:(?:modules|worktrees)/.+/)?"
_RUNS_LATER = re.compile(
    rf"(?:.*/)?(?:{_ANY_NAME}|\.git(?=\Z)|\.git/{_INNER}(?:{_ANY_OF_GIT}))(?=/|\Z)"
)
_OF_A_REPOSITORY = re.compile(rf"(?P<home>(?:.*/)?)(?:{_HEAD}\Z|(?:{_ANY_OF_GIT})(?=/|\Z))")
_SETTLED_NS = 50_000_000  # file times are coarse: two changes within this may have the same time
_MOST_FOLDERS = 500  # to search for repositories inside the workspace
_MOST_LEVELS = 4
_MOST_REPOSITORIES = 64
_MOST_POINTS = 160  # mounts for these paths; a sandbox has some more
_SEARCH_SECONDS = 5.0  # between two searches
_MOST_KNOWN = 4_096


Seen = dict[str, int]  # path below the workspace → when a file or link changed, 0 for a folder


def kept_folders(terms: Terms, *more: Path) -> tuple[Path, ...]:
    """Return the folders and files below the workspace that no call may write."""
    stores = _stores(terms.workspace)
    own = [path.resolve() for path in (*more, Path(sys.prefix))]
    kept = [*own, *stores, *terms.read_only]
    below = [path for path in dict.fromkeys(kept) if terms.workspace in path.parents]
    for store in stores:
        # Only an existing folder can be mounted read-only, and a tool could create it first.
        with suppress(OSError):
            store.mkdir(mode=0o700, parents=True, exist_ok=True)
    return tuple(path for path in below if path.exists())


def _stores(workspace: Path) -> tuple[Path, ...]:
    """Return the folders below a workspace in which Skillpouch keeps what it runs and trusts.

    By their real paths: a workspace has one, too, and the cache may be named by a link. All of the
    cache, because its index says what the tools of all skills are.
    """
    cache = cache_directory()
    if cache is not None and workspace in (real := cache.resolve()).parents:
        return (real,)
    found = (downloads_directory(), environments_directory(), programs_directory())
    reals = [path.resolve() for path in (*found, system_directory()) if path is not None]
    return tuple(path for path in reals if workspace in path.parents)


def run_later(terms: Terms, writable: Iterable[Path]) -> tuple[Path, ...]:
    """Return the files that other programs run later, minus those that the call was granted.

    A grant of a file or of a folder around it counts; a grant of the whole workspace does not.
    """
    granted = {path for path in writable if terms.workspace in path.parents}
    return tuple(path for path in terms.run_later if not _is_below(path, granted))


def _is_below(path: Path, folders: set[Path]) -> bool:
    return not folders.isdisjoint((path, *path.parents))


def followed_inside(path: Path, workspace: Path) -> Path:
    """Return the target of a path of the workspace, in which a tool may have put a link."""
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
    except OSError:  # a link was replaced between lstat and readlink: take the path as it is
        return path


def is_read_only(terms: Terms) -> bool:
    """Tell whether the workspace itself, or a folder around it, is read-only."""
    return any(terms.workspace.is_relative_to(path) for path in terms.read_only)


def own_mounts(granted: Iterable[Path], terms: Terms, kept: tuple[Path, ...]) -> tuple[Path, ...]:
    """Return the paths that a call may write and that are not writable with the workspace.

    Only they are mounted: what is a mount point can be written, but not removed.
    """
    if is_read_only(terms):
        return tuple(granted)
    return tuple(
        path
        for path in granted
        if terms.workspace not in path.parents or not set(kept).isdisjoint(path.parents)
    )


def around(kept: Iterable[Path], workspace: Path) -> tuple[Path, ...]:
    """Return the folders between a workspace and the read-only paths in it.

    They become mount points, because a mount point cannot be renamed (EBUSY, rename(2)): otherwise
    a tool could rename a folder that holds a read-only path, and put another in its place.
    """
    inside = set(kept)
    found = {folder for path in inside for folder in path.parents if workspace in folder.parents}
    # A folder inside a read-only one needs no mount of its own.
    return tuple(sorted(f for f in found - inside if inside.isdisjoint(f.parents)))


def find_run_later(workspace: Path) -> tuple[tuple[Path, ...], Seen]:
    """Return the files and folders in a workspace that other programs run later, without links.

    Also returns what `look_at_run_later` would: every call needs both.
    """
    top = str(workspace)
    found = [(names.links, tuple(_real(names, top))) for names in _all_names(top)]
    return _within_reason(top, tuple(real for _, real in found)), _look(top, found)


@lru_cache(maxsize=_MOST_KNOWN)
def _within_reason(top: str, found: tuple[tuple[str, ...], ...]) -> tuple[Path, ...]:
    """Return all paths of each repository; its top folder once there would be too many mounts."""
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
    """Return the files that other programs run later, as they are now, with links and targets."""
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
    """Return the files run later that a call made, or changed without a grant.

    A file that is read-only under one name may have been written under another: a hard link that
    existed before. `changed` are all files that the call made, relative to the workspace.
    """
    now = look_at_run_later(workspace)
    made = {path for path, time_ns in now.items() if before.get(path) != time_ns}
    for path in changed:
        made |= _told_by(workspace, path, before)
    own = {path for path in granted if workspace in path.parents}
    theirs = {path for path in made & before.keys() if not _is_below(workspace / path, own)}
    return tuple(sorted(theirs | made - before.keys()))


def run_later_named(call: ToolCall, output: str) -> list[str]:
    """Return the paths of the workspace that a program wanted to write and others run later.

    They are mounted read-only, so that no folder in which one lies can be removed or renamed.
    """
    lines = output.splitlines()
    refused = [line for line in lines if READ_ONLY_ERROR.search(line)]
    busy = [line for line in lines if _BUSY_ERROR.search(line)]
    found = []
    for path in call.terms.run_later if refused or busy else ():
        inside = path.relative_to(call.terms.workspace)
        around = (re.escape(str(each)) for each in (inside, *inside.parents) if each.parts)
        named = re.compile(rf"(?:{'|'.join(around)})(?![\w./-])")
        is_written = any(str(inside) in line for line in refused)
        if is_written or any(named.search(line) for line in busy):
            found.append(str(path))
    return found


def told_what_runs(
    result: ToolResult, call: ToolCall, before: Mapping[str, int] | None
) -> ToolResult:
    """Add the files that the call made and that other programs will run unconfined."""
    if before is None:
        return result  # the tool cannot write the workspace
    changed = (file.path for file in result.files if file.change != "deleted")
    made = made_to_run_later(call.terms.workspace, before, changed, call.access.writable)
    return result.with_run_later(made)


def runs_later(
    workspace: Path, changed: Iterable[str], before: Mapping[str, int]
) -> tuple[str, ...]:
    """Return the files run later among changed ones that have not reached the workspace yet.

    Those in `before` were read-only for the call, unless it was granted them.
    """
    new = set(changed)
    made: set[str] = set()
    for path in new:
        fits = _RUNS_LATER.match(path)
        if fits is not None:
            made.add(fits.group())
            continue
        part = _OF_A_REPOSITORY.match(path)
        if part is not None and _comes_or_is(workspace, part["home"] + _HEAD, new):
            paths = (part["home"] + name for name in _OF_GIT)
            made |= {each for each in paths if _comes_or_is(workspace, each, new)}
    return tuple(sorted(made - before.keys()))


def _comes_or_is(workspace: Path, path: str, new: set[str]) -> bool:
    is_new = path in new or any(each.startswith(f"{path}/") for each in new)
    return is_new or os.path.lexists(workspace / path)


def _told_by(workspace: Path, path: str, before: Mapping[str, int]) -> set[str]:
    """Return the files that are run later because this one was made or changed."""
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
    """The paths in a folder that other programs run later: files and folders, and links."""

    plain: tuple[str, ...] = ()
    links: tuple[str, ...] = ()

    def __add__(self, other: "_Names") -> "_Names":
        if other is _NONE:
            return self
        return _Names((*self.plain, *other.plain), (*self.links, *other.links))


_NONE = _Names()


def _all_names(top: str) -> Iterator[_Names]:
    """Yield the names in the workspace itself, then those in each repository inside it."""
    for folder in (top, *_now_and_then(top, (".git", _HEAD))):
        yield _present(folder, _NAMES) + _of_git(f"{folder}/.git") + _of_bare(folder)


def _of_git(folder: str) -> _Names:
    """Return the files of a repository, its submodules and worktrees that make git run programs."""
    try:
        mode = os.lstat(folder).st_mode
    except OSError:
        return _NONE
    if stat.S_ISLNK(mode):
        return _Names(links=(folder,))
    if not stat.S_ISDIR(mode):
        return _Names((folder,))  # the `.git` file of a worktree or submodule: names its repository
    found = _present(folder, _OF_GIT)
    for inner in ("modules", "worktrees"):
        for each in _now_and_then(f"{folder}/{inner}", (_HEAD,)):
            found += _present(each, _OF_GIT)
    return found


def _of_bare(folder: str) -> _Names:
    return _present(folder, _OF_GIT) if os.path.lexists(f"{folder}/{_HEAD}") else _NONE


# Folder and names → the folder's ctime at the last look, and what was there. Not its mtime: a tool
# can set that with utimensat(2).
_looked: BoundedCache[tuple[str, tuple[str, ...]], tuple[int, _Names]] = BoundedCache(_MOST_KNOWN)


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
    if time.time_ns() - changed_ns > _SETTLED_NS:
        _looked[folder, names] = (changed_ns, found)
    return found


def _real(names: _Names, top: str) -> list[str]:
    """Return the paths without links: links are replaced with their targets inside the workspace.

    A target outside is left out.
    """
    if not names.links:
        return [*names.plain]
    # Not cached: the target of a link changes without a change of the link's own folder.
    real = [_real_path(path) for path in names.links]
    inside = [path for path in real if path.startswith(f"{top}/") and os.path.exists(path)]
    return [*names.plain, *inside]


_searched: BoundedCache[str, tuple[float, tuple[str, ...]]] = BoundedCache(_MOST_KNOWN)


def _now_and_then(top: str, names: tuple[str, ...]) -> tuple[str, ...]:
    """Search for folders every few seconds; what a call made meanwhile is in its changed files.

    Folders that were found before come first, so that new ones cannot push them out of the limit.
    """
    known = _searched.get(top)
    if known is not None and time.monotonic() - known[0] < _SEARCH_SECONDS:
        return tuple(folder for folder in known[1] if _is_reached(folder, top))
    still = [folder for folder in known[1] if _has_any(folder, names)] if known else []
    still = [folder for folder in still if _is_reached(folder, top)]
    found = tuple(dict.fromkeys((*still, *_folders_with(names, top))))[:_MOST_REPOSITORIES]
    _searched[top] = (time.monotonic(), found)
    return found


def _is_reached(folder: str, top: str) -> bool:
    """Tell whether a folder exists and no component of its path is a link."""
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
    """Return the folders strictly below another that hold such an entry, within the limits."""
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
