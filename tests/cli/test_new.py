from pathlib import Path

import pytest

from tests.cli.conftest import Kitbag


@pytest.mark.parametrize("language", ["python", "javascript", "shell"])
def test_a_new_skill_passes_a_strict_check_and_has_a_typed_tool(
    kitbag: Kitbag, language: str
) -> None:
    made = kitbag("new", "word-count", "--language", language, "--json")

    assert made.code == 0
    assert kitbag("check", "--strict", "skills").out == ""
    (tool,) = kitbag("list", "--json").json["tools"]
    assert tool["input_schema"]["required"] == ["who"]


def test_a_description_of_any_text_arrives_unchanged(kitbag: Kitbag) -> None:
    description = 'Says: "hi" # \\ \' {x}: *now*'

    kitbag("new", "demo", "--description", description)

    (skill,) = kitbag("list", "--json").json["skills"]
    assert skill["description"] == description
    assert kitbag("check", "--strict", "skills").out == ""


def test_an_existing_skill_is_never_overwritten(kitbag: Kitbag, tmp_path: Path) -> None:
    kitbag("new", "demo")
    page = tmp_path / "skills" / "demo" / "SKILL.md"
    page.write_text("mine")

    ran = kitbag("new", "demo")

    assert ran.code == 2
    assert "skills/demo exists" in ran.err
    assert page.read_text() == "mine"
    assert sorted(p.name for p in (tmp_path / "skills").iterdir()) == ["demo"]


@pytest.mark.parametrize("name", ["Demo", "a b", "-a", "a--b", "../up", "x" * 65])
def test_a_name_that_agents_would_reject_is_refused(kitbag: Kitbag, name: str) -> None:
    ran = kitbag("new", "--", name)

    assert ran.code == 2
    assert "is not a name for a skill" in ran.err
