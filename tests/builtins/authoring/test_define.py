"""define_tool and remove_tool over a manager: made, called, saved, removed."""

import json
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager, ToolResult
from skillpouch.checks.report import check_skills
from skillpouch.errors import CallDeniedError, InvalidArgumentsError, UnknownToolError
from skillpouch.policy import Policy, Rule
from tests.conftest import WriteSkill
from tests.discovery.text_skills.test_folders import texts

pytestmark = pytest.mark.slow

COUNT = {
    "name": "count_words",
    "description": "Count the words of a text",
    "parameters": {"text": {"type": "string", "description": "the text"}},
    "code": "return {'count': len(args['text'].split())}",
}


@pytest.fixture
def manager(tmp_path: Path) -> SkillManager:
    (tmp_path / "work").mkdir()
    (tmp_path / "skills").mkdir()
    return SkillManager(tmp_path / "skills", workspace=tmp_path / "work", define_tools=True)


def define(manager: SkillManager, **changes: Any) -> ToolResult:
    return manager.call("define_tool", COUNT | changes)


def test_they_are_off_unless_asked_for(tmp_path: Path) -> None:
    manager = SkillManager(tmp_path, workspace=tmp_path, builtins=True)

    assert len(manager.tools) == 7
    with pytest.raises(UnknownToolError):
        manager.call("define_tool", COUNT)


def test_a_tool_is_there_at_once_for_as_long_as_its_manager(
    manager: SkillManager, tmp_path: Path
) -> None:
    result = define(manager)

    assert result.structured == {
        "name": "count_words",
        "id": "count-words.count_words",
        "language": "python",
        "persistent": False,
        "path": None,
    }
    assert manager.call("count_words", {"text": "a b c"}).structured == {"count": 3}
    assert manager.get_tool("count_words").invoke({"text": "a b"}) == '{"count": 2}'
    assert [tool.name for tool in manager.tools] == ["define_tool", "remove_tool", "count_words"]
    assert list((tmp_path / "skills").iterdir()) == []
    assert SkillManager(tmp_path / "skills").tools == []


def test_javascript_too(manager: SkillManager) -> None:
    code = "const { text } = args;\nreturn { count: text.split(/\\s+/).length };"

    assert define(manager, code=code).structured["language"] == "javascript"

    assert manager.call("count_words", {"text": "a b c"}).structured == {"count": 3}


def test_arguments_are_checked_as_for_any_tool(manager: SkillManager) -> None:
    define(manager)

    with pytest.raises(InvalidArgumentsError, match="text"):
        manager.call("count_words", {})
    with pytest.raises(InvalidArgumentsError, match="name"):
        define(manager, name="Count-Words")
    with pytest.raises(InvalidArgumentsError, match="name"):
        define(manager, name="../evil")


def test_a_tool_is_tried_again_until_it_is_right(manager: SkillManager) -> None:
    define(manager, code="return args['txt']")
    assert manager.call("count_words", {"text": "a"}).is_error

    assert define(manager).outcome == "ok"

    assert manager.call("count_words", {"text": "a b"}).structured == {"count": 2}
    assert len(texts()) == 1


@pytest.mark.promise("def-2")
def test_a_saved_tool_is_a_skill_like_any_other(manager: SkillManager, tmp_path: Path) -> None:
    result = define(manager, persistent="true")

    home = tmp_path / "skills" / "count-words"
    assert result.structured["path"] == str(home)
    found = sorted(path.relative_to(home).as_posix() for path in home.rglob("*"))
    assert found == ["SKILL.md", "scripts", "scripts/count_words.py", "tools.json"]
    checked = check_skills([tmp_path / "skills"], strict=True, progress=lambda _d, _a: None)
    assert (checked.loaded, checked.tools, checked.problems) == (1, 1, ())
    assert manager.call("count_words", {"text": "a b c"}).structured == {"count": 3}

    again = SkillManager(tmp_path / "skills", workspace=tmp_path / "work")
    assert again.call("count_words", {"text": "a b"}).structured == {"count": 2}


@pytest.mark.promise("def-2")
@pytest.mark.parametrize(
    "description",
    [
        "Counts --- words",
        '"quoted": {yes} # no',
        "- item: [1, 2]\n---\nname: other",
        "Zählt Wörter: 😀 \\n",
        "x" * 1000,
        "## Configuration\n\n- `API_KEY` - a key\n",
        "*/ // \u2028 return",
        "Tell its coding: utf-16",
        "\x1b[31mred\x1b[0m and \u202ereversed",
    ],
)
@pytest.mark.parametrize("language", ["python", "javascript"])
def test_a_description_stays_a_description(
    manager: SkillManager, tmp_path: Path, description: str, language: str
) -> None:
    result = define(manager, description=description, code="return 1", language=language)
    assert result.outcome == "ok", result.content
    manager.call("remove_tool", {"name": "count_words"})

    result = define(
        manager, description=description, code="return 1", language=language, persistent=True
    )

    assert result.outcome == "ok", result.content
    checked = check_skills([tmp_path / "skills"], strict=True, progress=lambda _d, _a: None)
    assert (checked.loaded, checked.tools, checked.problems) == (1, 1, ())
    assert manager.call("count_words", {"text": "a"}).structured == 1
    assert manager.get_skill("count-words").metadata.name == "count-words"


