"""`skillpouch script` beyond what the Bashkit document asks for."""

from pathlib import Path

import pytest

from tests.cli.conftest import Skillpouch
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow


@pytest.fixture
def skills(write_skill: WriteSkill) -> Path:
    home = write_skill("hello", files={"scripts/greet.sh": 'echo "Hello, $1"\n'})
    return home.parent


def test_files_of_a_script_are_saved_where_it_is_told(
    skillpouch: Skillpouch, skills: Path, tmp_path: Path
) -> None:
    (tmp_path / "saved").mkdir()
    script = "mkdir /out/a; hello.greet Ada > /out/a/b.txt"

    ran = skillpouch("script", script, "--root", skills, "--out", "saved")
    told = skillpouch("script", script, "--root", skills)

    assert (ran.code, ran.out, ran.err) == (0, "", "")
    assert (tmp_path / "saved/a/b.txt").read_text() == "Hello, Ada\n"
    assert told.err == "note: not saved: a/b.txt; --out DIR saves what is in /out\n"


def test_a_value_is_printed_when_nothing_else_is(skillpouch: Skillpouch, skills: Path) -> None:
    alone = skillpouch("script", "result '[1, 2]'", "--root", skills)
    beside = skillpouch("script", "echo a; result 3", "--root", skills)

    assert alone.out == "[1, 2]\n"
    assert (beside.out, beside.err) == ("a\n", "result: 3\n")


def test_a_denied_call_that_fails_a_script_exits_with_three(
    skillpouch: Skillpouch, skills: Path, tmp_path: Path
) -> None:
    (tmp_path / "skillpouch.toml").write_text(
        '[[rules]]\nverdict = "deny"\ntools = ["hello.greet"]\n'
    )

    denied = skillpouch("script", "hello.greet Ada", "--root", skills)
    handled = skillpouch("script", "hello.greet Ada || echo no", "--root", skills)

    assert denied.code == 3
    assert (handled.code, handled.out) == (0, "no\n")


@pytest.mark.parametrize("words", [("echo a", "-f", "b"), ("-f", "nowhere.sh")])
def test_a_script_that_cannot_be_read_is_a_wrong_call(
    skillpouch: Skillpouch, skills: Path, words: tuple[str, ...]
) -> None:
    assert skillpouch("script", *words, "--root", skills).code == 2


def test_a_limit_says_what_it_was_and_keeps_the_output(
    skillpouch: Skillpouch, skills: Path
) -> None:
    ran = skillpouch("script", "echo a; while true; do :; done", "--root", skills)

    assert (ran.code, ran.out) == (1, "a\n")
    assert "maximum command count exceeded" in ran.err


def test_a_person_at_a_terminal_gives_a_script_more_than_its_minute(
    skillpouch: Skillpouch, skills: Path
) -> None:
    ran = skillpouch("script", "hello.greet Ada", "--root", skills, "--timeout", "90")

    assert (ran.code, ran.out) == (0, "Hello, Ada\n")
