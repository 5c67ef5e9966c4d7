"""Skillpouch's own tools among others: their names are theirs, their order never changes."""

import json
from pathlib import Path

import pytest

from skillpouch import SkillManager, ToolRegistry, tool
from skillpouch.builtins.workspace.running import built_in_tools
from skillpouch.errors import BuiltInNameError
from skillpouch.registry.registry import WORKSPACE_NAMES
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

ORDER = ["bash", "read", "write", "edit", "grep", "glob", "ls"]


def registry() -> ToolRegistry:
    found = ToolRegistry()
    for each in built_in_tools():
        found.register(each)
    return found


def test_there_are_seven_in_a_fixed_order() -> None:
    tools = built_in_tools()

    assert [each.name for each in tools] == [each.id for each in tools] == ORDER
    assert set(ORDER) == WORKSPACE_NAMES
    assert {each.kind for each in tools} == {"built-in"}
    assert {each.name: each.effects for each in tools} == {
        "bash": ("read", "write", "execute"),
        "read": ("read",),
        "write": ("write",),
        "edit": ("read", "write"),
        "grep": ("read",),
        "glob": ("read",),
        "ls": ("read",),
    }


def test_the_parameters_of_the_seed_keep_their_names() -> None:
    required = {each.name: each.input_schema["required"] for each in built_in_tools()}
    known = {each.name: set(each.input_schema["properties"]) for each in built_in_tools()}

    assert required == {
        "bash": [],
        "read": ["file_path"],
        "write": ["file_path", "content"],
        "edit": ["file_path", "old_string", "new_string"],
        "grep": ["pattern"],
        "glob": ["pattern"],
        "ls": [],
    }
    assert known["bash"] >= {"command", "timeout"}
    assert known["read"] >= {"file_path", "offset", "limit"}
    assert known["edit"] >= {"replace_all"}
    assert known["grep"] >= {"pattern", "path", "glob", "context", "-i"}
    assert known["glob"] >= {"pattern", "path"}
    assert known["ls"] >= {"path"}


@pytest.mark.promise("tool-5")
@pytest.mark.parametrize("name", ORDER)
def test_one_of_skillpouchs_own_tools_is_neither_replaced_nor_removed(name: str) -> None:
    found = registry()

    with pytest.raises(BuiltInNameError):
        found.register(tool(name=name)(lambda: "mine"))
    assert not found.remove(name)

    assert found.get(name).kind == "built-in"
    assert found.get(name).name == name
    assert found.problems() == []


@pytest.mark.promise("tool-5")
def test_a_skills_tool_of_the_same_name_is_called_otherwise(write_skill: WriteSkill) -> None:
    declared = json.dumps([{"name": "read", "description": "mine"}])
    home = write_skill("one", files={"tools.json": declared})

    manager = SkillManager(home.parent, builtins=True)

    assert [each.name for each in manager.tools] == [*ORDER, "run_for_skill", "one__read"]
    assert manager.get_tool("read").kind == "built-in"
    assert manager.get_tool("one__read").skill == "one"


def test_a_manager_has_them_only_when_asked(write_skill: WriteSkill, tmp_path: Path) -> None:
    home = write_skill("one", files={"scripts/go.sh": "echo\n"})
    (tmp_path / "f").write_text("hello\n")

    without = SkillManager(home.parent)
    manager = SkillManager(home.parent, builtins=True, workspace=tmp_path)

    assert [each.id for each in without.tools] == ["one.go"]
    assert manager.call("read", {"file_path": "f"}).content == "     1\thello"
    assert manager.get_tool("read").invoke({"file_path": "f"}) == "     1\thello"


def test_what_is_called_is_on_record(tmp_path: Path, write_skill: WriteSkill) -> None:
    from skillpouch.environment import state_directory
    from skillpouch.journal.reading import JournalReader, Query

    (tmp_path / "f").write_text("hello\n")
    manager = SkillManager(write_skill("one").parent, builtins=True, workspace=tmp_path)
    manager.call("read", {"file_path": "f"})

    with JournalReader(state_directory()) as reader:
        (record,) = reader.newest(Query(), limit=5)
    assert (record.tool, record.skill, record.outcome) == ("read", "", "ok")
