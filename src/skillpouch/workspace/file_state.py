"""What a file is besides its name: identity, mode, owner, times, attributes; renamed or copied."""

import ctypes
import errno
import os
import stat
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from typing import NamedTuple

from skillpouch.runtime.removal import remove_tree
from skillpouch.untrusted_files import open_plain

PATH_ONLY = getattr(os, "O_PATH", os.O_RDONLY) | os.O_NOFOLLOW | os.O_CLOEXEC
READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_CHUNK = 1024 * 1024
_NO_REPLACE, _EXCHANGE = 1, 2  # flags of renameat2(2)
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)  # NFS and others know no flags
_HANDLE_BYTES = 128  # MAX_HANDLE_SZ of name_to_handle_at(2)
_EMPTY_PATH = 0x1000  # AT_EMPTY_PATH: the open file itself
_MOST_OPEN = 128
_LONGEST_INFO = 4096  # of a file in /proc/self/fdinfo; what is looked for comes early
# Written by an overlay into its upper folder; whatever is brought into a workspace has none.
OVERLAY_ATTRIBUTES = "user.overlay."

# As os.fsencode, which is slow for thousands of names.
_NAMES = sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()

Identity = tuple[int, ...]  # a file: inode, mode, owner, group, size, mtime; a folder: inode, type


class Metadata(NamedTuple):
    """What can be set on a file in place."""

    mode: int
    owner: int
    group: int
    atime_ns: int
    mtime_ns: int
    attributes: dict[str, str]  # extended attributes, values as hexadecimal digits


def identity_of(status: os.stat_result) -> Identity:
    """Return what stays the same while nobody changes or replaces the file; renaming keeps it."""
    if stat.S_ISDIR(status.st_mode):
        return status.st_ino, stat.S_IFDIR
    mode, size = status.st_mode, status.st_size
    return status.st_ino, mode, status.st_uid, status.st_gid, size, status.st_mtime_ns


def is_folder(identity: Identity | None) -> bool:
    """Tell whether this is the identity of a folder."""
    return identity is not None and identity[1] == stat.S_IFDIR


