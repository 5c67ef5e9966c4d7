import dataclasses
import json
import os
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from skillpouch.journal.journal import Journal, Retention, keep_small, user_journal
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.journal.records import CallEnd, Entry, Started
from skillpouch.journal.store import FILE_NAME, NoSuchCallError
from skillpouch.results import FileChange
from tests.journal.conftest import ReadAll

pytestmark = pytest.mark.slow


@pytest.mark.promise("jour-1")
def test_a_call_is_on_record_before_it_runs_and_whole_when_it_has_ended(
    journal: Journal, read_all: ReadAll
) -> None:
    before = time.time_ns()
    number = journal.started(
        Started(
            tool="greeter.greet",
            skill="greeter",
            digest="d1",
            session="s1",
            arguments={"who": "Ada"},
            decision="asked",
            approved_by="user",
        )
    )
    [running] = read_all()

    journal.ended(
        number,
        CallEnd(
            outcome="failed",
            content="no",
            stderr="why",
            exit_code=3,
            output_bytes=5,
            duration_ms=2.5,
            protections={"fs": "landlock4"},
            code="c",
        ),
    )
    [ended] = read_all()

    assert before <= running.started_ns <= (ended.ended_ns or 0) <= time.time_ns()
    assert running == Entry(
        id=number,
        started_ns=running.started_ns,
        tool="greeter.greet",
        skill="greeter",
        digest="d1",
        session="s1",
        arguments={"who": "Ada"},
        arguments_cut=False,
        arguments_sha256=sha256(b'{"who": "Ada"}').hexdigest(),
        decision="asked",
        approved_by="user",
        pid=os.getpid(),
        outcome="running",
    )
    assert ended == dataclasses.replace(
        running,
        outcome="failed",
        ended_ns=ended.ended_ns,
        content="no",
        content_characters=2,
        stderr="why",
        exit_code=3,
        output_bytes=5,
        duration_ms=2.5,
        protections={"fs": "landlock4"},
        code="c",
    )


def test_long_facts_are_cut_and_their_hash_is_of_the_whole(
    journal: Journal, read_all: ReadAll
) -> None:
    arguments = {"text": "é" * 50_000}
    number = journal.started(Started(tool="t", arguments=arguments))

    journal.ended(number, CallEnd(outcome="ok", content="a" * 50_000, stderr="b" * 50_000 + "!"))

    [entry] = read_all()
    assert entry.arguments_cut
    assert len(entry.arguments) == 16_384
    assert entry.arguments_sha256 == sha256(json.dumps(arguments).encode()).hexdigest()
    assert (entry.content, entry.content_characters) == ("a" * 16_384, 50_000)
    assert entry.stderr == "b" * 8_191 + "!"


@pytest.mark.parametrize(
    "odd", ["\ud800 half", "nul\0nul", "é\u202e\x1b[2J", {1: b"bytes"}, {"a": {1, 2}}, float("inf")]
)
def test_odd_facts_are_recorded(journal: Journal, read_all: ReadAll, odd: object) -> None:
    text = odd if isinstance(odd, str) else "plain"
    number = journal.started(Started(tool=text, skill=text, session=text, arguments=odd))

    journal.ended(number, CallEnd(outcome="ok", content=text, stderr=text))

    [entry] = read_all()
    assert entry.content == text.encode(errors="replace").decode()


def test_arguments_that_contain_themselves_are_recorded(
    journal: Journal, read_all: ReadAll
) -> None:
    arguments: dict[str, object] = {}
    arguments["self"] = arguments

    journal.started(Started(tool="t", arguments=arguments))

    [entry] = read_all()
    assert entry.arguments.startswith("no JSON: ")


@pytest.mark.promise("jour-4")
def test_only_its_user_may_read_the_journal(directory: Path, journal: Journal) -> None:
    directory.mkdir(mode=0o755)
    (directory / "journal.sqlite3").touch(mode=0o644)

    journal.started(Started(tool="t"))

    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert modes == dict.fromkeys(modes, 0o600)
    assert {"journal.sqlite3", "journal.sqlite3-wal", "journal.sqlite3-shm"} <= set(modes)


def test_a_call_ends_once(journal: Journal, read_all: ReadAll) -> None:
    number = journal.started(Started(tool="t"))
    journal.ended(number, CallEnd(outcome="ok", content="first"))

    journal.ended(number, CallEnd(outcome="failed", content="second"))
    journal.ended(12345, CallEnd(outcome="failed"))

    assert [entry.content for entry in read_all()] == ["first"]


def test_making_a_journal_touches_nothing(directory: Path) -> None:
    Journal(directory)

    assert not directory.exists()


def test_reading_where_there_is_no_journal_gives_nothing_and_makes_nothing(
    directory: Path,
) -> None:
    with JournalReader(directory) as reader:
        assert list(reader.after(Query())) == []
        assert reader.newest(Query(), 5) == []
        assert reader.latest() == 0
        with pytest.raises(NoSuchCallError, match="no call 7"):
            reader.get(7)
    assert not directory.exists()


def test_everybody_who_asks_gets_the_same_journal_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    journal = user_journal()

    journal.started(Started(tool="t"))

    assert user_journal() is journal
    assert (tmp_path / "skillpouch/journal.sqlite3").exists()
    journal.close()


