"""Walks a root for skill files and plugin names: with limits, no loops, never outside the roots."""

import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from skillpouch.problems import Problem, Severity
from skillpouch.untrusted_files import (
    DECLARATION_BYTES,
    CannotReadError,
    Stamp,
    read_inside,
    stamp_of,
    trust_link,
)

PLUGIN_FOLDER = ".claude-plugin"
_NAME = re.compile(r"[\w-]{1,64}\Z")


class Plugin(NamedTuple):
    """The name of a plugin and the stamp of its file; both are "" if there is none."""

    stamp: Stamp
    name: str


def read_plugin(folder: str) -> tuple[Plugin, list[Problem]]:
    """Return the plugin whose skills lie below a folder."""
    path = _path(folder)
    try:
        content = read_inside(path, folder, DECLARATION_BYTES)
        return Plugin(content.stamp, _name(content.data)), []
    except CannotReadError as error:
        if error.code == "absent":
            return Plugin("", ""), []
        message = f"plugin name unknown, its skills go by their own names: {error.reason}"
        problem = Problem(path=path, code="plugin-invalid", severity="warning", message=message)
        return Plugin("", ""), [problem]


def plugin_stamp(folder: str) -> Stamp:
    """Return the current stamp of a plugin's file, "" if there is none."""
    try:
        return stamp_of(os.stat(_path(folder)))
    except OSError:
        return ""


def _path(folder: str) -> str:
    return f"{folder}/{PLUGIN_FOLDER}/plugin.json"


def _name(raw: bytes) -> str:
    try:
        value = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise CannotReadError("not-json", f"not valid JSON: {error}") from None
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not _NAME.match(name):
        raise CannotReadError("no-name", f"no usable `name` in it (found {name!r:.80})")
    return name


