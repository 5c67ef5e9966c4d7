"""The index: what was read before, in the cache folder. Without it everything is read again."""

import marshal
import os
import sqlite3
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from zlib import crc32

import skillpouch
from skillpouch.untrusted_files import Stamp

_FORMAT = 2
_CHUNK = 400  # keys in one SELECT; SQLite before 3.32 allows 999 parameters
_MOST_ENTRIES = 100_000
# A file that changes twice within one tick of the file system's clock has the same stamp both
# times. A file that was changed less than this before it was read is therefore not cached.
_TICK_NS = 50_000_000
_COARSE_TICK_NS = 2_000_000_000


def is_settled(stamp: Stamp, now_ns: int | None = None) -> bool:
    """Tell whether a stamp is old enough that any later change gives another one."""
    _, _, modified, changed = stamp.split()
    newest = max(int(modified), int(changed))
    tick = _TICK_NS if newest % 1_000_000_000 else _COARSE_TICK_NS
    return newest < (now_ns or time.time_ns()) - tick


class Index:
    """Keys (paths) and plain values in one SQLite file.

    A damaged, foreign or unwritable file is ignored, and never an error. Values are stored with
    `marshal`, as in Python's own .pyc files: it takes a third of the time that JSON takes. Each
    has a checksum, because damaged bytes can crash `marshal`.
    """

    def __init__(self, directory: Path | None) -> None:
        self._directory = directory
        self._broken = False

    def get(self, keys: Iterable[str]) -> dict[str, Any]:
        """Return the values of those keys that the index has."""
        wanted = sorted(map(os.fsencode, keys))
        found: dict[str, Any] = {}
        try:
            with self._opened() as connection:
                for start in range(0, len(wanted), _CHUNK):
                    found |= _select(connection, wanted[start : start + _CHUNK])
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)
            return {}
        return found

    def put(self, values: Mapping[str, Any]) -> None:
        """Store the values, if the index can be written."""
        today = time.time_ns() // 86_400_000_000_000
        texts = {os.fsencode(key): marshal.dumps(values[key]) for key in values}
        rows = [(key, text, crc32(text), today) for key, text in texts.items()]
        try:
            with self._opened() as connection:
                _insert(connection, rows)
        except (sqlite3.Error, OSError) as error:
            self._give_up(error)

    def _opened(self) -> AbstractContextManager[sqlite3.Connection | None]:
        # Opened for each use, which takes half a millisecond: a connection must not be shared
        # across a fork or by threads, and no file stays open after its manager is gone.
        if self._directory is None or self._broken:
            return nullcontext(None)
        return closing(_connect(self._directory))

    def _give_up(self, error: Exception) -> None:
        """Stop using the index in this process; delete the file if it is damaged."""
        self._broken = True
        if self._directory is not None and type(error) is sqlite3.DatabaseError:
            for suffix in ("", "-wal", "-shm"):
                (self._directory / f"index.sqlite3{suffix}").unlink(missing_ok=True)


def _select(connection: sqlite3.Connection | None, keys: list[bytes]) -> dict[str, Any]:
    if connection is None:
        return {}
    marks = ",".join("?" * len(keys))
    # No injection: only question marks are inserted into the text.
    query = f"SELECT key, value, checksum FROM entries WHERE key IN ({marks})"  # noqa: S608
    found = {}
    for key, value, checksum in connection.execute(query, keys):
        if isinstance(value, bytes) and crc32(value) == checksum:
            found[os.fsdecode(key)] = marshal.loads(value)  # noqa: S302 - see above
    return found


def _insert(
    connection: sqlite3.Connection | None, rows: list[tuple[bytes, bytes, int, int]]
) -> None:
    if connection is None or not rows:
        return
    with connection:
        connection.executemany("INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?)", rows)
        (count,) = connection.execute("SELECT count(*) FROM entries").fetchone()
        if count > _MOST_ENTRIES:
            oldest = "SELECT key FROM entries ORDER BY used LIMIT ?"
            query = f"DELETE FROM entries WHERE key IN ({oldest})"  # noqa: S608 - both ours
            connection.execute(query, (count - _MOST_ENTRIES // 2,))


def _connect(directory: Path) -> sqlite3.Connection:
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    if directory.stat().st_uid != os.geteuid():
        raise PermissionError(f"{directory} belongs to somebody else")
    connection = sqlite3.connect(directory / "index.sqlite3", timeout=0.2)
    # A root of a thousand skills is one value of half a megabyte: ten pages of this size, 160 of
    # the default size.
    connection.execute("PRAGMA page_size=65536")
    connection.execute("PRAGMA cache_size=-32768")  # in KiB; the default is 31 such pages
    connection.execute("PRAGMA journal_mode=WAL")
    # No fsync: a crash of the machine may destroy the index, but it can be made again.
    connection.execute("PRAGMA synchronous=OFF")
    version = _version()
    if connection.execute("PRAGMA user_version").fetchone() != (version,):
        with connection:
            connection.execute("DROP TABLE IF EXISTS entries")
            connection.execute(
                "CREATE TABLE entries"
                " (key BLOB PRIMARY KEY, value BLOB, checksum INTEGER, used INTEGER) WITHOUT ROWID"
            )
            connection.execute(f"PRAGMA user_version={version}")
    return connection


@cache
def _version() -> int:
    text = f"{_FORMAT} {skillpouch.__version__} {sys.version} {marshal.version}"
    if "dev" in skillpouch.__version__:  # source may change under the same version
        package = Path(skillpouch.__file__).parent
        newest = max(file.stat().st_mtime_ns for file in package.rglob("*.py"))
        text = f"{text} {newest}"
    return int.from_bytes(sha256(text.encode()).digest()[:4]) >> 1
