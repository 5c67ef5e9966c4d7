"""The journal's SQLite file: opens it privately, repairs it when damaged, explains its errors."""

import fcntl
import os
import sqlite3
import stat
import time
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from skillpouch.environment import another_place
from skillpouch.errors import SkillpouchError
from skillpouch.journal.records import END_COLUMNS, START_COLUMNS
from skillpouch.runtime.owners import ProcessIdentity

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_LEVEL = 0xFF  # the low byte of an SQLite code is the primary code
_NEXT_STEP = {
    sqlite3.SQLITE_FULL: "make room on the disk; `skillpouch journal prune` makes it smaller",
    sqlite3.SQLITE_READONLY: another_place("XDG_STATE_HOME"),
    sqlite3.SQLITE_CANTOPEN: another_place("XDG_STATE_HOME"),
    sqlite3.SQLITE_BUSY: "another program holds the file: end it, or wait for it",
}


class JournalWarning(UserWarning):
    """Calls go on, but are not recorded; or a damaged journal was moved aside."""


class JournalError(SkillpouchError):
    """The journal cannot be used, but is required."""

    code = "journal_unavailable"

    def __init__(self, path: Path | None, reason: str, *, hint: str = "") -> None:
        self.path = path
        self.reason = reason
        where = path or "the journal"
        super().__init__(f"{where} cannot be used: {reason}", hint=hint)


class DamagedJournalError(JournalError):
    """The file is damaged, in whole or in part."""

    code = "journal_damaged"


class NoSuchCallError(SkillpouchError):
    code = "no_such_call"

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(
            f"no call {number} in the journal", hint="`skillpouch journal` shows the latest"
        )


def warn_of_journal(message: str) -> None:
    """Issue a Python warning: shown on standard error, unless filtered."""
    warnings.warn(JournalWarning(message), stacklevel=2)


def explain(path: Path, error: Exception) -> JournalError:
    """Return what an error of SQLite or of the file system means for the journal."""
    if isinstance(error, JournalError):
        return error
    if isinstance(error, OSError):
        reason = error.strerror or str(error)
        return JournalError(path, reason, hint=another_place("XDG_STATE_HOME"))
    kind = getattr(error, "sqlite_errorcode", 0) & _LEVEL
    if kind in _DAMAGED:
        return DamagedJournalError(path, str(error), hint="it is set aside at the next call")
    return JournalError(path, str(error), hint=_NEXT_STEP.get(kind, ""))


FILE_NAME = "journal.sqlite3"
_APPLICATION = 0x736B706A  # "skpj": identifies our files
_VERSION = 1
# Columns that the first journals did not have.
_LATER = {"parent", "writes", "changes", "changes_total", "call_id"}
_BUSY_SECONDS = 1.0
_ALONE_SECONDS = 2.0
_WHO = "end the process that was stopped while it opened the journal"
# A last resort: upkeep moves the write-ahead log into the file long before this.
_AUTOCHECKPOINT_PAGES = 8000
_LOG_BYTES = 16 * 1024 * 1024

_SCHEMA = f"""
CREATE TABLE owners (
    id INTEGER PRIMARY KEY, pid INTEGER, began TEXT, boot TEXT, namespace TEXT,
    machine TEXT
);
CREATE TABLE calls (id INTEGER PRIMARY KEY, {", ".join(START_COLUMNS)},
    {", ".join(END_COLUMNS)}
);
CREATE TABLE upkeep (done_ns INTEGER);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
"""
_OPENING = (
    # Lets the file shrink step by step. It must come first: later it has no effect on a new file.
    "PRAGMA auto_vacuum = INCREMENTAL",
    "PRAGMA journal_mode = WAL",
    # A killed process loses no committed row. A machine that loses power may lose the last rows,
    # never the file: FULL would prevent that, but costs a disk flush per row.
    "PRAGMA synchronous = NORMAL",
    f"PRAGMA wal_autocheckpoint = {_AUTOCHECKPOINT_PAGES}",
    f"PRAGMA journal_size_limit = {_LOG_BYTES}",
)


def open_store(directory: Path) -> sqlite3.Connection:
    """Return a connection to the journal in a directory; creates both if they are missing.

    A fork while it is open would damage the file: see `Journal`.
    """
    _make_private_directory(directory)
    with alone(directory):
        return open_while_alone(directory)


