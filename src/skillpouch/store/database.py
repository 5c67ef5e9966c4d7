"""A private SQLite file: opened when first needed, never across a fork, with errors explained."""

import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from skillpouch.environment import another_place
from skillpouch.errors import SkillpouchError
from skillpouch.runtime.owners import watch

_Value = TypeVar("_Value")
_LEVEL = 0xFF  # the low byte of an SQLite code is the primary code
_NEXT_STEP = {
    sqlite3.SQLITE_FULL: "make room on the disk",
    sqlite3.SQLITE_READONLY: another_place("XDG_STATE_HOME"),
    sqlite3.SQLITE_CANTOPEN: another_place("XDG_STATE_HOME"),
    sqlite3.SQLITE_BUSY: "another program holds the file: end it, or wait for it",
}

# Makes the error of a package: of the file, the reason and the next step.
Explain = Callable[[Path | None, str, str], SkillpouchError]


@dataclass(frozen=True, slots=True, kw_only=True)
class Format:
    """What is in a file; `application` identifies it as ours.

    `synchronous="FULL"` flushes each commit to the disk: it survives a loss of power. With
    `"NORMAL"` it survives the end of the process. `upgrades` has the statements that make a file
    of an older version one of the next. `if_damaged` and `without_home` are hints.
    """

    file_name: str
    application: int
    version: int
    schema: str
    explain: Explain
    upgrades: Mapping[int, str] = field(default_factory=dict)
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    busy_seconds: float = 10.0
    own_folder: bool = False  # it lies in a folder that nothing else uses: only we can open it
    if_damaged: str = ""
    without_home: str = "set XDG_STATE_HOME"


def private_folder(path: Path) -> int:
    """Make a folder that only this user can open; return a descriptor of it.

    Raises OSError: PermissionError for a folder of another user, NotADirectoryError for a link.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(path, flags)
    try:
        found = os.fstat(descriptor)
        if found.st_uid != os.geteuid():
            raise PermissionError(1, "it belongs to another user", str(path))  # noqa: TRY301
        if stat.S_IMODE(found.st_mode) & 0o077:
            os.fchmod(descriptor, 0o700)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


class Database:
    """One file, shared by threads and processes; nothing is opened before it is needed.

    Changes inside a `change` are made together: they are committed when the outermost one ends.
    """

    def __init__(self, directory: Path | None, form: Format) -> None:
        self._directory = directory
        self._format = form
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None
        self._inode = (0, 0)
        self._depth = 0
        watch(self)

    @property
    def path(self) -> Path | None:
        """The file, None without a home directory."""
        return None if self._directory is None else self._directory / self._format.file_name

    @property
    def exists(self) -> bool:
        """Whether there is a file: reading from none would make it."""
        return self.path is not None and self.path.exists()

    def read(self, query: Callable[[sqlite3.Connection], _Value]) -> _Value:
        """Return what a query finds."""
        with self._lock, self._explained():
            return query(self._connected())

    @contextmanager
    def change(self) -> Iterator[sqlite3.Connection]:
        """Make changes in one transaction; the block of an outer `change` is the transaction."""
        with self._lock, self._explained():
            connection = self._connected()
            if self._depth == 0:
                connection.execute("BEGIN IMMEDIATE")
            self._depth += 1
            try:
                yield connection
            except BaseException:
                self._depth -= 1
                if self._depth == 0 and connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
            self._depth -= 1
            if self._depth == 0:
                self._commit(connection)

    @staticmethod
    def _commit(connection: sqlite3.Connection) -> None:
        try:
            connection.execute("COMMIT")
        except sqlite3.Error:
            # A full disk leaves the transaction open, and the next one could not begin.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        with self._lock:
            self._disconnect()

    def before_fork(self) -> None:
        """Close the file: a connection that two processes share damages it."""
        self._lock.acquire()
        self._disconnect()

    def after_fork(self, *, child: bool) -> None:
        """Go on after a fork."""
        if child:
            self._lock = threading.RLock()
            self._depth = 0
        else:
            self._lock.release()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        explain, path = self._format.explain, self.path
        try:
            yield
        except sqlite3.Error as error:
            if self._depth == 0:
                self._disconnect()
            kind = getattr(error, "sqlite_errorcode", 0) & _LEVEL
            hint = _NEXT_STEP.get(kind, self._format.if_damaged)
            raise explain(path, str(error), hint) from error
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise explain(path, reason, another_place("XDG_STATE_HOME")) from None

    def _connected(self) -> sqlite3.Connection:
        path = self.path
        if path is None or self._directory is None:
            raise self._format.explain(
                None, "there is no home directory", self._format.without_home
            )
        if self._connection is not None and not self._depth and self._inode != _inode_of(path):
            self._disconnect()  # somebody moved the file away: rows for it would be lost
        if self._connection is None:
            if self._format.own_folder:
                os.close(private_folder(self._directory))
            else:
                self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _make_private(path, self._format)
            self._connection = _open(path, self._format)
            self._inode = _inode_of(path)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _inode_of(path: Path) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (0, 0)
    return found.st_dev, found.st_ino


def _make_private(path: Path, form: Format) -> None:
    # SQLite gives its other two files the mode of the first. An existing file is not opened here:
    # when a process closes a file, it loses all its locks on it, SQLite's too, fcntl_locking(2).
    try:
        found = path.lstat()
    except FileNotFoundError:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(path, flags, 0o600))
        return
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        raise form.explain(path, "it is not a file that belongs to you", "move it out of the way")
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o600)


def _open(path: Path, form: Format) -> sqlite3.Connection:
    # One connection for all threads: the lock of `Database` protects it.
    connection = sqlite3.connect(
        path, timeout=form.busy_seconds, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(f"PRAGMA synchronous = {form.synchronous}")
        _check(connection, path, form)
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, path: Path, form: Format) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if not application:
        _create(connection, form)
        (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != form.application:
        hint = "move it out of the way"
        raise form.explain(path, "it is a database of another program", hint)
    if version > form.version:
        reason = f"a newer Skillpouch wrote it (format {version})"
        raise form.explain(path, reason, "upgrade this Skillpouch")
    if version < form.version:
        _upgrade(connection, form)


def _upgrade(connection: sqlite3.Connection, form: Format) -> None:
    connection.execute("BEGIN IMMEDIATE")
    try:
        # Read again: another process may have done it while this one waited.
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        for older in range(version, form.version):
            for statement in form.upgrades[older].split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {form.version}")
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _create(connection: sqlite3.Connection, form: Format) -> None:
    connection.execute("BEGIN IMMEDIATE")
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if not tables:  # otherwise another process made them while this one waited
        for statement in form.schema.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {form.application}")
        connection.execute(f"PRAGMA user_version = {form.version}")
    connection.execute("COMMIT")
