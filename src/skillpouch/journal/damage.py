"""A damaged journal is kept under another name, and what can be read of it is carried over."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

from skillpouch.journal.owners import Owner
from skillpouch.journal.rows import END_COLUMNS, START_COLUMNS
from skillpouch.journal.store import FILE_NAME, alone, open_while_alone

ASIDE = "journal-damaged-"
_SUFFIXES = ("", "-wal", "-shm")
_MOST_ROWS = 20_000  # carried over from either end: a call waits for this


def set_aside(directory: Path, inode: int | None = None) -> str:
    """Move the damaged file out of the way, and return what to say of it.

    Nothing is done, and nothing to be said, when another process has done so already: when the
    file is not the one with that inode any more.
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
    """Copy what can be read, forwards to the first bad place and backwards to the last."""
    with closing(open_while_alone(directory)) as target:
        try:
            source = sqlite3.connect(aside, isolation_level=None)
        except sqlite3.Error:
            return 0, False
        with closing(source):
            source.text_factory = lambda raw: raw.decode(errors="replace")
            owners = ("id", *Owner._fields)
            _copy(source, target, "owners", owners)
            columns = _columns_of(source, ("id", *START_COLUMNS, *END_COLUMNS))
            complete = _copy(source, target, "calls", columns)
            if not complete:
                _copy(source, target, "calls", columns, order="DESC")
        (carried,) = target.execute("SELECT count(*) FROM calls").fetchone()
        return carried, complete


def _columns_of(source: sqlite3.Connection, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of the columns that a journal of whatever age has; all when it cannot tell."""
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
    """Tell whether all rows were copied."""
    names, marks = ", ".join(columns), ", ".join("?" * len(columns))
    select = f"SELECT {names} FROM {table} ORDER BY id {order} LIMIT {_MOST_ROWS}"  # noqa: S608
    insert = f"INSERT OR IGNORE INTO {table} ({names}) VALUES ({marks})"  # noqa: S608 - ours
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
