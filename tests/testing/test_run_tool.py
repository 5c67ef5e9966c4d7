"""A tool of a skill in one line of a test."""

from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import Policy
from skillpouch.errors import InvalidArgumentsError, SkillpouchError
from skillpouch.testing import run_tool

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]
EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "skills"

SHOUT = '''"""Say a file aloud, and leave a note."""
import os
import pathlib


def main(path: str) -> dict:
    text = pathlib.Path(path).read_text().upper()
    pathlib.Path("note.txt").write_text(text)
    return {"said": text, "key": os.environ.get("VOICE_KEY")}
'''
FRONT = """name: voice
description: Speaks.
metadata:
  skillpouch:
    requires:
      env: [VOICE_KEY]
"""


def test_a_skill_folder_is_enough() -> None:
    assert run_tool(EXAMPLES / "calculator", "add", {"a": 2, "b": 4.5}).structured == 6.5


def test_a_folder_of_skills_is_too() -> None:
    assert run_tool(EXAMPLES, "calculator.multiply", {"numbers": [2, 3]}).content == "6"


def test_files_are_there_before_and_what_the_tool_made_is_there_after(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = write_skill("voice", files={"scripts/shout.py": SHOUT})

    result = run_tool(
        home, "shout", {"path": "a/b.txt"}, files={"a/b.txt": "hi"}, workspace=tmp_path / "work"
    )

    assert result.structured == {"said": "HI", "key": None}
    assert (tmp_path / "work" / "note.txt").read_text() == "HI"
    assert [file.path for file in result.files] == ["note.txt"]


def test_without_a_workspace_nothing_is_left(write_skill: WriteSkill, tmp_path: Path) -> None:
    home = write_skill("voice", files={"scripts/shout.py": SHOUT})

    run_tool(home, "shout", {"path": "b.txt"}, files={"b.txt": "hi"})

    assert sorted(path.name for path in tmp_path.rglob("*.txt")) == []


def test_a_secret_of_the_test_is_given_only_where_the_policy_says_so(
    write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VOICE_KEY", "the-real-one")
    home = write_skill("voice", front=FRONT, files={"scripts/shout.py": SHOUT})
    asked = {"path": "b.txt"}
    files = {"b.txt": "hi"}

    given = run_tool(
        home,
        "shout",
        asked,
        files=files,
        secrets={"VOICE_KEY": "for-tests-only"},
        policy=Policy.trusting(),
    )

    assert given.structured == {"said": "HI", "key": "[redacted VOICE_KEY]"}
    with pytest.raises(SkillpouchError, match="VOICE_KEY"):
        run_tool(home, "shout", asked, files=files, policy=Policy.trusting())


def test_wrong_arguments_are_raised() -> None:
    with pytest.raises(InvalidArgumentsError, match="numbers"):
        run_tool(EXAMPLES / "calculator", "multiply", {"numbers": "two"})
