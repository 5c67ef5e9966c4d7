"""Renames folders in a layer: what overlayfs refuses there is done entry by entry.

A layer that is mounted in a user namespace cannot rename a folder of the workspace: rename(2) fails
with EXDEV, because the note that a folder was moved would be an attribute that any user can write
(`redirect_dir` in the kernel's overlayfs.rst). Hardly any program expects this within one folder.
So the kernel hands the renames of such a call to its sandbox (seccomp_unotify(2)): files are
renamed by the kernel as always, a folder is moved here, with the rights and the view of the call.
"""

from __future__ import annotations

import errno
import os
import stat

from skillpouch.execution.zygote import kernel, seccomp

_RENAMEAT2 = seccomp.NUMBERS[os.uname().machine]["renameat2"]
_AT_FDCWD = -100
_LONGEST_PATH = 4096  # PATH_MAX, with its zero byte
_PAGE = 4096  # bytes; a path may end right before a page that is not mapped
_NO_REPLACE = 1  # RENAME_NOREPLACE, rename(2); with other flags the kernel's own answer stays
_MOST_LEVELS = 200  # two descriptors are held for each
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_BASE = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_MARKS = 0o6000  # set-ID bits, which the filter of a sandbox does not let anybody set


class Rename:
    """One rename as its caller asked for it: two paths, and the folders in which they begin."""

    def __init__(self, old: bytes, old_base: int, new: bytes, new_base: int, flags: int) -> None:
        self.old, self.old_base = old, old_base
        self.new, self.new_base = new, new_base
        self.flags = flags

    def close(self) -> None:
        os.close(self.old_base)
        os.close(self.new_base)

    @property
    def is_of_folder(self) -> bool:
        if self.flags not in (0, _NO_REPLACE):
            return False
        try:
            status = os.stat(self.old, dir_fd=self.old_base, follow_symlinks=False)
        except OSError:
            return False
        return stat.S_ISDIR(status.st_mode)


def read_rename(process: str, name: str, arguments: list[int]) -> Rename:
    """Read the arguments of a rename, renameat or renameat2 of the thread in /proc at `process`."""
    if name == "rename":
        places, flags = (_AT_FDCWD, arguments[0], _AT_FDCWD, arguments[1]), 0
    else:
        places = (arguments[0], arguments[1], arguments[2], arguments[3])
        flags = arguments[4] if name == "renameat2" else 0
    memory = os.open(process + "/mem", os.O_RDONLY | os.O_CLOEXEC)
    try:
        old, new = _path_at(memory, places[1]), _path_at(memory, places[3])
    finally:
        os.close(memory)
    old_base = _base_of(process, places[0])
    try:
        return Rename(old, old_base, new, _base_of(process, places[2]), flags)
    except BaseException:
        os.close(old_base)
        raise


def _path_at(memory: int, address: int) -> bytes:
    found = b""
    while len(found) < _LONGEST_PATH:
        place = address + len(found)
        piece = os.pread(memory, _PAGE - place % _PAGE, place)
        text, end, _ = piece.partition(b"\0")
        found += text
        if end:
            return found
        if not piece:
            break
    raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))


def _base_of(process: str, fd: int) -> int:
    """Open the folder in which a path begins; an absolute path ignores it."""
    number = fd & 0xFFFFFFFF
    is_current = number == _AT_FDCWD & 0xFFFFFFFF
    return os.open(process + ("/cwd" if is_current else "/fd/%d" % number), _BASE)


def rename_folder(asked: Rename) -> int:
    """Rename a folder as rename(2) would on a plain file system; return the error number or 0."""
    try:
        if asked.flags == _NO_REPLACE and _exists(asked.new, asked.new_base):
            return errno.EEXIST
        _rename(asked.old_base, asked.old, asked.new_base, asked.new)
    except OSError as error:
        if error.errno != errno.EXDEV:
            return error.errno or errno.EIO
    else:
        return 0
    try:
        old_parent, old_name = _parent(asked.old, asked.old_base)
        try:
            new_parent, new_name = _parent(asked.new, asked.new_base)
            try:
                _move(old_parent, old_name, new_parent, new_name)
            finally:
                os.close(new_parent)
        finally:
            os.close(old_parent)
    except OSError as error:
        return error.errno or errno.EIO
    return 0