def open_while_alone(directory: Path) -> sqlite3.Connection:
    """Do what `open_store` does, for a caller that is inside `alone`."""
    path = directory / FILE_NAME
    _make_private(path)
    connection = _connect(path)
    try:
        for line in _OPENING:
            connection.execute(line)
        _check_version(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Keep other processes from opening or replacing the journal inside this block."""
    path = directory / "journal.lock"
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    handle = os.open(path, flags, 0o600)
    try:
        _lock(handle, path)
        yield
    finally:
        os.close(handle)


def _lock(handle: int, path: Path) -> None:
    deadline = time.monotonic() + _ALONE_SECONDS
    while True:
        try:
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise JournalError(path, "another process holds it", hint=_WHO) from None
            time.sleep(0.01)


def open_existing(directory: Path) -> sqlite3.Connection | None:
    """Return a connection that only reads, or None when there is no journal yet."""
    path = directory / FILE_NAME
    if not path.exists():
        return None
    connection = _connect(path)
    try:
        if _is_empty(connection):
            connection.close()
            return None
        _add_columns(connection)
        connection.execute("PRAGMA query_only = 1")
        _refuse_others(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def add_owner(connection: sqlite3.Connection, owner: ProcessIdentity) -> int:
    """Record a process and return its number."""
    query = "INSERT INTO owners (pid, began, boot, namespace, machine) VALUES (?, ?, ?, ?, ?)"
    number = connection.execute(query, owner).lastrowid
    assert number is not None
    return number


def _connect(path: Path) -> sqlite3.Connection:
    # One connection for all threads: the caller's lock protects it. `mode=rw` never creates the
    # file, which would not be private then.
    return sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=rw",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )


def _make_private_directory(directory: Path) -> None:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = directory.stat()
    if found.st_uid != os.geteuid():
        raise JournalError(directory, "it belongs to another user")
    if stat.S_IMODE(found.st_mode) & 0o077:
        directory.chmod(0o700)


def _make_private(path: Path) -> None:
    # SQLite gives its other two files the mode of the first. An existing file is not opened here:
    # when a process closes a file, it loses all its locks on it, SQLite's too, fcntl_locking(2).
    try:
        found = path.lstat()
    except FileNotFoundError:
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        return
    if not stat.S_ISREG(found.st_mode):
        raise JournalError(path, "it is not a file", hint="move it out of the way")
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o600)


def _check_version(connection: sqlite3.Connection, path: Path) -> None:
    if _is_empty(connection):
        _create(connection)
    _add_columns(connection)
    _refuse_others(connection, path)


def _is_empty(connection: sqlite3.Connection) -> bool:
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return bool(tables == 0)


def _create(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN IMMEDIATE")
    if _is_empty(connection):  # another process may have created them while this one waited
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
    connection.execute("COMMIT")


def _add_columns(connection: sqlite3.Connection) -> None:
    """Add newer columns to our journal; older versions of Skillpouch ignore them."""
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    found = {row[1] for row in connection.execute("PRAGMA table_info(calls)")}
    if application != _APPLICATION or not found or found >= _LATER:
        return
    connection.execute("BEGIN IMMEDIATE")
    found = {row[1] for row in connection.execute("PRAGMA table_info(calls)")}
    for column in sorted(_LATER - found):  # another process may have added some meanwhile
        connection.execute(f"ALTER TABLE calls ADD COLUMN {column}")
    connection.execute("COMMIT")


def _refuse_others(connection: sqlite3.Connection, path: Path) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION:
        raise JournalError(
            path, "it is a database of another program", hint="move it out of the way"
        )
    if version > _VERSION:
        raise JournalError(
            path, f"a newer Skillpouch wrote it (format {version})", hint="upgrade this Skillpouch"
        )
    for table, columns in (("calls", {*START_COLUMNS, *END_COLUMNS}), ("owners", {"pid", "began"})):
        found = {row[1] for row in connection.execute(f"PRAGMA table_info({table})")}
        if not columns <= found:
            raise DamagedJournalError(path, f"its table {table!r} is not whole")


ASIDE = "journal-damaged-"
_SUFFIXES = ("", "-wal", "-shm")
_MOST_ROWS = 20_000  # copied from either end: bounded, because a call waits for it


def set_aside(directory: Path, inode: int | None = None) -> str:
    """Move the damaged file aside, and return a message about it.

    Does nothing and returns "" when another process has done so already, which shows by another
    inode.
    """
    path = directory / FILE_NAME
    with alone(directory):
        if not path.exists() or inode not in (None, path.stat().st_ino):
            return ""
        aside = _free_name(directory)
        for suffix in _SUFFIXES:
            part = Path(f"{path}{suffix}")
            if part.exists():
                part.rename(f"{aside}{suffix}")
        carried, complete = _carry_over(aside, directory)
    calls = f"{carried} of its calls were" if carried != 1 else "1 of its calls was"
    rest = "" if complete else "; others may be readable in it"
    return f"{path} was damaged and is kept as {aside.name}: {calls} carried over{rest}"


def _free_name(directory: Path) -> Path:
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    number = 1
    while (aside := directory / f"{ASIDE}{stamp}-{number}.sqlite3").exists():
        number += 1
    return aside


def _carry_over(aside: Path, directory: Path) -> tuple[int, bool]:
    """Copy the readable rows: forwards to the first damaged one, then backwards to the last."""
    with closing(open_while_alone(directory)) as target:
        try:
            source = sqlite3.connect(aside, isolation_level=None)
        except sqlite3.Error:
            return 0, False
        with closing(source):
            source.text_factory = lambda raw: raw.decode(errors="replace")
            owners = ("id", *ProcessIdentity._fields)
            _copy(source, target, "owners", owners)
            columns = _columns_of(source, ("id", *START_COLUMNS, *END_COLUMNS))
            complete = _copy(source, target, "calls", columns)
            if not complete:
                _copy(source, target, "calls", columns, order="DESC")
        (carried,) = target.execute("SELECT count(*) FROM calls").fetchone()
        return carried, complete


def _columns_of(source: sqlite3.Connection, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Return the wanted columns that a journal has, which may be older; all if that is unknown."""
    try:
        found = {row[1] for row in source.execute("PRAGMA table_info(calls)")}
    except sqlite3.Error:
        return wanted
    return tuple(column for column in wanted if column in found) or wanted


def _copy(
    source: sqlite3.Connection,
    target: sqlite3.Connection,
    table: str,
    columns: tuple[str, ...],
    order: str = "ASC",
) -> bool:
    """Copy the rows of a table; tell whether all of them were copied."""
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    select = f"SELECT {names} FROM {table} ORDER BY id {order} LIMIT {_MOST_ROWS}"  # noqa: S608
    insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - our own names
    copied = 0
    target.execute("BEGIN IMMEDIATE")
    try:
        for row in source.execute(select):
            target.execute(insert, row)
            copied += 1
    except sqlite3.Error:
        return False
    finally:
        target.execute("COMMIT")
    return copied < _MOST_ROWS
