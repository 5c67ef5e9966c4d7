"""Sessions on disk: their workspaces, and the texts of the skills they use."""

import os
import secrets
import sqlite3
import time
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from skillpouch.environment import another_place, data_directory
from skillpouch.runtime.removal import remove_tree
from skillpouch.sessions.errors import (
    SessionExistsError,
    SessionFilesError,
    SessionStoreError,
    UnknownSessionError,
)
from skillpouch.store.database import Database, Format

_SCHEMA = """
CREATE TABLE sessions (
    id TEXT PRIMARY KEY, created_ns INTEGER, workspace TEXT, owned INTEGER, own_policy INTEGER,
    version INTEGER, ending INTEGER, owner TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE TABLE texts (hash TEXT PRIMARY KEY, text TEXT) WITHOUT ROWID;
CREATE TABLE skills (
    id INTEGER PRIMARY KEY, session TEXT, name TEXT, hash TEXT, UNIQUE (session, name)
);
CREATE INDEX texts_used ON skills (hash);
"""
_FORMAT = Format(
    file_name="sessions.sqlite3",
    application=0x736B7073,  # "skps"
    version=2,
    schema=_SCHEMA,
    upgrades={1: "ALTER TABLE sessions ADD COLUMN owner TEXT NOT NULL DEFAULT ''"},
    explain=lambda path, reason, hint: SessionStoreError(path, reason, hint=hint),
    if_damaged="move it away, with its -wal and -shm; sessions then begin anew",
    without_home="set XDG_STATE_HOME, or pass SessionManager(directory=…)",
)
_COLUMNS = "workspace, owned, own_policy, version, created_ns, owner"
_READ = f"SELECT {_COLUMNS} FROM sessions WHERE id = ? AND NOT ending"  # noqa: S608 - our own names


def new_workspace(root: Path | None, session_id: str) -> Path:
    """Make an empty folder that no session had before."""
    base = root or data_directory()
    if base is None:
        hint = "set XDG_DATA_HOME, or pass SessionManager(workspaces=…)"
        raise SessionFilesError(None, "there is no home directory", hint=hint)
    base = base if root else base / "workspaces"
    # The random part keeps a new session from the files that a killed process left.
    path = base / f"{session_id}-{secrets.token_hex(6)}"
    try:
        base.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.mkdir(mode=0o700)
    except OSError as error:
        hint = "" if root else another_place("XDG_DATA_HOME")
        reason = f"cannot be made: {error.strerror or error}"
        raise SessionFilesError(path, reason, hint=hint) from None
    return Path(os.path.realpath(path))