def _rename(old_base: int, old: bytes, new_base: int, new: bytes) -> None:
    """Rename in the kernel: a sandbox has the filter of its calls, and would be told of its own."""
    kernel.syscall(_RENAMEAT2, old_base, old, new_base, new, 0, seccomp.BY_KERNEL)


def _exists(path: bytes, base: int) -> bool:
    try:
        os.stat(path, dir_fd=base, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _parent(path: bytes, base: int) -> tuple[int, bytes]:
    """Open the folder around a path; return it and the last name."""
    above, slash, name = path.rstrip(b"/").rpartition(b"/")
    return os.open(above or (slash or b"."), _FOLDER, dir_fd=base), name


def _move(old_parent: int, old: bytes, new_parent: int, new: bytes) -> None:
    source = os.open(old, _FOLDER | os.O_NOFOLLOW, dir_fd=old_parent)
    try:
        if kernel.mount_of(source) != kernel.mount_of(new_parent):
            # Two file systems, or two mounts of one: EXDEV is right, as without a layer.
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        if _exists(new, new_parent):
            os.rmdir(new, dir_fd=new_parent)  # rename(2) replaces an empty folder and no other
        _make_alike(source, new_parent, new, _MOST_LEVELS)
        os.rmdir(old, dir_fd=old_parent)
    finally:
        os.close(source)


def _make_alike(source: int, parent: int, name: bytes | str, levels: int) -> None:
    """Make a folder with the entries, mode, owner, times and attributes of another, which empties.

    If that fails, the entries are put back.
    """
    if not levels:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    before = os.fstat(source)
    mode = stat.S_IMODE(before.st_mode)
    os.mkdir(name, 0o700, dir_fd=parent)
    target = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=parent)
    try:
        if mode & stat.S_IRWXU != stat.S_IRWXU:
            # A plain rename asks for no right to write the folder itself.
            os.fchmod(source, mode & ~_MARKS | stat.S_IRWXU)
        try:
            _move_entries(source, target, levels)
        except OSError:
            _move_entries(target, source, levels)
            _set_mode(source, mode)
            os.rmdir(name, dir_fd=parent)
            raise
        for attribute in os.listxattr(source):
            os.setxattr(target, attribute, os.getxattr(source, attribute))
        if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
            _set_owner(target, before.st_uid, before.st_gid)
        _set_mode(target, mode)
        os.utime(target, ns=(before.st_atime_ns, before.st_mtime_ns))
    finally:
        os.close(target)


def _move_entries(source: int, target: int, levels: int) -> None:
    for name in os.listdir(source):
        try:
            _rename(source, os.fsencode(name), target, os.fsencode(name))
        except OSError as error:
            # EACCES: a folder that its owner may not write. To move it with the folder around it is
            # allowed, to move it alone into another is not, rename(2).
            if error.errno not in (errno.EXDEV, errno.EACCES):
                raise
            inner = os.open(name, _FOLDER | os.O_NOFOLLOW, dir_fd=source)
            try:
                _make_alike(inner, target, name, levels - 1)
            finally:
                os.close(inner)
            os.rmdir(name, dir_fd=source)


def _set_mode(folder: int, mode: int) -> None:
    try:
        os.fchmod(folder, mode)
    except PermissionError:
        os.fchmod(folder, mode & ~_MARKS)


def _set_owner(folder: int, user: int, group: int) -> None:
    try:
        os.fchown(folder, user, group)
    except OSError:
        return  # a user who may not give files away owns what it makes
