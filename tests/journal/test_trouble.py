"""A journal that cannot be written is said once; a damaged one is set aside, never lost."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from skillpouch.journal.journal import Journal
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.journal.records import CallEnd, Started
from skillpouch.journal.store import JournalError, JournalWarning
from tests.journal.conftest import ReadAll

pytestmark = pytest.mark.slow


def call(journal: Journal, name: str = "t") -> None:
    journal.ended(journal.started(Started(tool=name)), CallEnd(outcome="ok", content="c" * 3000))


@pytest.mark.parametrize("place", ["/dev/null/state", "/proc/nowhere", "/dev/full/x", None])
def test_where_nothing_can_be_written_calls_go_on_after_one_warning(
    place: str | None, said: list[str]
) -> None:
    journal = Journal(Path(place) if place else None, warn=said.append)

    for _ in range(3):
        call(journal)

    [warning] = said
    assert warning.startswith("calls are not recorded: ")


def test_the_warning_is_a_warning_of_python() -> None:
    journal = Journal(Path("/dev/null/state"))

    with pytest.warns(JournalWarning, match="calls are not recorded"):
        call(journal)


def test_a_required_journal_that_cannot_be_written_is_an_error() -> None:
    journal = Journal(Path("/dev/null/state"), required=True)

    with pytest.raises(JournalError, match="cannot be used") as caught:
        journal.started(Started(tool="t"))

    assert caught.value.code == "journal_unavailable"


def test_a_call_whose_start_could_not_be_written_is_whole_when_its_end_can(
    tmp_path: Path, said: list[str]
) -> None:
    (tmp_path / "state").write_text("in the way")
    journal = Journal(tmp_path / "state", warn=said.append)
    number = journal.started(Started(tool="t", arguments=[1]))
    (tmp_path / "state").unlink()

    journal.ended(number, CallEnd(outcome="ok", content="c"))

    with JournalReader(tmp_path / "state") as reader:
        [entry] = reader.after(Query())
    assert number < 0
    assert (entry.tool, entry.arguments, entry.outcome, entry.content) == ("t", [1], "ok", "c")
    journal.close()


def test_a_file_that_somebody_holds_is_waited_for_once(
    directory: Path, journal: Journal, read_all: ReadAll, said: list[str]
) -> None:
    call(journal, "before")
    with closing(sqlite3.connect(directory / "journal.sqlite3", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        number = journal.started(Started(tool="held"))
        for _ in range(20):
            call(journal, "lost")
        other.execute("ROLLBACK")

    journal.ended(number, CallEnd(outcome="ok"))

    assert len(said) == 1
    assert "another program holds the file" in said[0]
    assert [entry.tool for entry in read_all()] == ["before", "held"]


FILLS = """
import resource, sys
from pathlib import Path
from skillpouch.journal.journal import Journal
from skillpouch.journal.records import CallEnd, Started
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
said = []
journal = Journal(Path(sys.argv[1]), warn=said.append)
for number in range(100):
    call = journal.started(Started(tool=f"t.{number}"))
    journal.ended(call, CallEnd(outcome="ok", content="c" * 10_000))
print(len(said), said[0])
"""


def test_a_full_disk_is_said_and_what_was_written_stays(directory: Path, read_all: ReadAll) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", FILLS, str(directory)], capture_output=True, check=True, text=True
    )

    entries = read_all()
    assert ran.stdout.startswith("1 calls are not recorded: ")
    names = [entry.tool for entry in entries]
    assert 5 < len(names) < 100
    assert len(names) == len(set(names))
    assert names[:5] == [f"t.{n}" for n in range(5)]


READ_ONLY = """
import os, sys
from pathlib import Path
from skillpouch.journal.journal import Journal
from skillpouch.journal.records import CallEnd, Started
if os.geteuid() == 0:
    os.chown(sys.argv[1], 54321, 54321)
    os.setgroups([])
    os.setgid(54321)
    os.setuid(54321)
os.chmod(sys.argv[1], 0o500)
said = []
journal = Journal(Path(sys.argv[1]), warn=said.append)
for number in range(3):
    journal.ended(journal.started(Started(tool="t")), CallEnd(outcome="ok"))
