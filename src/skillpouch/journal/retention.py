"""Keeps the journal small: removes old calls in small steps, on its own thread."""

import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from skillpouch.journal.store import ASIDE, FILE_NAME, JournalError, open_store

_DAY_NS = 24 * 3600 * 10**9
_CALLS_BETWEEN = 2000
_STEP_ROWS = 500  # in one transaction: a call that wants to write waits for one step only
_STEP_PAGES = 256
_LOOK_EVERY = 1000  # instructions of SQLite: some microseconds
_EXIT_SECONDS = 1.0
_ENOUGH = 0.9  # of the bound: not to begin again at the next call


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long and how much is kept; the oldest calls go first."""

    days: float = 30
    megabytes: float = 256


class Upkeep:
    """Starts the upkeep of one journal when it is due: at most once in two thousand calls."""

    def __init__(
        self,
        directory: Path | None,
        retention: Retention,
        tell: Callable[[Exception], None] = lambda _: None,
    ) -> None:
        self._tell = tell
        self._directory = directory
        self._retention = retention
        self._calls = 0
        self._busy = threading.Lock()
        self._pausing = False

    def look(self, connection: sqlite3.Connection) -> None:
        """Look, when the journal is opened, whether a day has passed: many programs are short."""
        if _is_due(connection):
            self._calls = _CALLS_BETWEEN

    def pause(self) -> None:
        """Wait until nothing is done, and let nothing begin."""
        self._pausing = True
        self._busy.acquire()

    def wait(self) -> None:
        """Give upkeep that has begun a moment to end, before the process does."""
        if self._busy.acquire(timeout=_EXIT_SECONDS):
            self._busy.release()

    def resume(self) -> None:
        """Let upkeep begin again, after a pause."""
        self._pausing = False
        self._busy.release()

    def count(self) -> None:
        """Count a call."""
        self._calls += 1
        if self._calls >= _CALLS_BETWEEN and self._busy.acquire(blocking=False):
            self._calls = 0
            threading.Thread(target=self._run, name="skillpouch-journal", daemon=True).start()

    def _run(self) -> None:
        trouble: Exception | None = None
        try:
            if self._directory is not None:
                keep_small(self._directory, self._retention, lambda: self._pausing)
        except (sqlite3.Error, OSError, JournalError) as error:
            trouble = error
        finally:
            self._busy.release()
        if trouble is not None:
            self._tell(trouble)


def keep_small(
    directory: Path, retention: Retention, is_stopped: Callable[[], bool] = lambda: False
) -> None:
    """Move the write-ahead log into the file, and once a day, or when it is too big, prune."""
    with closing(open_store(directory)) as connection:
        connection.set_progress_handler(is_stopped, _LOOK_EVERY)
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        if _is_due(connection) or _used_bytes(connection) > retention.megabytes * 1e6:
            _prune(connection, directory, retention)


def _is_due(connection: sqlite3.Connection) -> bool:
    (last,) = connection.execute("SELECT max(done_ns) FROM upkeep").fetchone()
    now = time.time_ns()
    return last is None or not now - _DAY_NS < last <= now


def prune(directory: Path, retention: Retention) -> int:
    """Remove what is too old or too much, now; return how many calls went."""
    if not (directory / FILE_NAME).exists():
        return 0
    with closing(open_store(directory)) as connection:
        return _prune(connection, directory, retention)


def _prune(connection: sqlite3.Connection, directory: Path, retention: Retention) -> int:
    oldest = time.time_ns() - int(retention.days * _DAY_NS)
    removed = _remove_older(connection, oldest)
    limit = retention.megabytes * 1e6
    if _used_bytes(connection) > limit:
        while _used_bytes(connection) > limit * _ENOUGH and (gone := _remove(connection, 2**62)):
            removed += gone
    # The newest stays: it may be of a process that has just begun and has no call yet.
    connection.execute(
        "DELETE FROM owners WHERE id NOT IN (SELECT owner FROM calls)"
        " AND id < (SELECT max(id) FROM owners) - 100"
    )
    _shrink(connection)
    connection.execute("DELETE FROM upkeep")
    connection.execute("INSERT INTO upkeep VALUES (?)", (time.time_ns(),))
    _remove_set_aside(directory, oldest)
    return removed


def _remove_older(connection: sqlite3.Connection, oldest_ns: int) -> int:
    query = "SELECT id FROM calls WHERE started_ns >= ? ORDER BY id LIMIT 1"
    first = connection.execute(query, (oldest_ns,)).fetchone()
    removed = 0
    while gone := _remove(connection, first[0] if first else 2**62):
        removed += gone
    return removed


def _remove(connection: sqlite3.Connection, before: int) -> int:
    # The newest call stays, whatever its age: a number is never used again, without the second
    # page that AUTOINCREMENT would write at every call.
    oldest = "SELECT id FROM calls WHERE id < min(?, (SELECT max(id) FROM calls)) LIMIT ?"
    query = f"DELETE FROM calls WHERE id IN ({oldest})"  # noqa: S608 - both ours
    return connection.execute(query, (before, _STEP_ROWS)).rowcount


def _shrink(connection: sqlite3.Connection) -> None:
    free = -1
    while (left := connection.execute("PRAGMA freelist_count").fetchone()[0]) and left != free:
        free = left
        connection.execute(f"PRAGMA incremental_vacuum({_STEP_PAGES})").fetchall()
    connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _used_bytes(connection: sqlite3.Connection) -> int:
    (pages,) = connection.execute("PRAGMA page_count").fetchone()
    (free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    return int((pages - free) * size)


def _remove_set_aside(directory: Path, oldest_ns: int) -> None:
    for path in directory.glob(f"{ASIDE}*"):
        if path.stat().st_mtime_ns < oldest_ns:
            path.unlink()
