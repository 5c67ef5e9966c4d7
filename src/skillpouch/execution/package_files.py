"""Copies the configuration that packages brought to this machine, for sandboxes to show.

Programs below /usr read settings in /etc and data in /var, and secrets are there, too. What a
sandbox shows is therefore found by what the packages of the machine say, and nothing else is shown:

- files in /etc with exactly the content that a package brought, by the checksums of dpkg. Whoever
  has the package has them: they hold no secret of this machine.
- files in /etc that a package generated (ucf), unchanged since, where a link of a package leads
  from /usr to them or to a folder around them;
- what a link of a package leads to from /usr in /var, if all of it belongs to the owner of /usr
  and everybody may read it.

All of them must be readable by everybody. A file that was changed on this machine is not shown.
Sandboxes show copies, made once for each state of the packages: what was checked is what is seen,
and a file that changes later, or a socket that appears, is not.
"""

import hashlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from threading import Lock
from typing import Literal

from skillpouch.environment import system_directory
from skillpouch.runtime.removal import remove_tree

_DPKG, _UCF = "/var/lib/dpkg", "/var/lib/ucf/hashfile"
_FORMAT = "2"  # of the copies; another number makes them again
_CONFFILE = re.compile(rb"^ (/etc/\S+) ([0-9a-f]{32})(?: |$)", re.MULTILINE)
_CHECKSUM = re.compile(rb"^([0-9a-f]{32})  /?(etc/.+)$", re.MULTILINE)
_DATA = ("/var/lib/", "/var/cache/", "/var/spool/")
_LARGEST_FILE = 64 * 1024 * 1024
_LARGEST_FOLDER = 128 * 1024 * 1024  # of one folder in /var, such as the formats of TeX
_MOST_ENTRIES = 4_096  # of one folder in /var
_MOST_LINKS = 10  # that lead to each other
_ENTER = stat.S_IROTH | stat.S_IXOTH
_CHANGED = ".changed"  # the ending of the list of files that are not shown
_KEPT = 2  # copies of earlier states, which processes that still run may show


@dataclass(frozen=True, slots=True)
class _Package:
    usr: tuple[str, ...]
    etc: frozenset[str]
    data: frozenset[str]  # in /var


@dataclass(frozen=True, slots=True)
class _Packages:
    """What the lists of dpkg and ucf say: checksums are by path."""

    each: tuple[_Package, ...]
    brought: dict[str, str]
    generated: dict[str, str]


def read_packages(root: str = "") -> _Packages | None:
    """Read the lists of dpkg below `root`; None where there are none."""
    info = f"{root}{_DPKG}/info"
    try:
        names = sorted(name for name in os.listdir(info) if name.endswith(".list"))
        status = _read(f"{root}{_DPKG}/status")
    except OSError:
        return None
    brought = {os.fsdecode(path): sum_.decode() for path, sum_ in _CONFFILE.findall(status)}
    found = []
    for name in names:
        lines = _read(f"{info}/{name}")
        if b"\n/etc/" not in lines and b"\n/var/" not in lines:
            continue
        package = _package(os.fsdecode(lines).split("\n"))
        found.append(package)
        if not package.etc <= brought.keys():
            brought |= _checksums(f"{info}/{name[:-5]}.md5sums")
    return _Packages(tuple(found), brought, _checksums(f"{root}{_UCF}"))


def _package(lines: list[str]) -> _Package:
    return _Package(
        usr=tuple(line for line in lines if line.startswith("/usr/")),
        etc=frozenset(line for line in lines if line.startswith("/etc/")),
        data=frozenset(line for line in lines if line.startswith(_DATA)),
    )


def _checksums(file: str) -> dict[str, str]:
    try:
        lines = _read(file)
    except OSError:
        return {}
    return {f"/{os.fsdecode(path)}": sum_.decode() for sum_, path in _CHECKSUM.findall(lines)}


def _read(file: str) -> bytes:
    with open(file, "rb") as source:
        return source.read()


