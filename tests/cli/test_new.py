from pathlib import Path

import pytest

from tests.cli.conftest import Skillpouch

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("language", ["python", "javascript", "shell"])
def test_a_new_skill_passes_a_strict_check_and_has_a_typed_tool(
    skillpouch: Skillpouch, language: str
) -> None:
    made = skillpouch("new", "word-count", "--language", language, "--json")

    assert made.code == 0
    assert skillpouch("check", "--strict", "skills").out == ""
    (tool,) = skillpouch("list", "--json").json["tools"]
    assert tool["input_schema"]["required"] == ["who"]


def test_a_description_of_any_text_arrives_unchanged(skillpouch: Skillpouch) -> None:
    description = 'Says: "hi" # \\ \' {x}: *now*'

    skillpouch("new", "demo", "--description", description)

    (skill,) = skillpouch("list", "--json").json["skills"]
    assert skill["description"] == description
    assert skillpouch("check", "--strict", "skills").out == ""


def test_an_existing_skill_is_never_overwritten(skillpouch: Skillpouch, tmp_path: Path) -> None:
    skillpouch("new", "demo")
    page = tmp_path / "skills" / "demo" / "SKILL.md"
    page.write_text("mine")

    ran = skillpouch("new", "demo")

    assert ran.code == 2
    assert "skills/demo exists" in ran.err
    assert page.read_text() == "mine"
    assert sorted(p.name for p in (tmp_path / "skills").iterdir()) == ["demo"]


@pytest.mark.parametrize("name", ["Demo", "a b", "-a", "a--b", "../up", "x" * 65])
def test_a_name_that_agents_would_reject_is_refused(skillpouch: Skillpouch, name: str) -> None:
    ran = skillpouch("new", "--", name)

    assert ran.code == 2
    assert "is not a name for a skill" in ran.err