print(*said, sep="\\n")
"""


def test_a_read_only_folder_is_said_once() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "state"
        place.mkdir()
        Path(name).chmod(0o755)
        ran = subprocess.run(
            [sys.executable, "-c", READ_ONLY, place], capture_output=True, check=True, text=True
        )
        place.chmod(0o700)

    [line] = ran.stdout.splitlines()
    assert "Permission denied" in line


def overwrite_middle(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.seek(file.stat().st_size // 2 // 4096 * 4096)
        opened.write(os.urandom(8192))


def drop_table(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("DROP TABLE owners")


def replace_by_noise(file: Path) -> None:
    other = file.with_name("noise")
    other.write_bytes(os.urandom(20_000))
    other.rename(file)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "noise": lambda file: file.write_bytes(os.urandom(20_000)),
    "half": lambda file: os.truncate(file, file.stat().st_size // 2 + 100),
    "a bad header": lambda file: file.write_bytes(b"SQLite format 3\0" + b"\xff" * 5_000),
    "no table": drop_table,
    "another file": replace_by_noise,
}


@pytest.mark.promise("jour-5")
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_journal_is_set_aside_and_calls_are_on_record_again(
    directory: Path, journal: Journal, read_all: ReadAll, said: list[str], damage: str
) -> None:
    for number in range(100):
        call(journal, f"old.{number}")
    journal.close()
    file = directory / "journal.sqlite3"
    DAMAGES[damage](file)
    damaged = file.read_bytes()

    for number in range(3):
        call(journal, f"new.{number}")

    [aside] = directory.glob("journal-damaged-*.sqlite3")
    assert aside.read_bytes()[100:4000] == damaged[100:4000]
    assert len(said) == 1
    assert f"was damaged and is kept as {aside.name}" in said[0]
    assert [e.tool for e in read_all() if e.tool.startswith("new")] == ["new.0", "new.1", "new.2"]


@pytest.mark.promise("jour-5")
def test_what_is_readable_of_a_damaged_journal_is_carried_over(
    directory: Path, journal: Journal, read_all: ReadAll, said: list[str]
) -> None:
    for number in range(300):
        call(journal, f"old.{number}")
    running = journal.started(Started(tool="running"))
    journal.close()
    overwrite_middle(directory / "journal.sqlite3")
    call(journal, "new")  # it does not touch the bad page

    before = [entry.tool for entry in read_all()]
    journal.ended(running, CallEnd(outcome="ok"))
    after = read_all()

    assert "carried over" in said[0]
    assert len(said) == 1
    assert len([name for name in before if name.startswith("old")]) > 250
    assert [entry.tool for entry in after] == before
    assert [entry.outcome for entry in after if entry.tool == "running"] == ["ok"]


def test_a_journal_replaced_by_another_process_is_noticed(
    directory: Path, journal: Journal, read_all: ReadAll, said: list[str]
) -> None:
    number = journal.started(Started(tool="first"))
    for path in directory.glob("journal.sqlite3*"):
        path.unlink()

    journal.ended(number, CallEnd(outcome="ok"))
    call(journal, "second")

    assert [entry.tool for entry in read_all()] == ["first", "second"]
    assert said == []


def test_somebody_elses_database_is_left_alone(
    directory: Path, journal: Journal, said: list[str]
) -> None:
    directory.mkdir()
    with closing(sqlite3.connect(directory / "journal.sqlite3")) as connection:
        connection.execute("CREATE TABLE mine (x)")

    call(journal)

    assert "a database of another program" in said[0]
    with closing(sqlite3.connect(directory / "journal.sqlite3")) as connection:
        assert connection.execute("SELECT name FROM sqlite_schema").fetchall() == [("mine",)]


def test_a_journal_of_a_newer_version_is_left_alone(
    directory: Path, journal: Journal, said: list[str]
) -> None:
    call(journal)
    journal.close()
    with closing(sqlite3.connect(directory / "journal.sqlite3")) as connection:
        connection.execute("PRAGMA user_version = 99")

    call(journal)

    assert "a newer Skillpouch wrote it (format 99)" in said[0]
    assert not list(directory.glob("journal-damaged-*"))


@pytest.mark.parametrize("kind", ["folder", "pipe", "link"])
def test_what_is_no_file_is_left_alone(
    directory: Path, journal: Journal, said: list[str], kind: str
) -> None:
    directory.mkdir()
    path = directory / "journal.sqlite3"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(directory / "elsewhere")

    call(journal)

    assert len(said) == 1
    assert not (directory / "elsewhere").exists()


def test_whoever_hears_the_warning_may_use_the_journal() -> None:
    heard: list[str] = []

    def warn(message: str) -> None:
        heard.append(message)
        journal.started(Started(tool="from the warning"))

    journal = Journal(Path("/dev/null/state"), warn=warn)

    call(journal)

    assert len(heard) == 1
