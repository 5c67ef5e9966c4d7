"""A folder that only its user can have written; checked before it is trusted."""

import fcntl
import os
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from skillpouch.environment import another_place
from skillpouch.trust.errors import GrantStoreError
from skillpouch.untrusted_files import Stamp, stamp_of

_MOST_BYTES = 16 * 1024 * 1024
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_PATIENCE_SECONDS = 10.0
_PAUSE_SECONDS = 0.01


class PrivateFolder:
    """Small files below one folder, each replaced as a whole.

    A folder or file that somebody else owns or may write is refused, as is a folder that
    somebody else could put another one in the place of. Root is nobody else.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._believed: tuple[int, ...] = ()

    def exists(self) -> bool:
        """Tell whether there is such a folder; raise GrantStoreError when it is not private."""
        try:
            status = os.stat(self.path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._refusal(error) from None
        facts = (status.st_dev, status.st_ino, status.st_uid, status.st_mode)
        if facts != self._believed:
            self._check(status)
            self._believed = facts
        return True

    def stamp(self, name: str) -> Stamp:
        """Return what changes when a file does; "" when it is not there."""
        try:
            return stamp_of(os.lstat(f"{self.path}/{name}"))
        except FileNotFoundError:
            return ""
        except OSError as error:
            raise self._refusal(error) from None

    def read(self, name: str) -> bytes | None:
        """Return what a file holds, None when it is not there."""
        path = f"{self.path}/{name}"
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(path, flags)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise self._refusal(error) from None
        with open(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise GrantStoreError(path, "it is not a regular file", hint="remove it")
            _require_private(path, status)
            return file.read(_MOST_BYTES)

    def names(self) -> list[str]:
        """Return the names of all files."""
        return sorted(os.listdir(self.path)) if self.exists() else []

    def write(self, name: str, data: bytes) -> None:
        """Put a file in the place of an earlier one: all of it, or nothing, also after a crash.

        Only inside `locked`.
        """
        # One name for all: only who holds the lock writes, so what is there a crash has left.
        temporary = f"{self.path}/.new"
        try:
            with suppress(FileNotFoundError):
                os.unlink(temporary)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(temporary, flags, 0o600), "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, f"{self.path}/{name}")
            self._sync()
        except OSError as error:
            raise self._refusal(error) from None

    def remove(self, name: str) -> bool:
        """Remove a file, for good; tell whether it was there."""
        try:
            os.unlink(f"{self.path}/{name}")
            self._sync()
        except FileNotFoundError:
            return False
        except OSError as error:
            raise self._refusal(error) from None
        return True

    def set_aside(self, name: str) -> str:
        """Move a file out of the way, where a person can look at it; return where it is now."""
        aside = f"{self.path}/{name}.damaged-{time.time_ns()}"
        try:
            os.rename(f"{self.path}/{name}", aside)
        except OSError:
            return f"{self.path}/{name}"  # it stays, and counts for nothing
        return aside

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder if need be, and keep everybody else from changing it meanwhile."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.mkdir(mode=0o700, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self.exists()
            descriptor = os.open(f"{self.path}/.lock", flags, 0o600)
        except OSError as error:
            raise self._refusal(error) from None
        try:
            self._wait_for(descriptor)
            yield
        finally:
            os.close(descriptor)

    def _wait_for(self, descriptor: int) -> None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > deadline:
                    reason = f"another process has kept it locked for {_PATIENCE_SECONDS:g} s"
                    raise GrantStoreError(str(self.path), reason) from None
                time.sleep(_PAUSE_SECONDS)
            else:
                return

    def _sync(self) -> None:
        # A name is on the disk only when its folder is.
        descriptor = os.open(self.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def _check(self, status: os.stat_result) -> None:
        real = os.path.realpath(self.path)
        if not stat.S_ISDIR(status.st_mode):
            raise GrantStoreError(real, "it is not a folder", hint="move it out of the way")
        _require_private(real, status)
        _require_private(os.path.dirname(real), os.stat(os.path.dirname(real)))
        for above in Path(real).parents:
            there = above.stat()
            if there.st_uid not in (0, os.geteuid()):
                raise GrantStoreError(real, f"{above} belongs to {_owner(there)}")
            if there.st_mode & stat.S_IWOTH and not there.st_mode & stat.S_ISVTX:
                hint = f"chmod o-w {above}"
                raise GrantStoreError(real, f"everybody may write {above}", hint=hint)

    def _refusal(self, error: OSError) -> GrantStoreError:
        reason = (error.strerror or str(error)).lower()
        path = str(error.filename or self.path)
        return GrantStoreError(path, reason, hint=another_place("XDG_STATE_HOME"))


def _require_private(path: str, status: os.stat_result) -> None:
    if status.st_uid not in (0, os.geteuid()):
        hint = "remove it, or set XDG_STATE_HOME to a folder of yours"
        raise GrantStoreError(path, f"it belongs to {_owner(status)}", hint=hint)
    if status.st_mode & _OTHERS_WRITE:
        hint = f"read it first, then: chmod go-w {path}"
        raise GrantStoreError(path, "others may write it", hint=hint)


def _owner(status: os.stat_result) -> str:
    return user_name(status.st_uid)


def user_name(identity: int | None = None) -> str:
    """Return the name of a user, of this process's unless told otherwise, as the system has it."""
    import pwd

    number = os.geteuid() if identity is None else identity
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return f"user {number}"
