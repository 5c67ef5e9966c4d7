"""What LangChain tools are called when two want one name."""

import json
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.integrations.langchain import create_langchain_tools
from skillpouch.tools import is_wire_name, skill_wire_name

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]


def test_a_skill_keeps_its_name_and_its_namesake_is_found_as_every_door_finds_it(
    write_skill: WriteSkill, caplog: pytest.LogCaptureFixture
) -> None:
    declared = [{"name": "slug", "description": "Make one.", "script": "slug.py"}]
    files = {"tools.json": json.dumps(declared), "slug.py": "print('made')\n"}
    manager = SkillManager(write_skill("slug", files=files).parent)

    with caplog.at_level(logging.WARNING):
        skill, tool = create_langchain_tools(manager)

    assert [(each.name, (each.metadata or {})["id"]) for each in (skill, tool)] == [
        ("slug", "slug"),
        ("slug__slug", "slug.slug"),
    ]
    assert manager.get_tool("slug__slug").id == "slug.slug"
    assert "'slug' is the name of a skill" in caplog.text


def test_a_skill_called_as_one_of_skillpouchs_own_tools_does_not_take_its_name(
    write_skill: WriteSkill,
) -> None:
    root = write_skill("read").parent

    tools = create_langchain_tools(SkillManager(root, builtins=True))

    names = {(each.metadata or {})["kind"]: each.name for each in tools}
    assert [each.name for each in tools].count("read") == 1
    assert names["skill"].startswith("read__skill_")


@pytest.mark.parametrize(
    ("skill", "name"),
    [
        ("pdf-extractor", "pdf-extractor"),
        ("data-tools:csv", "data-tools__csv"),
        ("my.skill", "skill__my__skill_7a4ef5b9"),
        ("x" * 65, "skill__" + "x" * 48 + "_" + "0" * 8),
        ("日記", ""),
    ],
)
def test_every_skill_has_a_name_that_models_accept(skill: str, name: str) -> None:
    made = skill_wire_name(skill)

    assert is_wire_name(made)
    assert made[:-8] == name[:-8] or not name
    assert skill_wire_name(f"{skill}x") != made
