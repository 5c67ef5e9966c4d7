"""The journal: one record per call, written before it starts and when it ends, kept for a while."""

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from skillpouch.environment import state_directory
from skillpouch.journal.records import (
    INSERT_ALL,
    INSERT_START,
    UPDATE,
    CallEnd,
    Row,
    Started,
    end_row,
    start_row,
)
from skillpouch.journal.store import (
    ASIDE,
    FILE_NAME,
    DamagedJournalError,
    JournalError,
    add_owner,
    explain,
    open_store,
    set_aside,
    warn_of_journal,
)
from skillpouch.runtime.owners import this_process, watch

_DAY_NS = 24 * 3600 * 10**9
_CALLS_BETWEEN = 2000
_STEP_ROWS = 500  # per transaction, so that a call that wants to write waits for one step only
_STEP_PAGES = 256
_LOOK_EVERY = 1000  # instructions of SQLite between checks for a pause: some microseconds
_EXIT_SECONDS = 1.0
_ENOUGH = 0.9  # prune to this share of the limit, so that the next call does not start again


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """How long and how much is kept; the oldest calls are removed first."""

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
        """Start upkeep at the next call if a day has passed: many programs make few calls."""
        if _is_due(connection):
            self._calls = _CALLS_BETWEEN

    def pause(self) -> None:
        """Wait until no upkeep is running, and let none begin."""
        self._pausing = True
        self._busy.acquire()

    def wait(self) -> None:
        """Give running upkeep a moment to end before the process ends."""
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
    """Move the write-ahead log into the file; prune once a day, or when the file is too big."""
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
    """Remove calls that are too old or too many, now; return how many."""
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
    # The newest owners stay: their processes may have just begun and have no call yet.
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
    # The newest call is never removed, so that its number is not used again. AUTOINCREMENT would do
    # the same, but writes a second page for every call.
    oldest = "SELECT id FROM calls WHERE id < min(?, (SELECT max(id) FROM calls)) LIMIT ?"
    query = f"DELETE FROM calls WHERE id IN ({oldest})"  # noqa: S608 - our own texts
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