def status_in(folder: int, name: str) -> os.stat_result | None:
    """Return the status of an entry of an open folder, not of a link's target; None if absent."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def name_of(descriptor: int) -> str:
    """Return a path that leads to an open file, whatever it is called by now."""
    return f"/proc/self/fd/{descriptor}"  # proc_pid_fd(5); also for O_PATH, unlike fchmod(2)


class FolderTree:
    """The folders below an open one, each reached by descriptors without following a link."""

    def __init__(self, root: int) -> None:
        self.root = root
        self.device = os.fstat(root).st_dev
        self._open: dict[str, int] = {}

    def close(self) -> None:
        """Close the folders, not the root."""
        self.forget()

    def forget(self) -> None:
        """Walk again from the root: folders have been renamed."""
        while self._open:
            os.close(self._open.popitem()[1])

    def folder(self, path: str) -> int:
        """Return the open folder of this path; it stays this tree's, and open for a while.

        Raises OSError; EXDEV where another file system is mounted.
        """
        found = self._open.get(path) if path else self.root
        if found is not None:
            return found
        # Up to a folder that is open, then down again: paths may be thousands of folders deep.
        above, names = path, list[str]()
        while above and above not in self._open:
            above, _, name = above.rpartition("/")
            names.append(name)
        found = self._open[above] if above else self.root
        while names:
            inner = self._enter(found, names.pop())
            above = f"{above}/{path[len(above) :].lstrip('/').partition('/')[0]}".lstrip("/")
            if len(self._open) >= _MOST_OPEN:
                self.forget()
            self._open[above] = found = inner
        return found

    def _enter(self, folder: int, name: str) -> int:
        inner = os.open(name, PATH_ONLY | os.O_DIRECTORY, dir_fd=folder)
        if os.fstat(inner).st_dev != self.device:
            os.close(inner)
            raise OSError(errno.EXDEV, "another file system is mounted there", name)
        return inner

    def place(self, path: str) -> tuple[int, str]:
        """Return the open folder that holds an entry, and the entry's name."""
        above, _, name = path.rpartition("/")
        return self.folder(above), name

    def status(self, path: str) -> os.stat_result | None:
        """Return the status of an entry; None where nothing is, or its folder is none."""
        if not path:
            return os.fstat(self.root)
        try:
            folder, name = self.place(path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return status_in(folder, name)

    @contextmanager
    def listing(self, path: str) -> Iterator[int]:
        """Hold a folder open for reading."""
        descriptor = _readable(self.folder(path))
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def opened(self, path: str, flags: int = READ) -> Iterator[int]:
        """Hold an entry open; never through a link."""
        folder, name = self.place(path) if path else (self.root, ".")
        descriptor = os.open(name, flags, dir_fd=folder)
        try:
            yield descriptor
        finally:
            os.close(descriptor)


def _readable(folder: int) -> int:
    try:
        return os.open(".", FOLDER, dir_fd=folder)
    except PermissionError:
        # The owner may have taken the right from itself; whoever applies the changes puts the
        # mode back at the end.
        os.chmod(name_of(folder), stat.S_IMODE(os.fstat(folder).st_mode) | stat.S_IRWXU)
        return os.open(".", FOLDER, dir_fd=folder)


@contextmanager
def open_tree(path: str) -> Iterator[FolderTree]:
    """Hold a folder open by an absolute path in which nothing is a link."""
    with _tree_at(open_plain(path)) as tree:
        yield tree


@contextmanager
def opened_tree(place: tuple[int, str]) -> Iterator[FolderTree]:
    """Hold a folder open that is an entry of an open one."""
    with _tree_at(os.open(place[1], PATH_ONLY | os.O_DIRECTORY, dir_fd=place[0])) as tree:
        yield tree


@contextmanager
def _tree_at(root: int) -> Iterator[FolderTree]:
    tree = FolderTree(root)
    try:
        yield tree
    finally:
        tree.close()
        os.close(root)


def attributes_of(path: str | int, *, marks: bool = False) -> dict[str, str]:
    """Return the extended attributes of a file; those of an overlay only with `marks`."""
    if not hasattr(os, "listxattr"):  # only Linux has it
        return {}
    try:
        names = os.listxattr(path)
        kept = [name for name in names if marks or not name.startswith(OVERLAY_ATTRIBUTES)]
        return {name: os.getxattr(path, name).hex() for name in kept}
    except OSError as error:
        if error.errno in (errno.ENOTSUP, errno.EPERM, errno.EACCES, errno.ENODATA, errno.ELOOP):
            return {}
        raise


def metadata_of(status: os.stat_result, path: str | int, *, marks: bool = False) -> Metadata:
    """Return the metadata of a file: `path` is its descriptor, or the name of one in /proc."""
    link = stat.S_ISLNK(status.st_mode)
    return Metadata(
        stat.S_IMODE(status.st_mode),
        status.st_uid,
        status.st_gid,
        status.st_atime_ns,
        status.st_mtime_ns,
        {} if link else attributes_of(path, marks=marks),
    )


def set_metadata(path: str, now: Metadata, wanted: Metadata, *, times: bool = True) -> None:
    """Set what differs on the file to which a path of /proc leads; times last.

    Raises OSError; what an ordinary user may not set, such as another owner, is left.
    """
    if (now.owner, now.group) != (wanted.owner, wanted.group):
        with suppress(PermissionError):
            os.chown(path, wanted.owner, wanted.group)  # clears setuid, so the mode comes after it
    if now.attributes != wanted.attributes:
        _set_attributes(path, now, wanted)
    if now[:3] != wanted[:3] or now.attributes != wanted.attributes:
        with suppress(NotImplementedError):
            os.chmod(path, wanted.mode)
    if times:
        os.utime(path, ns=(wanted.atime_ns, wanted.mtime_ns))


def set_link_metadata(folder: int, name: str, wanted: Metadata) -> None:
    """Set owner and times of a symbolic link, not of its target."""
    with suppress(PermissionError):
        os.chown(name, wanted.owner, wanted.group, dir_fd=folder, follow_symlinks=False)
    os.utime(name, ns=(wanted.atime_ns, wanted.mtime_ns), dir_fd=folder, follow_symlinks=False)


def _set_attributes(path: str, now: Metadata, wanted: Metadata) -> None:
    if not now.mode & stat.S_IWUSR:
        os.chmod(path, now.mode | stat.S_IWUSR)
    for name in now.attributes.keys() - wanted.attributes.keys():
        with suppress(PermissionError):
            os.removexattr(path, name)
    for name, value in wanted.attributes.items():
        if now.attributes.get(name) != value:
            with suppress(PermissionError):
                os.setxattr(path, name, bytes.fromhex(value))


@cache
def _renameat2() -> "Callable[[int, bytes, int, bytes, int], int] | None":
    """renameat2(2): the two ways of renaming that never lose what was under the new name."""
    return getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)


def _rename(source: tuple[int, str], target: tuple[int, str], flag: int) -> bool:
    """Rename; false where the file system or the C library does not know the flag."""
    rename = _renameat2()
    if rename is None:
        return False
    old = source[1].encode(*_NAMES)
    new = target[1].encode(*_NAMES) if target[1] != source[1] else old
    if rename(source[0], old, target[0], new, flag) == 0:
        return True
    code = ctypes.get_errno()
    if code in _UNSUPPORTED:
        return False
    raise OSError(code, os.strerror(code), source[1], None, target[1])


