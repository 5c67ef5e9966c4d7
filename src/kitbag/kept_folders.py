"""What no tool may write inside a workspace: skills, Python, and files that others run later."""

import os
import re
import stat
import sys
import time
from collections.abc import Iterable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from kitbag.calls import Terms
from kitbag.downloads.store import programs_directory
from kitbag.environments.store import environments_directory

# What programs run or obey by themselves, outside of any confinement: a shell that enters the
# folder, an editor or an agent that opens it, git. What a person starts, such as a Makefile, and
# what runs elsewhere, such as .github/workflows, is source like any other.
_SHELLS = ".envrc .bashrc .bash_profile .profile .zshrc .zshenv .zprofile mise.toml .mise.toml"
_EDITORS = ".vscode .idea .zed .devcontainer .exrc .vimrc .nvimrc .nvim.lua .dir-locals.el"
_AGENTS = ".mcp.json .claude .cursor .gemini .codex kitbag.toml"
_HOOKS = ".husky .pre-commit-config.yaml lefthook.yml .lefthook.yml .gitconfig"
_NAMES = tuple(f"{_SHELLS} {_EDITORS} {_AGENTS} {_HOOKS}".split())
# Of a repository only what makes git run something: a commit must still be possible.
# `commondir` says where hooks and config are looked for instead, gitrepository-layout(5).
_OF_GIT = ("hooks", "config", "config.worktree", "commondir")
_ANY_NAME, _ANY_OF_GIT = ("|".join(map(re.escape, names)) for names in (_NAMES, _OF_GIT))
_RUNS_LATER = re.compile(
    rf"(?:.*/)?(?:{_ANY_NAME}|\.git(?=\Z)|\.git/(?:modules/.+/)?(?:{_ANY_OF_GIT}))(?=/|\Z)"
)
_SETTLED_NS = 50_000_000  # a file system's clock ticks slowly: what is younger is looked at again
_MOST_FOLDERS = 500  # that are searched for repositories inside the workspace
_MOST_LEVELS = 4
_MOST_REPOSITORIES = 64
_SEARCH_SECONDS = 5.0  # from one search to the next
_MOST_KNOWN = 4_096


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
    return tuple(path for path in terms.run_later if granted.isdisjoint((path, *path.parents)))


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


def find_run_later(workspace: Path) -> tuple[Path, ...]:
    """Return the files and folders in a workspace that others run later, without links."""
    top = str(workspace)
    found: list[str] = []
    for folder in (top, *_repositories(top)):
        found += _present(folder, _NAMES, top)
        found += _of_git(f"{folder}/.git", top)
    return _as_paths(tuple(found))


@lru_cache(maxsize=_MOST_KNOWN)
def _as_paths(found: tuple[str, ...]) -> tuple[Path, ...]:
    return tuple(Path(path) for path in dict.fromkeys(found))


def made_to_run_later(terms: Terms, changed: Iterable[str]) -> tuple[str, ...]:
    """Return what a call made of that kind; `changed` are files it made, relative to the workspace.

    What was there before was read-only, so that whatever is there now and was not is new.
    """
    before = set(terms.run_later)
    now = [path for path in find_run_later(terms.workspace) if path not in before]
    made = {str(path.relative_to(terms.workspace)) for path in now}
    for path in changed:
        fits = _RUNS_LATER.match(path)
        if fits is not None and terms.workspace / fits.group() not in before:
            made.add(fits.group())
    return tuple(sorted(made))


def _of_git(folder: str, top: str) -> tuple[str, ...]:
    """Return what makes git run something, of a repository and of its submodules."""
    try:
        status = os.lstat(folder)
    except OSError:
        return ()
    if not stat.S_ISDIR(status.st_mode):
        # Of a worktree or a submodule: a file, or a link, that says where the repository is.
        return tuple(_real([folder], top))
    found = _present(folder, _OF_GIT, top)
    for module in _now_and_then(f"{folder}/modules", "HEAD"):
        found += _present(module, _OF_GIT, top)
    return found


# Folder → its time of change when it was looked at, and what was there. Not the time of
# modification, which a tool can set.
_looked: dict[str, tuple[int, tuple[str, ...]]] = {}


def _present(folder: str, names: tuple[str, ...], top: str) -> tuple[str, ...]:
    try:
        changed_ns = os.stat(folder).st_ctime_ns
    except OSError:
        return ()
    known = _looked.get(folder)
    if known is not None and known[0] == changed_ns:
        return known[1]
    paths = [f"{folder}/{name}" for name in names]
    found = tuple(_real([path for path in paths if os.path.lexists(path)], top))
    if len(_looked) > _MOST_KNOWN:
        _looked.clear()
    if time.time_ns() - changed_ns > _SETTLED_NS:
        _looked[folder] = (changed_ns, found)
    return found


def _real(paths: Iterable[str], top: str) -> list[str]:
    """Return where paths lead, as far as that is inside; a link out of it shows nothing more."""
    real = [os.path.realpath(path) for path in paths]
    return [path for path in real if path.startswith(f"{top}/") and os.path.exists(path)]


_searched: dict[str, tuple[float, tuple[str, ...]]] = {}


def _repositories(top: str) -> tuple[str, ...]:
    """Return the folders below a workspace that are repositories of their own."""
    return _now_and_then(top, ".git")


def _now_and_then(top: str, name: str) -> tuple[str, ...]:
    """Search for folders, not for every call: what one makes is among the files it changed."""
    known = _searched.get(top)
    if known is not None and time.monotonic() - known[0] < _SEARCH_SECONDS:
        return known[1]
    if len(_searched) > _MOST_KNOWN:
        _searched.clear()
    found = tuple(_folders_with(name, top)[:_MOST_REPOSITORIES])
    _searched[top] = (time.monotonic(), found)
    return found


def _folders_with(name: str, top: str) -> list[str]:
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
        found += [folder for folder in below if os.path.lexists(f"{folder}/{name}")]
        level = below
    return found
