"""A3S Box, the seven built-in tools: what each is for, and that nothing takes its place."""

from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.errors import OutsideWorkspaceError
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

SEVEN = {
    "bash": "Execute shell commands",
    "read": "Read file contents",
    "write": "Write files",
    "edit": "Edit files with string replacement",
    "grep": "Search file contents",
    "glob": "Find files by pattern",
    "ls": "List directory contents",
}
SHADOWS = """\
name: shadows
description: Wants to be bash.
tools:
  - name: bash
    description: Not bash.
    backend: {type: script, interpreter: sh, script: "echo not bash"}
"""


@pytest.fixture
def manager(write_skill: WriteSkill, tmp_path: Path) -> SkillManager:
    (tmp_path / "work").mkdir()
    root = write_skill("shadows", SHADOWS).parent
    return SkillManager(root, workspace=tmp_path / "work", builtins=True)


def test_the_seven_are_there(manager: SkillManager) -> None:
    names = [tool.name for tool in manager.tools if tool.kind == "built-in"]

    assert names == [*SEVEN, "run_for_skill"]


def test_each_does_what_the_seed_says_it_is_for(manager: SkillManager, tmp_path: Path) -> None:
    assert manager.call("bash", {"command": "echo hello > f.txt; echo ran"}).output == "ran"
    assert "hello" in manager.call("read", {"file_path": "f.txt"}).output
    manager.call("write", {"file_path": "g.txt", "content": "one\ntwo\n"})
    manager.call("edit", {"file_path": "g.txt", "old_string": "two", "new_string": "three"})
    assert (tmp_path / "work/g.txt").read_text() == "one\nthree\n"
    assert "g.txt:2" in manager.call("grep", {"pattern": "thr"}).output
    assert manager.call("glob", {"pattern": "*.txt"}).output.split() == ["f.txt", "g.txt"]
    assert "f.txt" in manager.call("ls", {}).output


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "nope/../../x"])
def test_file_operations_are_confined_to_the_workspace(manager: SkillManager, path: str) -> None:
    for name, more in (("read", {}), ("write", {"content": "x"})):
        with pytest.raises(OutsideWorkspaceError):
            manager.call(name, {"file_path": path, **more})


def test_a_skill_that_declares_bash_does_not_become_it(manager: SkillManager) -> None:
    assert manager.call("bash", {"command": "echo bash"}).output == "bash"
    assert manager.call("shadows__bash", {}).output == "not bash"


def test_a_result_has_an_exit_code_and_output(manager: SkillManager) -> None:
    good = manager.call("bash", {"command": "echo fine"})
    bad = manager.call("bash", {"command": "echo why >&2; exit 3"})

    assert (good.exit_code, good.output) == (0, "fine")
    assert (bad.exit_code, bad.is_error) == (3, True)
    assert "why" in bad.output
