"""define_tool and remove_tool from the command line."""

from pathlib import Path

import pytest

from tests.cli.conftest import Skillpouch

pytestmark = pytest.mark.slow

DEFINE = (
    *("call", "define_tool", "--define-tools", "name=count_words"),
    *("description=Count words", 'parameters={"text": {"type": "string"}}'),
    "code=return len(args['text'].split())",
)


def test_they_are_off_unless_asked_for(skillpouch: Skillpouch) -> None:
    ran = skillpouch("call", "define_tool", "name=x")

    assert (ran.code, ran.out) == (2, "")
    assert "off by default: add --define-tools" in ran.err


@pytest.mark.timeout(120)
def test_a_saved_tool_is_called_checked_and_removed(skillpouch: Skillpouch, tmp_path: Path) -> None:
    assert skillpouch(*DEFINE, "persistent=true").code == 0

    assert skillpouch("call", "count_words", "text=a b c").out == "3\n"
    assert skillpouch("check", "--strict").code == 0
    removed = skillpouch("call", "remove_tool", "--define-tools", "name=count_words")
    assert removed.code == 0
    assert skillpouch("call", "count_words", "text=a").code == 2
    assert not (tmp_path / "skills" / "count-words").exists()


@pytest.mark.timeout(120)
def test_a_name_that_is_taken_is_exit_1(skillpouch: Skillpouch) -> None:
    assert skillpouch(*DEFINE, "persistent=true").code == 0

    ran = skillpouch(*DEFINE, "persistent=true")

    assert ran.code == 1
    assert "count_words means count-words.count_words" in ran.err