class Journal:
    """The record of calls in a directory; nothing is opened before the first call.

    One journal serves any number of threads, and any number of processes share a directory. When it
    cannot be written, `warn` reports that once and calls go on; with `required` it is a
    `JournalError` instead. Each record is committed when the method that writes it returns.
    """

    # Each call commits by itself. Measured on a loaded machine, both commits of a call take 36 to
    # 52 µs; with one thread that commits for all callers, 55 to 300 µs, and 64 callers made between
    # 20 % fewer and 50 % more calls per second.

    def __init__(
        self,
        directory: Path | None,
        *,
        required: bool = False,
        retention: Retention | None = None,
        warn: Callable[[str], None] = warn_of_journal,
    ) -> None:
        self._connection: sqlite3.Connection | None = None
        self._directory = directory
        self._required = required
        self._warn = warn
        self._retention = retention or Retention()
        self._upkeep = Upkeep(directory, self._retention, self._hear_of)
        self._complained = False
        self._impatient = False
        self._to_say: list[str] = []
        self._file = ""
        self._inode = 0
        self._begin()
        watch(self)

    @property
    def directory(self) -> Path | None:
        """The directory that another `Journal` takes to write the same records."""
        return self._directory

    def started(self, facts: Started) -> int:
        """Record that a call starts; return its number, for `ended`.

        A negative number means that the call could not be recorded; `ended` tries again.
        """
        row = start_row(facts)
        with self._lock:
            number = self._try(lambda: self._insert(INSERT_START, row))
            if number is None:
                self._unwritten -= 1
                number = self._unwritten
            self._running[number] = row
        self._say()
        return number

    def ended(self, number: int, facts: CallEnd) -> None:
        """Record how a call ended. Its result may be returned to the caller after this."""
        end = end_row(facts)
        with self._lock:
            start = self._running.pop(number, None)
            # None: the call has ended before, or belongs to the parent of this forked process.
            if start is not None:
                self._try(lambda: self._complete(number, start, end))
        self._say()
        self._upkeep.count()

    def as_required(self) -> "Journal":
        """Return a journal of the same directory that raises when it cannot be written."""
        if self._required:
            return self
        return Journal(self._directory, required=True, retention=self._retention, warn=self._warn)

    def close(self) -> None:
        """Close the file; the next call opens it again."""
        self._upkeep.wait()
        with self._lock:
            self._disconnect()

    def __del__(self) -> None:
        self._disconnect()

    def before_fork(self) -> None:
        """Close the file: a connection that two processes share damages it."""
        self._lock.acquire()
        self._disconnect()
        self._upkeep.pause()

    def after_fork(self, *, child: bool) -> None:
        """Go on after a fork; running calls belong to the parent."""
        self._upkeep.resume()
        self._lock.release()
        if child:
            self._begin()

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._running: dict[int, Row] = {}
        self._unwritten = 0

    def _say(self) -> None:
        # Called without holding the lock: `warn` may call a tool.
        while self._to_say:
            self._warn(self._to_say.pop())

    def _try(self, write: Callable[[], int]) -> int | None:
        """Write, after moving a damaged file aside if needed; None when that fails, too."""
        try:
            try:
                number = write()
            except (sqlite3.Error, OSError, JournalError) as error:
                if not self._mend(error):
                    raise
                number = write()
        except (sqlite3.Error, OSError, JournalError) as error:
            self._give_up(error)
            return None
        if self._impatient:
            self._patience(on=True)
        return number

    def _hear_of(self, error: Exception) -> None:
        """Handle an error of upkeep: move a damaged file aside."""
        with self._lock, suppress(sqlite3.Error, OSError, JournalError):
            self._mend(error)  # if this fails, the next call meets the same error and reports it
        self._say()

    def _mend(self, error: Exception) -> bool:
        """Move a damaged file aside; tell whether writing should be tried again."""
        if self._directory is None:
            return False
        path = self._directory / FILE_NAME
        if not isinstance(explain(path, error), DamagedJournalError):
            return False
        inode = self._inode if self._connection is not None else None
        self._disconnect()
        said = set_aside(self._directory, inode)
        if said:
            self._to_say.append(said)
        return True

    def _give_up(self, error: Exception) -> None:
        path = self._directory and self._directory / FILE_NAME
        trouble = explain(path, error) if path else JournalError(None, str(error))
        busy = getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_BUSY
        if busy:
            self._patience(on=False)
        else:
            self._disconnect()
        if self._required:
            raise trouble from error
        if not self._complained:
            self._complained = True
            hint = f"; {trouble.hint}" if trouble.hint else ""
            self._to_say.append(f"calls are not recorded: {trouble}{hint}")

    def _patience(self, *, on: bool) -> None:
        """Set whether to wait for a lock of another process; off after waiting was useless."""
        self._impatient = not on
        if self._connection is not None:
            self._connection.execute(f"PRAGMA busy_timeout = {1000 if on else 0}")

    def _insert(self, query: str, row: Row) -> int:
        connection = self._connected()
        number = connection.execute(query, (self._owner, *row)).lastrowid
        assert number is not None
        return number

    def _complete(self, number: int, start: Row, end: Row) -> int:
        if number > 0:
            cursor = self._connected().execute(UPDATE, (*end, number, start[0]))
            if cursor.rowcount:
                return number
        return self._insert(INSERT_ALL, (*start, *end))

    def _connected(self) -> sqlite3.Connection:
        if self._directory is None:
            raise JournalError(None, "there is no home directory", hint="set XDG_STATE_HOME")
        if self._connection is not None and self._is_the_file():
            return self._connection
        self._disconnect()
        connection = open_store(self._directory)
        try:
            self._file = str(self._directory / FILE_NAME)
            self._inode = os.stat(self._file).st_ino  # noqa: PTH116 - see _is_the_file
            self._owner = add_owner(connection, this_process())
            self._upkeep.look(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _is_the_file(self) -> bool:
        """Tell whether the open file is still the journal: another process may have replaced it."""
        try:
            # This runs twice per call, and making a Path takes longer than the stat itself.
            return os.stat(self._file).st_ino == self._inode  # noqa: PTH116
        except FileNotFoundError:
            return False

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def user_journal(*, required: bool = False) -> Journal:
    """Return the journal in the user's state directory, the same object for all callers."""
    return _shared(state_directory(), required)


@lru_cache(maxsize=8)
def _shared(directory: Path | None, required: bool) -> Journal:
    return Journal(directory, required=required)
