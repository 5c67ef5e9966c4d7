"""Reads the upper folder of an overlay: every entry of it, and what it stands for in the lower one.

The form is that of Linux, Documentation/filesystems/overlayfs.rst: a character device 0:0 removes
what the lower folder has under that name; `opaque` folders hide the lower ones; `origin` is the
handle of the file that was copied up. These notes are attributes that begin with "user.overlay.":
every layer is mounted with `userxattr`, and so a folder is never renamed as a whole. A call can
make none of these by itself, but what it made is not trusted: nothing is opened by a path.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Container, Iterator, Sequence
from contextlib import suppress
from typing import Literal

from skillpouch.workspace.file_state import (
    FOLDER,
    OVERLAY_ATTRIBUTES,
    PATH_ONLY,
    READ,
    FolderTree,
    Metadata,
    extents_of,
    handle_of,
    name_of,
    status_in,
)

MOST_HASHED = 256 * 1024 * 1024  # larger files have no hash: it would take longer than the call
_CHUNK = 1024 * 1024
_MOST_SEARCHED = 50_000  # entries of a workspace, for other names of a file that was changed
_HANDLE_STARTS = 21  # struct ovl_fb: version, magic, length, flags, type, 16 bytes of uuid
_TYPE_AT = 4
_BYTES_FOR_ONE = 96  # of a folder, which take as long to list as to ask for one name: four entries

Kind = Literal["folder", "file", "link", "special", "whiteout"]
_KINDS: dict[int, Kind] = {stat.S_IFREG: "file", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}


class LayerEntry:
    """One entry of an upper folder, at `path` of the tree that the call saw."""

    # What most entries have: written only where it differs.
    occupant: os.stat_result | None = None  # what the workspace has in its place
    in_new_folder = False  # the folder that it is in shows nothing of the workspace
    merged = False  # of a folder: it shows what the workspace has in its place as well
    opaque = False
    origin: bytes | None = None  # None: not copied up; b"": copied up from somewhere
    moved_from = ""  # of a file: the lower path that it was renamed from
    same = False  # its content is that of the occupant, or of `moved_from`
    sha256 = ""
    anchor: "LayerEntry | None" = None  # unchanged, and another name of this file
    plain = True  # can be brought into the workspace as it is, with all below it
    children: "Sequence[LayerEntry]" = ()
    excluded = False  # a conflict: left alone with everything below it

    is_fresh = False  # a file that is no copy of one of the workspace, nor in the place of one

    status: os.stat_result
    kind: Kind = "file"

    def __init__(self, path: str, slot: str) -> None:
        self.path = path
        self.slot = slot  # below the folder of the call

    def set_status(self, status: os.stat_result) -> None:
        """Note what it is."""
        self.status = status
        self.kind = kind_of(status)


def kind_of(status: os.stat_result) -> Kind:
    """Return what an entry of an upper folder is."""
    kind = _KINDS.get(stat.S_IFMT(status.st_mode))
    if kind is not None:
        return kind
    return "whiteout" if stat.S_ISCHR(status.st_mode) and status.st_rdev == 0 else "special"


class LayerReader:
    """Reads one upper folder against the lower one; both are open."""

    def __init__(self, upper: FolderTree, lower: FolderTree, slot: str, since_ns: int) -> None:
        self.knows_handles = True  # of what is in the lower folder; not if that is an overlay
        self.upper = upper
        self.lower = lower
        self.since_ns = since_ns
        self._slot = slot
        self.entries: list[LayerEntry] = []
        self.marked: dict[str, list[str]] = {}

    def read(self) -> LayerEntry:
        """Return the root of the tree; `entries` are all below it, folders come first."""
        root = LayerEntry("", self._slot)
        root.set_status(os.fstat(self.upper.root))
        root.merged = True
        root.occupant = os.fstat(self.lower.root)
        todo = [root]
        while todo:
            folder = todo.pop()
            children = self._read_folder(folder)
            folder.children = children
            self.entries += children
            todo += [each for each in children if each.kind == "folder"]
        return root

    def _read_folder(self, folder: LayerEntry) -> list[LayerEntry]:
        with self.upper.listing(folder.path) as descriptor:
            if folder.path:
                self._read_marks(folder, descriptor)
                folder.merged = self._is_merged(folder)
            lower = self._lower_folder(folder)
            with os.scandir(descriptor) as listing:
                found = [(each.name, each.is_file(follow_symlinks=False)) for each in listing]
            found.sort()
            there = _names_in(lower, len(found)) if lower is not None else ()
            path = f"{folder.path}/" if folder.path else ""
            slot, is_new = f"{folder.slot}/", lower is None and not folder.merged
            children = list[LayerEntry]()
            for name, is_file in found:
                entry = LayerEntry(path + name, slot + name)
                if lower is not None and name in there:
                    entry.occupant = status_in(lower, name)
                elif is_new:
                    entry.in_new_folder = True
                is_usual = is_file and entry.occupant is None
                if not (is_usual and self._is_read(entry, descriptor, name)):
                    self._read_entry(entry, descriptor, name, is_file=is_file)
                children.append(entry)
            return children

    def _is_read(self, entry: LayerEntry, folder: int, name: str) -> bool:
        """Read a file with nothing in its place, as most are; false if nobody may read it."""
        try:
            descriptor = os.open(name, READ, dir_fd=folder)
        except PermissionError:
            return False
        try:
            entry.status = status = os.fstat(descriptor)
            self._read_marks(entry, descriptor)
            entry.sha256 = hash_of(descriptor, status.st_size)
        finally:
            os.close(descriptor)
        entry.is_fresh = entry.origin is None
        return True

    def _read_entry(self, entry: LayerEntry, folder: int, name: str, *, is_file: bool) -> None:
        if is_file:
            try:
                descriptor = os.open(name, READ, dir_fd=folder)
            except PermissionError:  # nobody may read it: it counts as changed
                self._read_marks(entry, f"{name_of(folder)}/{name}")
            else:
                self._read_file(entry, descriptor)
                return
        entry.set_status(os.stat(name, dir_fd=folder, follow_symlinks=False))
        if entry.kind == "link":
            entry.same = self._is_same_link(entry, folder, name)

    def _lower_folder(self, folder: LayerEntry) -> int | None:
        """Return the open folder of the workspace that a folder of the layer shows as well."""
        if folder.merged:
            with suppress(FileNotFoundError, NotADirectoryError):
                return self.lower.folder(folder.path)
        return None

    def _read_marks(self, entry: LayerEntry, path: str | int) -> None:
        """Note what the overlay wrote about a file or folder: nothing else can have a note."""
        try:
            names = os.listxattr(path)
        except OSError:
            return  # the file system has no attributes
        if not names:
            return
        marks = [name for name in names if name.startswith(OVERLAY_ATTRIBUTES)]
        if marks:
            self.marked[entry.slot] = marks
        with suppress(OSError):
            for name in marks:
                self._note(entry, name[len(OVERLAY_ATTRIBUTES) :], os.getxattr(path, name))

    def _note(self, entry: LayerEntry, mark: str, value: bytes) -> None:
        if mark == "origin":
            handle = value[_HANDLE_STARTS:] if self.knows_handles else b""
            entry.origin = value[_TYPE_AT : _TYPE_AT + 1] + handle if handle else b""
        elif mark == "opaque":
            entry.opaque = value == b"y"

    def _is_merged(self, folder: LayerEntry) -> bool:
        occupant = folder.occupant
        if occupant is None or not stat.S_ISDIR(occupant.st_mode):
            return False
        return not folder.opaque or self._has_appeared(folder.path, occupant)

    def _has_appeared(self, path: str, occupant: os.stat_result) -> bool:
        """Tell whether a folder was made after the call began: two calls may make the same one."""
        if occupant.st_ctime_ns <= self.since_ns:
            return False
        with self.lower.listing(path) as descriptor, os.scandir(descriptor) as listing:
            return all(
                each.stat(follow_symlinks=False).st_ctime_ns > self.since_ns for each in listing
            )

    def _read_file(self, entry: LayerEntry, descriptor: int) -> None:
        """Read what is in an open file, and close it."""
        try:
            entry.set_status(os.fstat(descriptor))
            self._read_marks(entry, descriptor)
            occupant, size = entry.occupant, entry.status.st_size
            if occupant is None or occupant.st_size != size or not stat.S_ISREG(occupant.st_mode):
                entry.sha256 = hash_of(descriptor, size)
                return
            with suppress(OSError), self.lower.opened(entry.path) as other:
                entry.sha256, entry.same = compared(descriptor, other, size)
        finally:
            os.close(descriptor)

    def _is_same_link(self, entry: LayerEntry, folder: int, name: str) -> bool:
        occupant = entry.occupant
        if occupant is None or not stat.S_ISLNK(occupant.st_mode):
            return False
        return os.readlink(name, dir_fd=folder) == self.read_link(entry.path)

    def read_link(self, low: str) -> str | None:
        with suppress(OSError):
            folder, name = self.lower.place(low)
            return os.readlink(name, dir_fd=folder)
        return None

    def is_same_file(self, entry: LayerEntry, low: str, status: os.stat_result) -> bool:
        """Tell whether an entry has the content of a lower file."""
        if stat.S_IFMT(status.st_mode) != stat.S_IFMT(entry.status.st_mode):
            return False
        if entry.kind == "link":
            folder, name = self.upper.place(entry.path)
            return os.readlink(name, dir_fd=folder) == self.read_link(low)
        if entry.kind != "file" or status.st_size != entry.status.st_size:
            return entry.kind == "special"
        with suppress(OSError), self.lower.opened(low) as other:
            if entry.sha256:
                return hash_of(other, status.st_size) == entry.sha256
            with self.upper.opened(entry.path) as own:
                return compared(own, other, status.st_size)[1]
        return False


def _names_in(folder: int, asked: int) -> Container[str]:
    """Return the names in an open folder; all are read if that costs less than to ask for some.

    The size of a folder tells about how many there are; it does not shrink on ext4.
    """
    if os.fstat(folder).st_size <= asked * _BYTES_FOR_ONE:
        with suppress(OSError):
            listing = os.open(".", FOLDER, dir_fd=folder)
            try:
                return set(os.listdir(listing))
            finally:
                os.close(listing)
    return _NamesIn(folder)


class _NamesIn:
    """The names in an open folder, asked for one by one: cheaper than the error of a status."""

    def __init__(self, folder: int) -> None:
        self._folder = folder
        self._is_told = self._has(".")  # access(2) says no where it may not look

    def __contains__(self, name: object) -> bool:
        return not self._is_told or self._has(str(name))

    def _has(self, name: str) -> bool:
        return os.access(name, os.F_OK, dir_fd=self._folder, follow_symlinks=False)


def hash_of(descriptor: int, size: int) -> str:
    """Return the sha256 of a file as hexadecimal digits; empty for a file that is too large."""
    if size > MOST_HASHED:
        return ""
    if size < _CHUNK:
        data = os.read(descriptor, size + 1)
        if len(data) == size:
            return hashlib.sha256(data, usedforsecurity=False).hexdigest()
    digest = hashlib.sha256(usedforsecurity=False)
    for data in _chunks(descriptor, 0, size):
        digest.update(data)
    return digest.hexdigest()


def compared(one: int, other: int, size: int) -> tuple[str, bool]:
    """Return the hash of a file, and whether another of the same size has the same content."""
    if size < _CHUNK:
        data = os.read(one, size + 1)
        digest = hashlib.sha256(data, usedforsecurity=False).hexdigest()
        return digest, len(data) == size and data == os.read(other, size + 1)
    same = _is_same_data(one, other, size)
    return hash_of(one, size), same


def _is_same_data(one: int, other: int, size: int) -> bool:
    """Compare two files of one size; what is a hole in both is not read."""
    parts = sorted([*extents_of(one, size), *extents_of(other, size)])
    place = 0
    for start, end in parts:
        begin = max(start, place)
        while begin < end:
            count = min(_CHUNK, end - begin)
            data = os.pread(one, count, begin)
            if data != os.pread(other, count, begin):
                return False
            begin += len(data) or count
        place = max(place, end)
    return True


def _chunks(descriptor: int, start: int, end: int) -> Iterator[bytes]:
    while start < end and (data := os.pread(descriptor, min(_CHUNK, end - start), start)):
        start += len(data)
        yield data


class RenameCandidates:
    """The files that left their place: what another file may have been renamed from."""

    def __init__(self, lower: FolderTree, gone: dict[str, os.stat_result]) -> None:
        self._lower = lower
        self._gone = gone
        self._by_handle: dict[bytes, str] | None = None
        self._by_look: dict[tuple[int, int, int], list[str]] | None = None
        self._used: set[str] = set()

    def origin_of(self, entry: LayerEntry, reader: LayerReader) -> str:
        """Return the lower path that an entry had, or an empty text."""
        found = self._with_handle(entry.origin) if entry.origin else self._alike(entry, reader)
        if found in self._used:
            return ""
        self._used.add(found)
        return found

    def _with_handle(self, handle: bytes) -> str:
        if self._by_handle is None:
            self._by_handle = {}
            for path in self._gone:
                found = handle_of(*self._lower.place(path))
                if found is not None:
                    self._by_handle[found] = path
        return self._by_handle.get(handle, "")

    def _alike(self, entry: LayerEntry, reader: LayerReader) -> str:
        """Find a file by size, time and content.

        Overlays name no origin in a user namespace, nor that of a file with several names.
        """
        if self._by_look is None:
            self._by_look = {}
            for path, status in self._gone.items():
                self._by_look.setdefault(_look(status), []).append(path)
        for path in self._by_look.get(_look(entry.status), ()):
            status = self._gone[path]
            is_possible = entry.origin is not None or status.st_nlink > 1
            is_elsewhere = path != entry.path or entry.in_new_folder
            is_possible = is_possible and is_elsewhere and path not in self._used
            if is_possible and reader.is_same_file(entry, path, status):
                return path
        return ""


def _look(status: os.stat_result) -> tuple[int, int, int]:
    return stat.S_IFMT(status.st_mode), status.st_size, status.st_mtime_ns


def names_of(tree: FolderTree, inodes: set[int]) -> Iterator[tuple[str, os.stat_result]]:
    """Yield the paths in a tree of some files with several names, within a limit."""
    todo, seen = [""], 0
    while todo and seen < _MOST_SEARCHED:
        folder = todo.pop()
        with suppress(OSError), tree.listing(folder) as held, os.scandir(held) as listing:
            for each in listing:
                seen += 1
                path = f"{folder}/{each.name}" if folder else each.name
                if each.is_dir(follow_symlinks=False):
                    todo.append(path)
                elif each.inode() in inodes:
                    yield path, each.stat(follow_symlinks=False)


def remove_marks(folder: int, name: str, marks: list[str]) -> None:
    """Remove attributes of an overlay from a file or folder of the call's folder."""
    try:
        held = os.open(name, READ, dir_fd=folder)
        try:
            _remove_each(held, marks)
        finally:
            os.close(held)
    except PermissionError:  # its owner may not read or write it
        held = os.open(name, PATH_ONLY, dir_fd=folder)
        try:
            mode = stat.S_IMODE(os.fstat(held).st_mode)
            os.chmod(name_of(held), mode | stat.S_IWUSR)
            _remove_each(name_of(held), marks)
            os.chmod(name_of(held), mode)
        finally:
            os.close(held)


