import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest

from skillpouch.journal.journal import Journal, Retention, keep_small, prune
from skillpouch.journal.records import CallEnd, Started
from tests.journal.conftest import ReadAll

pytestmark = pytest.mark.slow

DAY_NS = 24 * 3600 * 10**9


def fill(journal: Journal, calls: int, content: str = "") -> None:
    for number in range(calls):
        call = journal.started(Started(tool=f"t.{number}"))
        journal.ended(call, CallEnd(outcome="ok", content=content))


def make_older(directory: Path, calls: int, days: float) -> None:
    with closing(sqlite3.connect(directory / "journal.sqlite3")) as connection, connection:
        query = "UPDATE calls SET started_ns = started_ns - ? WHERE id <= ?"
        connection.execute(query, (int(days * DAY_NS), calls))


def test_calls_older_than_the_bound_go(
    directory: Path, journal: Journal, read_all: ReadAll
) -> None:
    fill(journal, 1200)
    journal.close()  # its own upkeep is over: only prune() below may remove anything
    make_older(directory, 1150, days=31)

    removed = prune(directory, Retention())

    assert removed == 1150
    assert [entry.tool for entry in read_all()] == [f"t.{n}" for n in range(1150, 1200)]


def test_the_oldest_go_when_the_file_is_too_big_and_the_file_shrinks(
    directory: Path, journal: Journal, read_all: ReadAll
) -> None:
    fill(journal, 2000, content="c" * 4000)
    before = size_of(directory)

    removed = prune(directory, Retention(megabytes=3))

    names = [entry.tool for entry in read_all()]
    journal.close()
    assert 0 < removed < 2000
    assert names == [f"t.{n}" for n in range(removed, 2000)]
    assert size_of(directory) < 3_100_000 < before


def size_of(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.glob("journal.sqlite3*"))


def test_upkeep_prunes_once_a_day(directory: Path, journal: Journal, read_all: ReadAll) -> None:
    fill(journal, 3)
    journal.close()  # the first opening was an occasion; wait for it
    make_older(directory, 2, days=31)
    keep_small(directory, Retention())
    assert len(read_all()) == 3

    with closing(sqlite3.connect(directory / "journal.sqlite3")) as connection, connection:
        connection.execute("UPDATE upkeep SET done_ns = ?", (time.time_ns() - 2 * DAY_NS,))
    keep_small(directory, Retention())

    assert [entry.tool for entry in read_all()] == ["t.2"]


def test_a_call_that_was_pruned_while_it_ran_is_whole_when_it_ends(
    directory: Path, journal: Journal, read_all: ReadAll
) -> None:
    number = journal.started(Started(tool="long"))
    fill(journal, 1)
    make_older(directory, number, days=31)
    prune(directory, Retention())

    journal.ended(number, CallEnd(outcome="ok"))

    assert [(entry.tool, entry.outcome) for entry in read_all()] == [("t.0", "ok"), ("long", "ok")]


def test_numbers_are_not_used_again(directory: Path, journal: Journal, read_all: ReadAll) -> None:
    fill(journal, 5)
    removed = prune(directory, Retention(days=0))

    fill(journal, 1)

    assert removed == 4
    assert [entry.id for entry in read_all()] == [5, 6]


def test_pruning_nothing_makes_nothing(directory: Path) -> None:
    assert prune(directory, Retention()) == 0
    assert not directory.exists()
