import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skillpouch.cli.journal_command import Moment
from skillpouch.environment import state_directory
from skillpouch.journal.journal import Journal
from skillpouch.journal.records import CallEnd, Started
from skillpouch.results import FileChange
from tests.cli.conftest import Skillpouch
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow


@pytest.fixture
def journal() -> Iterator[Journal]:
    journal = Journal(state_directory(), required=True)
    yield journal
    journal.close()


def call(journal: Journal, tool: str, outcome: str = "ok", **facts: Any) -> int:
    number = journal.started(
        Started(tool=tool, skill=tool.partition(".")[0], arguments={"n": 1}, **facts)
    )
    journal.ended(
        number,
        CallEnd(outcome=outcome, content="done", exit_code=0, duration_ms=3.2),  # type: ignore[arg-type]  # the command takes text
    )
    return number


def test_the_latest_calls_are_shown_the_newest_last(
    skillpouch: Skillpouch, journal: Journal
) -> None:
    for name in ("a.one", "a.two", "b.three"):
        call(journal, name)
    journal.started(Started(tool="b.four"))

    ran = skillpouch("journal", "--limit", "3")

    rows = [line.split("\t") for line in ran.out.splitlines()]
    assert [[row[0], *row[2:]] for row in rows] == [
        ["2", "a.two", "ok", "0", "3", '{"n": 1}', ""],
        ["3", "b.three", "ok", "0", "3", '{"n": 1}', ""],
        ["4", "b.four", "running", "", "", "null", ""],
    ]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--tool", "a.one"], [1]),
        (["--tool", "a.*"], [1, 2]),
        (["--skill", "b"], [3, 4]),
        (["--session", "s1"], [3]),
        (["--outcome", "failed"], [2]),
        (["--outcome", "running"], [4]),
        (["--outcome", "interrupted"], []),
        (["--since", "1h"], [1, 2, 3, 4]),
        (["--until", "1h"], []),
        (["--since", "2020-01-01", "--until", "2021-01-01T10:00"], []),
        (["--limit", "0"], []),
    ],
)
def test_calls_are_chosen_by_options(
    skillpouch: Skillpouch, journal: Journal, words: list[str], expected: list[int]
) -> None:
    call(journal, "a.one")
    call(journal, "a.two", "failed")
    call(journal, "b.three", session="s1")
    journal.started(Started(tool="b.four", skill="b"))

    ran = skillpouch("journal", "--json", *words)

    assert [entry["id"] for entry in ran.json["calls"]] == expected


def test_one_call_is_shown_whole(skillpouch: Skillpouch, journal: Journal) -> None:
    number = call(journal, "a.one", session="s1", approved_by="user")

    ran = skillpouch("journal", "show", str(number))

    assert ran.code == 0
    assert "tool:         a.one" in ran.out
    assert "decision:     allowed by user" in ran.out
    assert ran.out.endswith("content:\n\ndone\n")
    assert skillpouch("journal", "show", str(number), "--json").json["approved_by"] == "user"


def test_what_a_call_changed_is_shown_in_short_and_whole(
    skillpouch: Skillpouch, journal: Journal
) -> None:
    created = [FileChange(path=f"new\x1b[31m{n}", change="created", size=5) for n in range(30)]
    gone = FileChange(path="old", change="deleted", size_before=9)
    end = CallEnd(outcome="ok", writes="undoable", changes=(*created, gone), call_id="1")
    journal.ended(journal.started(Started(tool="a.one")), end)

    short, whole = skillpouch("journal"), skillpouch("journal", "show", "1")
    exported = json.loads(skillpouch("journal", "export").out)

    assert short.out.splitlines()[0].split("\t")[-1] == "30 created, 1 deleted, undoable"
    assert "undo:         skillpouch undo 1\n" in whole.out
    assert "    created: new0 (5 bytes)\n" in whole.out
    assert "    and 11 more (--json)\n" in whole.out
    assert (exported["changes_total"], exported["writes"]) == (31, "undoable")
    assert exported["changes"][-1] == {
        "path": "old",
        "change": "deleted",
        "size": 0,
        "size_before": 9,
    }


def test_a_call_that_is_not_there_is_a_wrong_call(skillpouch: Skillpouch) -> None:
    ran = skillpouch("journal", "show", "7")

    assert (ran.code, ran.out) == (2, "")
    assert "no call 7" in ran.err


def test_all_calls_are_exported_one_per_line(skillpouch: Skillpouch, journal: Journal) -> None:
    for number in range(250):
        call(journal, f"a.{number}")

    ran = skillpouch("journal", "export", "--tool", "a.*")

    entries = [json.loads(line) for line in ran.out.splitlines()]
    assert [entry["tool"] for entry in entries] == [f"a.{number}" for number in range(250)]
    assert entries[0]["started"].endswith("Z")