def move(source: tuple[int, str], target: tuple[int, str]) -> None:
    """Rename an entry; FileExistsError if there is something under the new name."""
    if _rename(source, target, _NO_REPLACE):
        return
    status = os.stat(source[1], dir_fd=source[0], follow_symlinks=False)
    if stat.S_ISDIR(status.st_mode):
        if status_in(*target) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), target[1])
        os.rename(source[1], target[1], src_dir_fd=source[0], dst_dir_fd=target[0])
        return
    # link(2) never replaces; after a crash between the two, both names lead to one file.
    link(source, target)
    os.unlink(source[1], dir_fd=source[0])


@contextmanager
def movable(*places: tuple[int, str]) -> Iterator[None]:
    """Let folders be renamed that their owner may not write: that changes their "..", rename(2)."""
    held = list[tuple[int, int]]()
    try:
        for folder, name in places:
            with suppress(FileNotFoundError, NotADirectoryError):
                held.append((os.open(name, PATH_ONLY | os.O_DIRECTORY, dir_fd=folder), -1))
                status = os.fstat(held[-1][0])
                mode = stat.S_IMODE(status.st_mode)
                if not mode & stat.S_IWUSR and status.st_uid == os.geteuid():
                    os.chmod(name_of(held[-1][0]), mode | stat.S_IRWXU)
                    held[-1] = held[-1][0], mode
        yield
    finally:
        for descriptor, mode in held:
            if mode >= 0:
                os.chmod(name_of(descriptor), mode)
            os.close(descriptor)


def link(source: tuple[int, str], target: tuple[int, str]) -> None:
    """Give an entry another name; FileExistsError if there is something under it."""
    os.link(source[1], target[1], src_dir_fd=source[0], dst_dir_fd=target[0], follow_symlinks=False)


def remove_entry(folder: int, name: str) -> None:
    """Remove an entry of an open folder, with everything below it, if there is one."""
    status = status_in(folder, name)
    if status is not None and stat.S_ISDIR(status.st_mode):
        remove_tree(name, within=folder)
    elif status is not None:
        os.unlink(name, dir_fd=folder)


def exchange(one: tuple[int, str], other: tuple[int, str]) -> bool:
    """Swap two entries at once; false where the file system cannot do that."""
    return _rename(one, other, _EXCHANGE)


def is_one_mount(one: FolderTree, other: FolderTree) -> bool:
    """Tell whether files can be renamed from one tree to the other: by device and mount."""
    return one.device == other.device and _mount_of(one.root) == _mount_of(other.root)


def _mount_of(descriptor: int) -> bytes | int:
    known = _handle_and_mount(descriptor, b"", _EMPTY_PATH)
    if known is not None:
        return known[1]
    try:
        with open(f"/proc/self/fdinfo/{descriptor}", "rb", buffering=0) as file:
            return file.read(_LONGEST_INFO).partition(b"\nmnt_id:")[2].partition(b"\n")[0]
    except OSError:
        return b""


@cache
def _handles() -> "ctypes._NamedFuncPointer | None":
    return getattr(ctypes.CDLL(None, use_errno=True), "name_to_handle_at", None)


def handle_of(folder: int, name: str) -> bytes | None:
    """Return the handle by which an overlay names the origin of a file; None if there is none."""
    found = _handle_and_mount(folder, os.fsencode(name), 0)
    return None if found is None else found[0]


def _handle_and_mount(folder: int, name: bytes, flags: int) -> tuple[bytes, int] | None:
    call = _handles()
    if call is None:
        return None
    buffer = ctypes.create_string_buffer(8 + _HANDLE_BYTES)
    struct.pack_into("I", buffer, 0, _HANDLE_BYTES)
    mount = ctypes.c_int()
    if call(folder, name, buffer, ctypes.byref(mount), flags) != 0:
        return None
    count, kind = struct.unpack_from("Ii", buffer, 0)
    return bytes([kind & 0xFF]) + buffer.raw[8 : 8 + count], mount.value


