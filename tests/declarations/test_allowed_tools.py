"""`allowed-tools`: four ways to write it, and what it does to a skill's own scripts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager
from skillpouch.declarations.skill_md import parse_allowed_tools

WriteSkill = Callable[..., Path]


@pytest.mark.parametrize(
    ("written", "tools"),
    [
        ("Bash", ("Bash",)),
        ("Read Write Bash", ("Read", "Write", "Bash")),
        ("Read, Write,Bash", ("Read", "Write", "Bash")),
        ("  Read ,\n  Write\t", ("Read", "Write")),
        ("Bash(git log:*) Read", ("Bash(git log:*)", "Read")),
        ("Bash(git add:*, git commit:*), Read", ("Bash(git add:*, git commit:*)", "Read")),
        ("Bash(a (b c) d) Read", ("Bash(a (b c) d)", "Read")),
        ("Bash(never closed, Read", ("Bash(never closed, Read",)),
        ("Bash) Read", ("Bash)", "Read")),
        (["Read", "Bash(git log:*)"], ("Read", "Bash(git log:*)")),
        (["Read, Write", "Bash"], ("Read", "Write", "Bash")),
        (["mcp__server__tool"], ("mcp__server__tool",)),
        ([], ()),
        ("", ()),
        (" , ", ()),
        (None, None),
    ],
)
def test_spaces_commas_one_item_and_lists_are_read_alike(
    written: Any, tools: tuple[str, ...] | None
) -> None:
    assert parse_allowed_tools(written) == tools


def test_a_very_long_list_is_split_in_one_pass() -> None:
    assert len(parse_allowed_tools("Bash(a b) " * 5_000) or ()) == 5_000


@pytest.mark.parametrize("allowed", ["Read", "Read, Write", "[]", "[Read]", "''", "BashOutput"])
def test_a_skill_that_leaves_out_bash_is_told_that_its_scripts_will_be_refused(
    write_skill: WriteSkill, allowed: str
) -> None:
    home = write_skill(
        front=f"name: demo\ndescription: Does it.\nallowed-tools: {allowed}\n",
        files={"scripts/run.sh": "echo hi\n"},
    )
    manager = SkillManager(home.parent)

    tools = manager.get_skill_tools("demo")

    assert [tool.id for tool in tools] == ["demo.run"]
    [problem] = [problem for problem in manager.problems if "allowed-tools" in problem.message]
    assert (problem.path, problem.severity) == (str(home / "SKILL.md"), "warning")
    assert "demo.run" in problem.message


@pytest.mark.parametrize("line", ["", "allowed-tools:\n", "allowed-tools: Read Bash\n"])
def test_a_skill_that_says_nothing_or_allows_bash_is_not_restricted(
    write_skill: WriteSkill, line: str
) -> None:
    home = write_skill(
        front=f"name: demo\ndescription: Does it.\n{line}", files={"scripts/run.sh": "echo hi\n"}
    )
    manager = SkillManager(home.parent)

    tools = manager.get_skill_tools("demo")

    assert ([tool.id for tool in tools], manager.problems) == (["demo.run"], [])


def test_a_restricted_form_of_bash_counts_as_bash(write_skill: WriteSkill) -> None:
    home = write_skill(
        front="name: demo\ndescription: Does it.\nallowed-tools: [Read, 'Bash(git log:*)']\n",
        files={"scripts/run.sh": "echo hi\n"},
    )
    manager = SkillManager(home.parent)
    manager.get_skill_tools("demo")

    assert manager.problems == []
    assert manager.get_skill("demo").metadata.allowed_tools == ("Read", "Bash(git log:*)")


def test_tools_that_a_skill_declares_are_never_restricted(write_skill: WriteSkill) -> None:
    home = write_skill(
        front="name: demo\ndescription: Does it.\nallowed-tools: Read\n",
        files={
            "scripts/run.sh": "echo hi\n",
            "tools.json": '[{"name": "run", "description": "Runs.", "script": "scripts/run.sh"}]',
        },
    )
    manager = SkillManager(home.parent)

    tools = manager.get_skill_tools("demo")

    assert ([tool.declared_in for tool in tools], manager.problems) == (["tools.json"], [])


@pytest.mark.parametrize(
    ("front", "allowed", "refused"),
    [
        ("", ["Bash", "Read"], []),
        ("allowed-tools: Read Grep\n", ["Read", "Grep"], ["Bash"]),
        ("allowed-tools: Bash(git:*)\n", ["Bash", "Bash(git:*)"], ["Read", "Bas"]),
        ("allowed-tools: '*'\n", ["Bash", "Read"], []),
        ("allowed-tools: []\n", [], ["Bash"]),
    ],
)
def test_whether_a_tool_is_allowed_can_be_asked_with_in(
    write_skill: WriteSkill, front: str, allowed: list[str], refused: list[str]
) -> None:
    home = write_skill(front=f"name: demo\ndescription: d\n{front}")

    asked = SkillManager(home.parent).get_skill("demo").metadata.allowed_tools

    assert [name for name in (*allowed, *refused) if name in asked] == allowed