@dataclass(slots=True)
class _Copy:
    """Copies what the rules allow from below `root` into `folder`."""

    root: str
    folder: str
    changed: list[str] = field(default_factory=list)  # what a package brought, and somebody changed
    _open: dict[str, bool] = field(default_factory=dict)  # folder → whether everybody may enter it

    def make(self, packages: _Packages) -> None:
        for path, checksum in packages.brought.items():
            self._file(path, checksum)
        for package in packages.each:
            for path in package.etc:
                self._link(path)
        linked = {path for package in packages.each for path in self._linked(package, packages)}
        for path, checksum in packages.generated.items():
            if path in linked or any(path.startswith(f"{folder}/") for folder in linked):
                self._file(path, checksum)

    def _linked(self, package: _Package, packages: _Packages) -> Iterator[str]:
        """Return where links of a package lead from /usr; copy what they lead to in /var."""
        generates = any(
            path.startswith(f"{folder}/") for path in packages.generated for folder in package.etc
        )
        if not package.data and not generates:
            return  # what else it links to is copied anyway, or not at all
        for link in package.usr:
            for target in self._targets(link):
                if target.startswith(_DATA):
                    self._data(target, package)
                yield target

    def _targets(self, link: str) -> Iterator[str]:
        for _ in range(_MOST_LINKS):
            try:
                target = os.readlink(self.root + link)
            except OSError:
                return
            link = os.path.normpath(os.path.join(os.path.dirname(link), target))
            if link.startswith(("/etc/", *_DATA)):
                yield link

    def _file(self, path: str, checksum: str) -> None:
        data = self._public(path)
        if data is None:
            return
        # By MD5, because that is what the lists have: it compares a file with what a package
        # brought, and whoever could choose the content of /etc needs no sandbox.
        if hashlib.md5(data[1], usedforsecurity=False).hexdigest() == checksum:
            self._write(path, *data)
        else:
            self.changed.append(path)

    def _public(self, path: str) -> tuple[int, bytes] | None:
        """Return mode and content of a regular file that everybody may read."""
        if not self._is_open(os.path.dirname(path)):
            return None
        try:
            fd = os.open(self.root + path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            return None
        with open(fd, "rb") as source:
            status = os.fstat(fd)
            is_public = stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IROTH
            if not is_public or status.st_size > _LARGEST_FILE:
                return None
            return stat.S_IMODE(status.st_mode), source.read(_LARGEST_FILE)

    def _is_open(self, folder: str) -> bool:
        if folder in ("", "/"):
            return True
        known = self._open.get(folder)
        if known is None:
            try:
                mode = os.lstat(self.root + folder).st_mode
            except OSError:
                mode = 0
            known = stat.S_ISDIR(mode) and bool(mode & stat.S_IXOTH)
            known = known and self._is_open(os.path.dirname(folder))
            self._open[folder] = known
        return known

    def _link(self, path: str) -> None:
        """Copy a link of a package, with the path that it leads to from its own place."""
        if not self._is_open(os.path.dirname(path)):
            return
        with suppress(OSError):
            target = os.path.join(os.path.dirname(path), os.readlink(self.root + path))
            self._make_folder(path)
            os.symlink(os.path.normpath(target), self.folder + path)

    def _data(self, target: str, package: _Package) -> None:
        """Copy the largest folder of the package around the target that everybody may read."""
        parts = target.split("/")
        for count in range(4, len(parts) + 1):  # /var/lib/NAME, then what is in it
            path = "/".join(parts[:count])
            is_named = path in package.data
            if is_named or (path == target and os.path.dirname(path) in package.data):
                found = self._tree(path)
                if found:
                    for each, kind in found:
                        self._copy(each, kind)
                    return

    def _tree(self, top: str) -> list[tuple[str, int]]:
        """Return all paths at and below `top` with their kinds, none if one may not be shown."""
        found, size = [], 0
        waiting = [top]
        try:
            owner = os.stat(f"{self.root}/usr").st_uid
            while waiting:
                path = waiting.pop()
                status = os.lstat(self.root + path)
                kind = stat.S_IFMT(status.st_mode)
                found.append((path, kind))
                size += status.st_size
                too_much = size > _LARGEST_FOLDER or len(found) > _MOST_ENTRIES
                if too_much or status.st_uid != owner or not _is_for_everybody(status.st_mode):
                    return []
                if kind == stat.S_IFDIR:
                    waiting += [f"{path}/{name}" for name in os.listdir(self.root + path)]
        except OSError:
            return []
        return found

    def _copy(self, path: str, kind: int) -> None:
        if kind == stat.S_IFLNK:
            self._link(path)
        elif kind == stat.S_IFDIR:
            os.makedirs(self.folder + path, exist_ok=True)
        else:
            data = self._public(path)
            if data is not None:
                self._write(path, *data)

    def _make_folder(self, path: str) -> None:
        os.makedirs(os.path.dirname(self.folder + path), exist_ok=True)

    def _write(self, path: str, mode: int, data: bytes) -> None:
        self._make_folder(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        with suppress(FileExistsError):
            fd = os.open(self.folder + path, flags, 0o400)
            with open(fd, "wb") as copy:
                copy.write(data)
                os.fchmod(fd, mode & 0o555)


def _is_for_everybody(mode: int) -> bool:
    """Tell whether everybody may read a file or folder; what is neither is for nobody."""
    if stat.S_ISDIR(mode):
        return mode & _ENTER == _ENTER
    return stat.S_ISLNK(mode) or (stat.S_ISREG(mode) and bool(mode & stat.S_IROTH))


def copy_configuration(folder: str, root: str = "") -> list[str] | None:
    """Copy what may be shown into `folder`; return what was changed, and so is not shown.

    None if this machine has no lists of packages.
    """
    packages = read_packages(root)
    if packages is None:
        return None
    copy = _Copy(root, folder)
    copy.make(packages)
    return copy.changed


_lock = Lock()
_known: tuple[str, str] = ("", "")  # the state of the packages, and the folder of their copies


def packaged_configuration() -> str:
    """Return the folder with the copies for this state of the packages, "" if there is none."""
    global _known  # noqa: PLW0603 - one value per process, compared with the disk
    state = _state()
    if not state:
        return ""
    with _lock:
        if _known[0] != state or not os.path.isdir(_known[1] or "/"):
            _known = (state, _find_or_make(state))
        return _known[1]


def changed_files() -> frozenset[str]:
    """Return the files in /etc that packages brought, and that were changed on this machine."""
    folder = packaged_configuration()
    try:
        return frozenset(os.fsdecode(_read(f"{folder}{_CHANGED}")).split("\n"))
    except OSError:
        return frozenset()


def _state() -> str:
    """Return what changes when packages come, go or are configured, "" without lists of them."""
    seen = [_FORMAT]
    for path in (f"{_DPKG}/status", f"{_DPKG}/info", _UCF):
        try:
            found = os.stat(path)
        except OSError:
            if path != _UCF:
                return ""
        else:
            seen.append(f"{found.st_ino} {found.st_size} {found.st_mtime_ns}")
    return hashlib.sha256("\n".join(seen).encode()).hexdigest()[:32]


def _find_or_make(state: str) -> str:
    store = system_directory()
    if store is None:
        return ""
    place = Path(os.path.realpath(store)) / state
    try:
        if not place.is_dir():
            _make(place)
    except OSError:
        return ""  # a cache that cannot be written: programs do without
    return str(place)


def _make(place: Path) -> None:
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    unfinished = place.with_name(f".{place.name}.{os.urandom(8).hex()}")
    unfinished.mkdir(mode=0o755)
    try:
        changed = copy_configuration(str(unfinished)) or []
        # Beside the copies, because sandboxes show what is in them.
        Path(f"{place}{_CHANGED}").write_bytes(os.fsencode("\n".join(changed)))
        with suppress(FileExistsError, OSError):  # another process was faster
            unfinished.rename(place)
    finally:
        remove_tree(unfinished)
    others = [each for each in place.parent.iterdir() if each != place and each.is_dir()]
    others.sort(key=lambda each: each.stat().st_mtime, reverse=True)
    for each in others[_KEPT:]:
        with suppress(OSError):
            remove_tree(each)
            Path(f"{each}{_CHANGED}").unlink()


SHOWN_AT = "/run/skillpouch/system"  # where a sandbox has the copies; links lead there


def links_to(folder: str, taken: Iterable[str]) -> dict[str, str]:
    """Return the links by which programs find the copies in `folder` at the places of the files.

    `taken` are the paths that a sandbox shows itself: those, and what is in them, get no links.
    """
    shown = [f"{path}/" for path in taken if path.startswith(("/etc/", "/var/"))]
    found: dict[str, str] = {}
    waiting = ["/etc", "/var"]
    while waiting:
        above = waiting.pop()
        for name in _names(folder + above):
            path = f"{above}/{name}"
            if f"{path}/".startswith(tuple(shown)):
                continue
            if any(each.startswith(f"{path}/") for each in shown):
                waiting.append(path)
            else:
                found[path] = SHOWN_AT + path
    return found


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


@lru_cache(maxsize=2)
def originals(folder: str) -> tuple[tuple[str, Literal["read", "list"]], ...]:
    """Return the files that were copied to `folder`, and their folders, with the right to them.

    For machines without mounts of our own, where a sandbox can only show the files themselves. The
    right to list a folder holds for all folders in it: only what was copied whole gets it.
    """
    found: list[tuple[str, Literal["read", "list"]]] = []
    whole: dict[str, bool] = {}
    for above, folders, files in os.walk(folder, topdown=False):
        here = above[len(folder) :]
        inside = all(whole.get(f"{here}/{name}", True) for name in folders)
        whole[here] = inside and sorted(_names(here or "/")) == sorted([*folders, *files])
        found += [(f"{here}/{name}", "read") for name in files]
        if whole[here]:
            found.append((here, "list"))
    return tuple(found)