@pytest.mark.promise("jour-6")
@pytest.mark.parametrize(
    "words", [[], ["--json"], ["show", "1"], ["show", "1", "--json"], ["export"]]
)
def test_no_control_character_reaches_the_terminal(
    skillpouch: Skillpouch, journal: Journal, words: list[str]
) -> None:
    evil = "\x1b[2J\x07\x9b1m\u202e\x7f\x00\r over"
    number = journal.started(Started(tool=evil, skill=evil, session=evil, arguments={evil: evil}))
    journal.ended(
        number, CallEnd(outcome="ok", content=evil, stderr=evil, protections={evil: evil})
    )

    ran = skillpouch("journal", *words)

    assert ran.code == 0
    assert "over" in ran.out
    assert [c for c in ran.out if (ord(c) < 32 and c not in "\n\t") or 127 <= ord(c) < 160] == []
    assert "\u202e" not in ran.out


def test_old_calls_are_removed_on_demand(skillpouch: Skillpouch, journal: Journal) -> None:
    for _ in range(3):
        call(journal, "a.one")

    ran = skillpouch("journal", "prune", "--days", "0", "--json")

    assert ran.json == {"removed": 2}  # the newest stays


def test_an_empty_journal_says_where_it_looked(skillpouch: Skillpouch) -> None:
    ran = skillpouch("journal")

    assert (ran.code, ran.out) == (0, "")
    assert f"no such call in {state_directory()}/journal.sqlite3" in ran.err


def test_options_before_a_command_are_a_wrong_call(skillpouch: Skillpouch) -> None:
    ran = skillpouch("journal", "--tool", "x", "export")

    assert ran.code == 2
    assert "give options after `export`" in ran.err


@pytest.mark.parametrize("when", ["yesterday", "2h3", "", "9999999999999d", "2026-13-01"])
def test_what_is_no_time_is_a_wrong_call(skillpouch: Skillpouch, when: str) -> None:
    ran = skillpouch("journal", "--since", when)

    assert ran.code == 2
    assert "is not a time" in ran.err


@given(text=st.text(max_size=20) | st.from_regex(r"[0-9.]{1,10}[smhdw]", fullmatch=True))
@settings(deadline=None, max_examples=300)
@example("999999999w")
@example("9999-12-31")
@example("0001-01-01")
def test_any_text_is_a_moment_that_can_be_looked_for_or_a_wrong_call(text: str) -> None:
    try:
        moment = Moment().convert(text, None, None)
    except click.BadParameter:
        return
    assert 0 <= moment <= 2**62


def test_following_shows_each_call_once_when_it_has_ended(journal: Journal, tmp_path: Path) -> None:
    earlier = journal.started(Started(tool="a.earlier"))
    call(journal, "a.first")
    follower = subprocess.Popen(
        [sys.executable, "-m", "skillpouch", "journal", "--follow", "--limit", "1", "--json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert follower.stdout is not None
    try:
        first = json.loads(follower.stdout.readline())  # it is looking
        later = journal.started(Started(tool="a.later"))
        journal.ended(earlier, CallEnd(outcome="ok"))
        journal.ended(later, CallEnd(outcome="failed"))
        lines = [json.loads(follower.stdout.readline()) for _ in range(2)]
    finally:
        follower.kill()
        follower.wait()
        follower.stdout.close()

    assert first["tool"] == "a.first"
    assert sorted((line["tool"], line["outcome"]) for line in lines) == [
        ("a.earlier", "ok"),
        ("a.later", "failed"),
    ]


@pytest.mark.usefixtures("writes_directly")
@pytest.mark.parametrize("script", ["scripts/hang.py", "scripts/hang.sh"])
def test_a_call_ended_by_ctrl_c_is_recorded_with_its_duration_and_output(
    write_skill: WriteSkill, skillpouch: Skillpouch, tmp_path: Path, script: str
) -> None:
    """The file tells that the script has printed: only then is it interrupted."""
    texts = {
        "scripts/hang.py": "import os, time\nprint('half', os.environ['K_1'], flush=True)\n"
        "open('printed', 'w').close()\ntime.sleep(600)\n",
        "scripts/hang.sh": 'echo "half $K_1"\ntouch printed\nsleep 600\n',
    }
    front = "name: demo\ndescription: d\nmetadata: {skillpouch: {secrets: [K_1]}}\n"
    root = write_skill(front=front, files={script: texts[script]}).parent
    assert skillpouch("trust", "demo", "--root", root, "--secret", "K_1", "--yes").code == 0
    words = [sys.executable, "-m", "skillpouch", "call", "demo.hang", "--root", str(root)]
    env = {**os.environ, "K_1": "hunter2-hunter2"}
    running = subprocess.Popen(
        words, cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    while not (tmp_path / "printed").exists():
        assert running.poll() is None, running.communicate()

    running.send_signal(signal.SIGINT)
    running.communicate()

    (entry,) = skillpouch("journal", "--json").json["calls"]
    assert entry["outcome"] == "cancelled"
    assert entry["duration_ms"] > 0
    assert entry["content"] == "half [redacted K_1]\n"
    assert entry["output_bytes"] == len("half [redacted K_1]\n")