def remove_folder(path: Path) -> None:
    """Remove a folder with everything that tools left in it."""
    try:
        remove_tree(path)
    except OSError as error:
        reason = f"cannot be removed: {error.strerror or error}".lower()
        raise SessionFilesError(path, reason, hint="check the permissions of its folders") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A session as it is on disk. Each change raises `version`; `owned`: we made its workspace.

    `owner` is who made it, if an entry point says so; "" is the user.
    """

    id: str
    workspace: Path
    owned: bool
    own_policy: bool
    version: int
    created_ns: int
    owner: str = ""


class SessionStore:
    """One file, shared by threads and processes; nothing is opened before it is needed.

    Each change is committed when its method returns.
    """

    def __init__(self, directory: Path | None) -> None:
        self._database = Database(directory, _FORMAT)
        self._change = self._database.change
        self._read = self._database.read

    def add(
        self, session_id: str, workspace: Path, *, owned: bool, own_policy: bool, owner: str = ""
    ) -> None:
        """Add a session; raise SessionExistsError when there is one of that name."""
        row = (session_id, time.time_ns(), str(workspace), owned, own_policy, owner)
        with self._change() as connection:
            try:
                connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, 1, 0, ?)", row)
            except sqlite3.IntegrityError:
                raise SessionExistsError(session_id) from None

    def get(self, session_id: str) -> Row:
        """Return a session; raise UnknownSessionError when it is unknown or being destroyed."""
        found = self._read(lambda c: c.execute(_READ, (session_id,)).fetchone())
        if found is None:
            raise UnknownSessionError(session_id)
        workspace, owned, own_policy, version, created_ns, owner = found
        return Row(
            id=session_id,
            workspace=Path(workspace),
            owned=bool(owned),
            own_policy=bool(own_policy),
            version=version,
            created_ns=created_ns,
            owner=owner,
        )

    def names(self) -> list[str]:
        """Return all sessions, the oldest first."""
        query = "SELECT id FROM sessions WHERE NOT ending ORDER BY created_ns, id"
        return [name for (name,) in self._read(lambda c: c.execute(query).fetchall())]

    def skills(self, session_id: str) -> dict[str, str]:
        """Return the skills that a session uses, with their texts, in the order of their use."""
        query = (
            "SELECT name, text FROM skills JOIN texts USING (hash) WHERE session = ?"
            " ORDER BY skills.id"
        )
        return dict(self._read(lambda c: c.execute(query, (session_id,)).fetchall()))

    def put_skill(self, session_id: str, name: str, text: str) -> int:
        """Store a skill of a session; return the session's new version."""
        key = sha256(text.encode()).hexdigest()
        with self._change() as connection:
            version = _next_version(connection, session_id)
            before = _texts_of(connection, session_id, name)
            connection.execute("INSERT OR IGNORE INTO texts VALUES (?, ?)", (key, text))
            connection.execute(
                "INSERT INTO skills (session, name, hash) VALUES (?, ?, ?)"
                " ON CONFLICT (session, name) DO UPDATE SET hash = excluded.hash",
                (session_id, name, key),
            )
            _drop_unused(connection, before)
        return version

    def drop_skill(self, session_id: str, name: str) -> int:
        """Remove a skill of a session; return the session's new version."""
        with self._change() as connection:
            version = _next_version(connection, session_id)
            before = _texts_of(connection, session_id, name)
            connection.execute(
                "DELETE FROM skills WHERE session = ? AND name = ?", (session_id, name)
            )
            _drop_unused(connection, before)
        return version

    def mark_policy(self, session_id: str) -> int:
        """Record that a session has its own policy; return the session's new version."""
        with self._change() as connection:
            version = _next_version(connection, session_id)
            connection.execute("UPDATE sessions SET own_policy = 1 WHERE id = ?", (session_id,))
        return version

    def begin_end(self, session_id: str) -> None:
        """Hide a session from all lookups; its files are removed next, and its row last."""
        with self._change() as connection:
            connection.execute("UPDATE sessions SET ending = 1 WHERE id = ?", (session_id,))

    def ending(self) -> dict[str, Path | None]:
        """Return sessions that are being destroyed, with the workspaces to remove."""
        query = "SELECT id, workspace, owned FROM sessions WHERE ending"
        rows = self._read(lambda c: c.execute(query).fetchall())
        return {name: Path(workspace) if owned else None for name, workspace, owned in rows}

    def remove(self, session_id: str) -> None:
        """Remove every row of a session."""
        with self._change() as connection:
            before = _texts_of(connection, session_id, "%")
            connection.execute("DELETE FROM skills WHERE session = ?", (session_id,))
            connection.execute("DELETE FROM sessions WHERE id = ?", (session_id,))
            _drop_unused(connection, before)

    def close(self) -> None:
        """Close the file; the next use opens it again."""
        self._database.close()


def _next_version(connection: sqlite3.Connection, session_id: str) -> int:
    query = (
        "UPDATE sessions SET version = version + 1 WHERE id = ? AND NOT ending RETURNING version"
    )
    found = connection.execute(query, (session_id,)).fetchone()
    if found is None:
        raise UnknownSessionError(session_id)
    return int(found[0])


def _texts_of(connection: sqlite3.Connection, session_id: str, name: str) -> list[str]:
    """Return the hash of the text of one skill of a session; "%" stands for all its skills."""
    query = "SELECT hash FROM skills WHERE session = ? AND ? IN (name, '%')"
    return [key for (key,) in connection.execute(query, (session_id, name))]


def _drop_unused(connection: sqlite3.Connection, keys: list[str]) -> None:
    query = (
        "DELETE FROM texts WHERE hash = ?"
        " AND NOT EXISTS (SELECT 1 FROM skills WHERE skills.hash = texts.hash)"
    )
    connection.executemany(query, [(key,) for key in keys])
