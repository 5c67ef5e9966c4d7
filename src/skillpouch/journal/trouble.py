"""What is said when the journal cannot be written or read."""

import sqlite3
import warnings
from pathlib import Path

from skillpouch.environment import another_place
from skillpouch.errors import SkillpouchError

_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_LEVEL = 0xFF  # the low byte of a code is the kind, the rest says more
_NEXT_STEP = {
    sqlite3.SQLITE_FULL: "make room on the disk; `skillpouch journal prune` makes it smaller",
    sqlite3.SQLITE_READONLY: another_place("XDG_STATE_HOME"),
    sqlite3.SQLITE_CANTOPEN: another_place("XDG_STATE_HOME"),
    sqlite3.SQLITE_BUSY: "another program holds the file: end it, or wait for it",
}


class JournalWarning(UserWarning):
    """Calls go on, but are not on record; or a damaged journal was set aside."""


class JournalError(SkillpouchError):
    """The journal cannot be used, and it was asked for."""

    code = "journal_unavailable"

    def __init__(self, path: Path | None, reason: str, *, hint: str = "") -> None:
        self.path = path
        self.reason = reason
        where = path or "the journal"
        super().__init__(f"{where} cannot be used: {reason}", hint=hint)


class DamagedJournalError(JournalError):
    """The file is no journal any more, or not all of it."""

    code = "journal_damaged"


class NoSuchCallError(SkillpouchError):
    code = "no_such_call"

    def __init__(self, number: int) -> None:
        self.number = number
        super().__init__(
            f"no call {number} in the journal", hint="`skillpouch journal` shows the latest"
        )


def warn_of_journal(message: str) -> None:
    """Say it the way Python says warnings: on standard error, unless told otherwise."""
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