def test_many_threads_write_one_record_each(journal: Journal, read_all: ReadAll) -> None:
    def work(name: str) -> None:
        for number in range(25):
            call = journal.started(Started(tool=f"{name}.{number}"))
            journal.ended(call, CallEnd(outcome="ok", content=f"{name}.{number}"))

    threads = [threading.Thread(target=work, args=(f"t{n}",)) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    entries = read_all()
    assert {entry.tool for entry in entries} == {f"t{n}.{m}" for n in range(16) for m in range(25)}
    assert len(entries) == 400
    assert all(entry.content == entry.tool for entry in entries)


def test_opening_the_file_twice_in_a_process_takes_no_lock_from_it(
    directory: Path, journal: Journal, read_all: ReadAll
) -> None:
    journal.started(Started(tool="first"))
    keep_small(directory, Retention())  # opens and closes the file
    command = [sys.executable, "-c", WRITES, str(directory), "other"]
    subprocess.run(command, check=True)  # must not think that it closes the file last

    journal.started(Started(tool="last"))

    assert len(read_all()) == 102


WRITES = """
import sys
from pathlib import Path
from skillpouch.journal.journal import Journal
from skillpouch.journal.records import CallEnd, Started
journal = Journal(Path(sys.argv[1]), required=True)
for number in range(100):
    call = journal.started(Started(tool=f"{sys.argv[2]}.{number}"))
    journal.ended(call, CallEnd(outcome="ok"))
"""


def test_several_processes_share_a_journal(directory: Path, read_all: ReadAll) -> None:
    words = [[sys.executable, "-c", WRITES, str(directory), str(n)] for n in range(4)]
    running = [subprocess.Popen(line, stderr=subprocess.PIPE) for line in words]

    errors = [process.communicate()[1] for process in running]

    entries = read_all()
    assert errors == [b""] * 4
    assert sorted(entry.tool for entry in entries) == sorted(
        f"{n}.{m}" for n in range(4) for m in range(100)
    )
    assert {entry.outcome for entry in entries} == {"ok"}


def test_a_journal_from_before_calls_had_parents_is_read_and_written(tmp_path: Path) -> None:
    directory = tmp_path / "state"
    journal = Journal(directory, required=True)
    journal.ended(journal.started(Started(tool="old")), CallEnd(outcome="ok"))
    journal.close()
    with closing(sqlite3.connect(directory / FILE_NAME)) as older:
        older.execute("ALTER TABLE calls DROP COLUMN parent")
        older.commit()

    with JournalReader(directory) as reader:
        before = [(call.tool, call.parent) for call in reader.newest(Query(), 9)]
    journal = Journal(directory, required=True)
    journal.ended(journal.started(Started(tool="new", parent=1)), CallEnd(outcome="ok"))
    journal.close()
    with JournalReader(directory) as reader:
        after = [(call.tool, call.parent) for call in reader.newest(Query(), 9)]

    assert before == [("old", None)]
    assert after == [("old", None), ("new", 1)]


def change(number: int, *, name: str = "file") -> FileChange:
    digest = f"{number:064x}"
    return FileChange(path=f"{name}-{number}", change="created", size=number, sha256=digest)


def test_changes_are_recorded_by_path_size_and_hash(journal: Journal, read_all: ReadAll) -> None:
    kept = (change(1), FileChange(path="b", change="renamed", old_path="a", size=2, mode=0o755))
    end = CallEnd(outcome="ok", writes="undoable", changes=kept, call_id="1")

    journal.ended(journal.started(Started(tool="t")), end)

    (entry,) = read_all()
    assert (entry.writes, entry.call_id, entry.changes_total) == ("undoable", "1", 2)
    assert entry.changes == (
        {"path": "file-1", "change": "created", "size": 1, "sha256": f"{1:064x}"},
        {"path": "b", "change": "renamed", "size": 2, "old_path": "a", "mode": 0o755},
    )


@pytest.mark.parametrize(("name", "fewest", "most"), [("file", 400, 500), ("x" * 4000, 15, 16)])
def test_of_many_changes_the_first_are_recorded_and_how_many_there_were(
    journal: Journal, read_all: ReadAll, name: str, fewest: int, most: int
) -> None:
    many = tuple(change(number, name=name) for number in range(2000))

    journal.ended(journal.started(Started(tool="t")), CallEnd(outcome="ok", changes=many))

    (entry,) = read_all()
    assert fewest <= len(entry.changes) <= most
    assert [*entry.changes] == [each.facts for each in many[: len(entry.changes)]]
    assert entry.changes_total == 2000


def test_a_journal_from_before_changes_were_recorded_is_read_and_written(
    directory: Path, read_all: ReadAll
) -> None:
    journal = Journal(directory, required=True)
    journal.ended(journal.started(Started(tool="old")), CallEnd(outcome="ok"))
    journal.close()
    with closing(sqlite3.connect(directory / FILE_NAME)) as older:
        for column in ("writes", "changes", "changes_total", "call_id"):
            older.execute(f"ALTER TABLE calls DROP COLUMN {column}")
        older.commit()

    before = read_all()
    journal = Journal(directory, required=True)
    end = CallEnd(outcome="ok", writes="staged", changes=(change(7),), call_id="2")
    journal.ended(journal.started(Started(tool="new")), end)
    journal.close()

    assert [(each.writes, each.changes, each.changes_total) for each in before] == [(None, (), 0)]
    facts = [(each.tool, each.writes, each.changes_total, each.call_id) for each in read_all()]
    assert facts == [("old", None, 0, ""), ("new", "staged", 1, "2")]


@pytest.mark.parametrize("text", ["", "no JSON", "7", '["a", 3, {"path": "b"}]', "{}", "null"])
def test_damaged_changes_of_a_row_do_not_hide_the_others(
    journal: Journal, directory: Path, read_all: ReadAll, text: str
) -> None:
    journal.ended(journal.started(Started(tool="t")), CallEnd(outcome="ok", changes=(change(1),)))
    journal.close()
    with closing(sqlite3.connect(directory / FILE_NAME)) as file:
        file.execute("UPDATE calls SET changes = ?", (text,))
        file.commit()

    (entry,) = read_all()

    assert entry.changes == (({"path": "b"},) if "path" in text else ())