def extents_of(descriptor: int, size: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of a file that are no holes, as start and end."""
    start = 0
    while start < size:
        try:
            begin = os.lseek(descriptor, start, os.SEEK_DATA)
            end = os.lseek(descriptor, begin, os.SEEK_HOLE)
        except OSError as error:
            if error.errno != errno.ENXIO:  # ENXIO: only a hole is left
                yield start, size
            return
        yield begin, min(end, size)
        start = end


class Copier:
    """Copies entries with data, holes, mode, owner, times, attributes and hard links."""

    def __init__(self, *, marks: bool = False) -> None:
        self._made: dict[tuple[int, int], tuple[int, str]] = {}
        self._marks = marks  # copy the attributes of an overlay, too
        self.bytes = 0

    def copy(self, source: tuple[int, str], target: tuple[int, str]) -> None:
        """Copy an entry of an open folder, with everything below it, to a name that is free."""
        status = os.stat(source[1], dir_fd=source[0], follow_symlinks=False)
        if stat.S_ISDIR(status.st_mode):
            self._copy_tree(source, target)
        else:
            self._copy_entry(source, target, status)

    def _copy_entry(
        self, source: tuple[int, str], target: tuple[int, str], status: os.stat_result
    ) -> None:
        key = status.st_dev, status.st_ino
        if status.st_nlink > 1 and key in self._made:
            link(self._made[key], target)
            return
        if stat.S_ISREG(status.st_mode):
            self._copy_file(source, target)
        elif stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(source[1], dir_fd=source[0]), target[1], dir_fd=target[0])
            self._finish_link(target, status)
        else:
            os.mknod(target[1], status.st_mode, status.st_rdev, dir_fd=target[0])
            self._finish_link(target, status)
        if status.st_nlink > 1:
            self._made[key] = (os.dup(target[0]), target[1])

    def close(self) -> None:
        """Close what was held open to make hard links."""
        while self._made:
            os.close(self._made.popitem()[1][0])

    @staticmethod
    def _finish_link(target: tuple[int, str], status: os.stat_result) -> None:
        with suppress(PermissionError):
            os.chown(
                target[1], status.st_uid, status.st_gid, dir_fd=target[0], follow_symlinks=False
            )
        times = status.st_atime_ns, status.st_mtime_ns
        if not stat.S_ISLNK(status.st_mode):
            held = os.open(target[1], PATH_ONLY, dir_fd=target[0])
            try:
                os.chmod(name_of(held), stat.S_IMODE(status.st_mode))
            finally:
                os.close(held)
        os.utime(target[1], ns=times, dir_fd=target[0], follow_symlinks=False)

    def _copy_file(self, source: tuple[int, str], target: tuple[int, str]) -> None:
        read = os.open(source[1], READ, dir_fd=source[0])
        try:
            status = os.fstat(read)
            if not stat.S_ISREG(status.st_mode):
                raise OSError(errno.EBUSY, "it was replaced while it was copied", source[1])
            written = os.open(target[1], _NEW, 0o600, dir_fd=target[0])
            try:
                for start, end in extents_of(read, status.st_size):
                    self.bytes += end - start
                    _copy_range(read, written, start, end)
                os.ftruncate(written, status.st_size)
                fresh = metadata_of(os.fstat(written), written)
                wanted = metadata_of(status, read, marks=self._marks)
                set_metadata(name_of(written), fresh, wanted)
            finally:
                os.close(written)
        finally:
            os.close(read)

    def _copy_tree(self, source: tuple[int, str], target: tuple[int, str]) -> None:
        os.mkdir(target[1], 0o700, dir_fd=target[0])
        with opened_tree(source) as old, opened_tree(target) as new:
            folders, todo = [""], [""]
            while todo:
                path = todo.pop()
                inner = self._copy_folder(old, new, path)
                todo += inner
                folders += inner
            for path in reversed(folders):  # what is in a folder changes its times
                held = new.folder(path)
                fresh = metadata_of(os.fstat(held), name_of(held))
                read = old.folder(path)
                wanted = metadata_of(os.fstat(read), name_of(read), marks=self._marks)
                set_metadata(name_of(held), fresh, wanted)

    def _copy_folder(self, old: FolderTree, new: FolderTree, path: str) -> list[str]:
        """Copy the entries of a folder; return the folders among them, which are made empty."""
        inner = list[str]()
        with old.listing(path) as read:
            for name in os.listdir(read):
                status = os.stat(name, dir_fd=read, follow_symlinks=False)
                if stat.S_ISDIR(status.st_mode):
                    os.mkdir(name, 0o700, dir_fd=new.folder(path))
                    inner.append(f"{path}/{name}" if path else name)
                else:
                    self._copy_entry((read, name), (new.folder(path), name), status)
        return inner


def _copy_range(read: int, written: int, start: int, end: int) -> None:
    place = start
    while place < end:
        try:
            # Within one file system that can, this shares the blocks instead of copying them.
            count = os.copy_file_range(read, written, end - place, place, place)
        except (OSError, AttributeError):
            data = os.pread(read, min(_CHUNK, end - place), place)
            count = os.pwrite(written, data, place) if data else 0
        if not count:
            return  # it has become shorter meanwhile
        place += count