# Deep enough for plugin caches inside home directories; limits against hostile trees.
MAX_DEPTH = 24
MAX_FOLDERS = 200_000
_CACHES = {"__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".tox", ".nox"}
_OTHERS = {".git", ".hg", ".svn", "node_modules", ".venv", "venv"}
# `.skillpouch` holds drafts of skills, and skills that were removed.
_SKIPPED = {".skillpouch", PLUGIN_FOLDER, *_OTHERS, *_CACHES}
_SKILL_FILE = "SKILL.md"


class Folder(NamedTuple):
    """The entries of one folder that matter. `links` are resolved again on every walk.

    A named tuple, which is cheap to make: every start makes one for every folder.
    """

    stamp: Stamp
    skill_file: str
    folders: tuple[str, ...]
    links: tuple[str, ...]
    is_plugin: bool


class FoundSkill(NamedTuple):
    """A skill file: where it is, the name of its folder, the plugin it belongs to."""

    path: str
    folder: str
    plugin: str


@dataclass(slots=True, kw_only=True)
class Walk:
    """One walk below one root. `known` are listings of an earlier walk, `seen` those of this one.

    `boundaries` are the real paths of all roots: a link may lead there, and nowhere else.
    """

    root: str
    boundaries: Sequence[str]
    known: dict[str, Folder] = field(default_factory=dict)
    known_plugins: Mapping[str, Plugin] = field(default_factory=dict)
    seen: dict[str, Folder] = field(default_factory=dict)
    seen_plugins: dict[str, Plugin] = field(default_factory=dict)
    found: list[FoundSkill] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    unreadable: int = 0  # skill files that are links to nowhere or outside
    _visited: set[tuple[int, int]] = field(default_factory=set)
    _links: list[tuple[str, str, int]] = field(default_factory=list)
    _said_full: bool = False

    def run(self) -> None:
        """Visit real folders first, then links, so that an alias never hides the real one."""
        self._visit(self.root, "", 0)
        while self._links:
            path, plugin, depth = self._links.pop(0)
            self._follow(path, plugin, depth)

    def _visit(self, top: str, plugin: str, depth: int) -> None:
        pending = [(top, plugin, depth)]
        while pending:
            path, plugin, depth = pending.pop()
            folder = self._listing(path)
            if folder is None:
                continue
            _, skill_file, folders, links, is_plugin = folder
            if is_plugin:
                plugin = self._plugin_name(path) or plugin
            if skill_file:
                self._take(path, skill_file, plugin)
            if links:
                self._links += [(f"{path}/{name}", plugin, depth + 1) for name in links]
            if folders and depth >= MAX_DEPTH:
                self._report(path, "too-deep", "warning", f"not searched below {MAX_DEPTH} levels")
            elif folders:
                # The last one pushed is visited first: reversed keeps the order of names.
                below = depth + 1
                pending += [(f"{path}/{name}", plugin, below) for name in reversed(folders)]

    def _listing(self, path: str) -> Folder | None:
        if self._is_full():
            return None
        try:
            status = os.stat(path)
            identity = (status.st_dev, status.st_ino)
            if identity in self._visited:
                return None
            self._visited.add(identity)
            stamp = stamp_of(status)
            folder = self.known.get(path)
            if folder is None or folder.stamp != stamp:
                folder = _scan(path, stamp)
        except FileNotFoundError:
            return None  # a root that does not exist, or a folder removed meanwhile
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            self._report(path, "folder-unreadable", "warning", f"cannot list the folder: {reason}")
            return None
        self.seen[path] = folder
        return folder

    def _is_full(self) -> bool:
        if len(self._visited) < MAX_FOLDERS:
            return False
        if not self._said_full:
            self._said_full = True
            message = f"stopped after {MAX_FOLDERS:,} folders: name a smaller root"
            self._report(self.root, "too-many-folders", "warning", message)
        return True

    def _plugin_name(self, path: str) -> str:
        plugin = self.known_plugins.get(path)
        if plugin is None or plugin.stamp != plugin_stamp(path):
            plugin, problems = read_plugin(path)
            self.problems += problems
        # A plugin file that cannot be read is not cached, so that every walk reports it.
        if plugin.stamp:
            self.seen_plugins[path] = plugin
        return plugin.name

    def _take(self, home: str, name: str, plugin: str) -> None:
        path = f"{home}/{name}"
        if name != _SKILL_FILE:
            self._report(path, "file-name", "warning", f"{name!r} should be spelt {_SKILL_FILE!r}")
        self.found.append(FoundSkill(path, home[home.rfind("/") + 1 :], plugin))

    def _follow(self, path: str, plugin: str, depth: int) -> None:
        is_skill_file = os.path.basename(path).lower() == _SKILL_FILE.lower()
        try:
            target = os.path.realpath(path, strict=True)
            is_folder = stat.S_ISDIR(os.stat(target).st_mode)
        except OSError:
            if is_skill_file:
                self.unreadable += 1
                self._report(path, "link-dangling", "error", "skipped: a link to nothing")
            return
        if not is_skill_file and not is_folder:
            return
        if not any(target == root or target.startswith(f"{root}/") for root in self.boundaries):
            self.unreadable += is_skill_file
            message = f"skipped: the link leaves the root, to {target}; name that folder as a root"
            self._report(path, "link-leaves-root", "error" if is_skill_file else "warning", message)
        elif is_folder:
            self._follow_folder(path, target, plugin, depth)
        else:
            trust_link(path, target)
            self._take(os.path.dirname(path), os.path.basename(path), plugin)

    def _follow_folder(self, path: str, target: str, plugin: str, depth: int) -> None:
        status = os.stat(target)
        if (status.st_dev, status.st_ino) in self._visited:
            self._report(path, "folder-alias", "info", f"the same folder as {target}")
        elif depth <= MAX_DEPTH:
            self._visit(path, plugin, depth)

    def _report(self, path: str, code: str, severity: Severity, message: str) -> None:
        self.problems.append(Problem(path=path, code=code, severity=severity, message=message))


def is_skipped_folder(name: str) -> bool:
    """Tell whether a folder of this name is never searched for files of a skill."""
    return name in _SKIPPED


def skill_file_in(home: str) -> str:
    """Return the path of the skill file in a folder, "" when there is none."""
    try:
        names = [name for name in os.listdir(home) if name.lower() == _SKILL_FILE.lower()]
    except OSError:
        return ""
    paths = [f"{home}/{name}" for name in names if os.path.isfile(f"{home}/{name}")]
    # As in `_scan`: the exact spelling comes first, then files that are not links.
    paths.sort(key=lambda path: (not path.endswith(_SKILL_FILE), os.path.islink(path), path))
    return paths[0] if paths else ""


def _scan(path: str, stamp: Stamp) -> Folder:
    skill_files: list[str] = []
    folders: list[str] = []
    links: list[str] = []
    is_plugin = False
    with os.scandir(path) as entries:
        for entry in entries:
            name = entry.name
            if entry.is_symlink():
                links.append(name)
            elif len(name) == len(_SKILL_FILE) and name.lower() == "skill.md":
                skill_files.append(name)
            elif name == PLUGIN_FOLDER:
                is_plugin = True
            elif name not in _SKIPPED and entry.is_dir(follow_symlinks=False):
                folders.append(name)
    # The exact spelling wins, even if it is a link; links are followed later.
    if _SKILL_FILE in skill_files:
        skill_file = _SKILL_FILE
    else:
        skill_file = "" if _SKILL_FILE in links else min(skill_files, default="")
    return Folder(stamp, skill_file, tuple(sorted(folders)), tuple(sorted(links)), is_plugin)