@pytest.mark.promise("def-2")
def test_nothing_that_is_there_is_written_over(manager: SkillManager, tmp_path: Path) -> None:
    home = tmp_path / "skills" / "count-words"
    home.mkdir()
    taken = define(manager, persistent=True)
    assert (taken.outcome, taken.code) == ("failed", "conflict")
    home.rmdir()
    home.symlink_to(tmp_path / "work")
    assert define(manager, persistent=True).code == "conflict"
    home.unlink()

    assert define(manager, persistent=True).outcome == "ok"
    assert define(manager, code="return 2", persistent=True).code == "conflict"
    assert define(manager, code="return 2").code == "conflict"

    assert list((tmp_path / "work").iterdir()) == []
    assert manager.call("count_words", {"text": "a"}).structured == {"count": 1}


@pytest.mark.promise("def-2")
def test_names_of_others_are_not_taken_and_their_tools_not_removed(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    declared = [{"name": "count_words", "description": "Theirs", "script": "scripts/c.py"}]
    home = write_skill(
        "text-tools",
        files={
            "tools.json": json.dumps(declared),
            "scripts/c.py": "def handler(args):\n    return 'theirs'\n",
            "scripts/sort.sh": "echo sorted\n",
        },
    )
    write_skill("just-advice")
    (tmp_path / "work").mkdir()
    manager = SkillManager(
        home.parent, workspace=tmp_path / "work", builtins=True, define_tools=True
    )

    for name in ("count_words", "sort", "bash", "define_tool", "just_advice", "text_tools"):
        for persistent in (True, False):
            result = define(manager, name=name, persistent=persistent)
            assert (result.outcome, result.code) == ("failed", "conflict"), name
    for name in ("count_words", "sort", "text-tools.count_words", "bash", "remove_tool"):
        result = manager.call("remove_tool", {"name": name})
        assert (result.outcome, result.code) == ("failed", "denied"), name
    missing = manager.call("remove_tool", {"name": "nothing"})
    assert (missing.code, "skillpouch list" in missing.content) == ("not_found", False)

    assert manager.call("count_words", {}).structured == "theirs"
    assert sorted(path.name for path in home.parent.iterdir()) == ["just-advice", "text-tools"]


def test_a_removed_tool_is_gone_and_its_name_free(manager: SkillManager) -> None:
    define(manager)

    result = manager.call("remove_tool", {"name": "count_words"})

    assert result.structured == {"name": "count_words", "path": None}
    assert texts() == []
    with pytest.raises(UnknownToolError):
        manager.call("count_words", {"text": "a"})
    assert define(manager).outcome == "ok"


def test_a_saved_tool_is_moved_aside_also_after_a_restart(
    manager: SkillManager, tmp_path: Path
) -> None:
    define(manager, persistent=True)
    again = SkillManager(tmp_path / "skills", workspace=tmp_path / "work", define_tools=True)

    result = again.call("remove_tool", {"name": "count_words"})

    aside = Path(result.structured["path"])
    assert (aside / "SKILL.md").is_file()
    assert aside.parent == tmp_path / "skills" / ".skillpouch" / "removed"
    assert [tool.name for tool in again.tools] == ["define_tool", "remove_tool"]
    assert SkillManager(tmp_path / "skills").list_skills() == []
    assert define(again, persistent=True).outcome == "ok"


def test_a_temporary_tool_can_be_saved_as_it_is(manager: SkillManager) -> None:
    define(manager)

    assert define(manager, persistent=True).outcome == "ok"

    assert texts() == []
    assert manager.call("count_words", {"text": "a b"}).structured == {"count": 2}
    assert len([tool for tool in manager.tools if tool.name == "count_words"]) == 1
    manager.discover()
    assert len([tool for tool in manager.tools if tool.name == "count_words"]) == 1


def test_a_key_in_the_code_is_not_saved(manager: SkillManager, tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "Ab3dEf6hIj9kLm2nOp5q" * 4
    code = f"api_key = '{key}'\nreturn api_key"

    result = define(manager, code=code, persistent=True)

    assert (result.outcome, result.code) == ("failed", "invalid_argument")
    assert key not in result.content
    assert not (tmp_path / "skills" / "count-words").exists()


def test_a_root_that_became_a_link_is_not_written_through(tmp_path: Path) -> None:
    root, elsewhere = tmp_path / "later", tmp_path / "elsewhere"
    elsewhere.mkdir()
    manager = SkillManager(root, workspace=elsewhere, define_tools=True)
    root.rmdir()
    root.symlink_to(elsewhere)

    result = define(manager, persistent=True)

    assert (result.outcome, result.code) == ("failed", "denied")
    assert not (elsewhere / "count-words").exists()


def test_a_policy_holds_for_them_as_for_every_tool(tmp_path: Path) -> None:
    policy = Policy(rules=[Rule(verdict="deny", tools=["define_tool"])])
    manager = SkillManager(tmp_path, workspace=tmp_path, define_tools=True, policy=policy)

    with pytest.raises(CallDeniedError):
        define(manager)
