"""The file of sessions: made private, opened, and of a version this code knows."""

import os
import sqlite3
import stat
from pathlib import Path

from skillpouch.sessions.errors import SessionStoreError

FILE_NAME = "sessions.sqlite3"
_APPLICATION = 0x736B7073  # "skps": tells our file from somebody else's
_VERSION = 1
_BUSY_SECONDS = 10.0  # many sessions change at once, and none of them should fail for that
_SCHEMA = f"""
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, created_ns INTEGER, workspace TEXT, owned INTEGER, own_policy INTEGER,
    version INTEGER, ending INTEGER
) WITHOUT ROWID;
CREATE TABLE texts (hash TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID;
CREATE TABLE skills (
    id INTEGER PRIMARY KEY, session TEXT, name TEXT, hash TEXT, UNIQUE (session, name)
);
CREATE INDEX texts_used ON skills (hash);
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {_VERSION};
"""


def open_database(directory: Path) -> sqlite3.Connection:
    """Return a connection to the sessions in a directory; both are made if need be."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = directory / FILE_NAME
    _make_private(path)
    connection = sqlite3.connect(
        path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        _check(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


def _make_private(path: Path) -> None:
    # SQLite gives its other two files the mode of the first.
    try:
        found = path.lstat()
    except FileNotFoundError:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        os.close(os.open(path, flags, 0o600))
        return
    if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
        raise SessionStoreError(path, "it is not a file of yours", hint="move it out of the way")
    if stat.S_IMODE(found.st_mode) & 0o077:
        path.chmod(0o600)


def _check(connection: sqlite3.Connection, path: Path) -> None:
    connection.execute("BEGIN IMMEDIATE")
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if not tables:
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
    connection.execute("COMMIT")
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if application != _APPLICATION:
        hint = "move it out of the way"
        raise SessionStoreError(path, "it is somebody else's database", hint=hint)
    if version > _VERSION:
        reason = f"a newer Skillpouch wrote it (format {version})"
        raise SessionStoreError(path, reason, hint="upgrade this Skillpouch")
