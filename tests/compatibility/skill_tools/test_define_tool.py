"""Skill Tools §8: `define_tool` and `remove_tool`, with the document's types and layout."""

import json
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.errors import UnknownToolError

pytestmark = pytest.mark.slow

# §6, "Examples": the bodies of the two handlers.
PYTHON_BODY = """text = args.get("text", "")
words = text.split()
return {"count": len(words)}
"""
JAVASCRIPT_BODY = """const { text } = args;
const words = text.trim().split(/\\s+/).filter(Boolean);
return { count: words.length };
"""
PARAMETERS = json.dumps({"text": {"type": "string", "description": "The text"}})


@pytest.fixture
def manager(tmp_path: Path) -> SkillManager:
    (tmp_path / "work").mkdir()
    return SkillManager(
        skills_dir=tmp_path / "skills",
        workspace=tmp_path / "work",
        builtins=True,
        define_tools=True,
    )


def test_the_parameters_are_those_of_the_seed(manager: SkillManager) -> None:
    define, remove = (manager.get_tool(name) for name in ("define_tool", "remove_tool"))

    theirs = ["name", "description", "parameters", "code", "persistent"]
    assert [*define.input_schema["properties"]] == [*theirs, "language"]
    for name in theirs:
        kinds = define.input_schema["properties"][name]["type"]
        assert "string" in (kinds if isinstance(kinds, list) else [kinds])
    assert [*remove.input_schema["properties"]] == ["name"]


@pytest.mark.parametrize("body", [PYTHON_BODY, JAVASCRIPT_BODY], ids=["python", "javascript"])
def test_a_new_tool_is_created_during_a_session(manager: SkillManager, body: str) -> None:
    result = manager.call(
        "define_tool",
        {
            "name": "count_words",
            "description": "Count the words of a text",
            "parameters": PARAMETERS,
            "code": body,
        },
    )

    assert result.outcome == "ok"
    counted = manager.call("count_words", {"text": "the quick brown fox"})
    assert counted.structured == {"count": 4}


@pytest.mark.parametrize(
    ("body", "extension", "wrapped"),
    [
        (PYTHON_BODY, "py", "def handler(args):\n    text = "),
        (JAVASCRIPT_BODY, "js", "export default async function handler(args) {\nconst { text }"),
    ],
    ids=["python", "javascript"],
)
def test_a_persistent_tool_has_the_layout_of_the_seed(
    manager: SkillManager, tmp_path: Path, body: str, extension: str, wrapped: str
) -> None:
    manager.call(
        "define_tool",
        {
            "name": "fetch_weather",
            "description": "Fetch the weather",
            "parameters": PARAMETERS,
            "code": body,
            "persistent": "true",
        },
    )

    # "Convert the tool name to a skill name", "Create the skill directory".
    home = tmp_path / "skills" / "fetch-weather"
    assert (home / "SKILL.md").read_text().startswith("---\nname: fetch-weather\ndescription: ")
    assert json.loads((home / "tools.json").read_text()) == [
        {
            "name": "fetch_weather",
            "description": "Fetch the weather",
            "script": f"scripts/fetch_weather.{extension}",
            "parameters": {"text": {"type": "string", "description": "The text"}},
        }
    ]
    assert wrapped in (home / "scripts" / f"fetch_weather.{extension}").read_text()
    # "dynamically created tools follow the same format as hand-authored ones".
    (tool,) = SkillManager(tmp_path / "skills").get_skill_tools("fetch-weather")
    assert (tool.id, tool.name) == ("fetch-weather.fetch_weather", "fetch_weather")


def test_a_defined_tool_is_removed(manager: SkillManager) -> None:
    asked = {"name": "one", "description": "One", "parameters": "{}", "code": "return 1"}
    manager.call("define_tool", asked | {"persistent": "false"})
    assert manager.call("one").structured == 1

    assert manager.call("remove_tool", {"name": "one"}).outcome == "ok"

    with pytest.raises(UnknownToolError):
        manager.call("one")


# "Runtimes SHOULD protect standard/built-in tools from removal."
@pytest.mark.parametrize("name", ["bash", "read", "define_tool", "remove_tool"])
def test_built_in_tools_are_not_removed(manager: SkillManager, name: str) -> None:
    result = manager.call("remove_tool", {"name": name})

    assert (result.outcome, result.code) == ("failed", "denied")
    assert manager.get_tool(name).kind == "built-in"