def _remove_each(path: str | int, marks: list[str]) -> None:
    for mark in marks:
        try:
            os.removexattr(path, mark)
        except OSError as error:
            if error.errno != errno.ENODATA:  # ENODATA: before a crash
                raise


def is_pipe(status: os.stat_result) -> bool:
    """Tell whether a file that is neither regular nor a link can be brought into a workspace."""
    return stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode)


def is_new_file(entry: LayerEntry) -> bool:
    """Tell whether an entry is what most are: a file that comes from nowhere else."""
    return entry.is_fresh and not (entry.moved_from or entry.anchor or entry.excluded)


def is_plain(entry: LayerEntry) -> bool:
    """Tell whether an entry can be renamed into the workspace with everything in it."""
    if entry.excluded or entry.anchor or entry.kind == "whiteout":
        return False
    if entry.kind != "folder":
        return not (entry.moved_from and entry.same)
    return not entry.merged and all(each.plain for each in entry.children)


def all_below(entry: LayerEntry) -> Iterator[LayerEntry]:
    """Yield all entries below one, folders before what is in them."""
    todo = list(reversed(entry.children))
    while todo:
        each = todo.pop()
        yield each
        todo += reversed(each.children)


def root_metadata(before: Metadata, after: Metadata) -> Metadata:
    """Return what a call made of the workspace itself; `after` is what the root of its layer has.

    Of another group, and of attributes that are not the user's, a layer has its own: only root
    gives folders away, and labels belong to a place.
    """
    mode, owner, group = after[:3] if os.geteuid() == 0 else (after.mode, *before[1:3])
    if after.group != before.group:
        mode = mode & ~stat.S_ISGID | before.mode & stat.S_ISGID
    kept = {name: value for name, value in before.attributes.items() if not _is_users(name)}
    own = {name: value for name, value in after.attributes.items() if _is_users(name)}
    return after._replace(mode=mode, owner=owner, group=group, attributes=kept | own)


def _is_users(attribute: str) -> bool:
    return attribute.startswith("user.")
