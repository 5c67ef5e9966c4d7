"""`plugin:skill`: what `.claude-plugin/plugin.json` does to the names of skills."""

import json
from pathlib import Path

import pytest

from skillpouch import SkillManager

SKILL = "---\nname: {name}\ndescription: It helps.\n---\n\nDo it.\n"


def write(path: Path, name: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SKILL.format(name=name))
    return path


def name_plugin(folder: Path, text: str) -> None:
    (folder / ".claude-plugin").mkdir(parents=True)
    (folder / ".claude-plugin/plugin.json").write_text(text)


def manager_of(root: Path) -> SkillManager:
    manager = SkillManager(root, cache=False)
    manager.discover()
    return manager


def names(manager: SkillManager) -> list[str]:
    return sorted(skill.name for skill in manager.list_skills())


def test_a_plugin_names_every_skill_below_it(tmp_path: Path) -> None:
    write(tmp_path / "tools/skills/greet/SKILL.md", "greet")
    write(tmp_path / "tools/skills/deep/er/SKILL.md", "er")
    write(tmp_path / "outside/SKILL.md", "outside")
    name_plugin(tmp_path / "tools", '{"name": "office"}')

    manager = manager_of(tmp_path)

    assert names(manager) == ["office:er", "office:greet", "outside"]
    assert manager.get_skill("greet") == manager.get_skill("office:greet")


def test_skills_of_one_name_in_two_plugins_do_not_shadow_each_other(tmp_path: Path) -> None:
    for plugin in ("one", "two"):
        write(tmp_path / plugin / "greet/SKILL.md", "greet")
        name_plugin(tmp_path / plugin, json.dumps({"name": plugin}))

    manager = manager_of(tmp_path)

    assert names(manager) == ["one:greet", "two:greet"]
    assert manager.problems == []


@pytest.mark.parametrize("name", ["", "a/b", "../up", "a:b", "a.b", "x" * 65, 7, None, "new\nline"])
def test_a_plugin_without_a_usable_name_loses_only_the_name(tmp_path: Path, name: object) -> None:
    write(tmp_path / "greet/SKILL.md", "greet")
    name_plugin(tmp_path, json.dumps({"name": name}))

    manager = manager_of(tmp_path)

    assert names(manager) == ["greet"]
    assert [Path(problem.path).name for problem in manager.problems] == ["plugin.json"]


def test_the_innermost_plugin_gives_the_name(tmp_path: Path) -> None:
    write(tmp_path / "outer/inner/greet/SKILL.md", "greet")
    write(tmp_path / "outer/help/SKILL.md", "help")
    name_plugin(tmp_path / "outer", '{"name": "outer"}')
    name_plugin(tmp_path / "outer/inner", '{"name": "inner"}')

    assert names(manager_of(tmp_path)) == ["inner:greet", "outer:help"]


def test_a_byte_order_mark_before_the_json_does_not_matter(tmp_path: Path) -> None:
    write(tmp_path / "greet/SKILL.md", "greet")
    name_plugin(tmp_path, '\ufeff{"name": "office"}')

    manager = manager_of(tmp_path)

    assert (names(manager), manager.problems) == (["office:greet"], [])


def test_a_plugin_folder_without_the_file_names_nothing(tmp_path: Path) -> None:
    write(tmp_path / "greet/SKILL.md", "greet")
    (tmp_path / ".claude-plugin").mkdir()

    manager = manager_of(tmp_path)

    assert (names(manager), manager.problems) == (["greet"], [])


def test_a_skill_inside_the_plugin_folder_is_no_skill(tmp_path: Path) -> None:
    write(tmp_path / ".claude-plugin/greet/SKILL.md", "greet")

    assert names(manager_of(tmp_path)) == []


def test_a_bare_name_finds_a_plugins_skill_only_while_it_is_the_only_one(tmp_path: Path) -> None:
    write(tmp_path / "greet/SKILL.md", "greet")
    write(tmp_path / "one/greet/SKILL.md", "greet")
    name_plugin(tmp_path / "one", '{"name": "one"}')

    manager = manager_of(tmp_path)

    assert manager.get_skill("greet").name == "greet"
    assert manager.get_skill("one:greet").name == "one:greet"


def test_a_plugin_json_that_is_a_link_out_of_the_root_is_not_read(tmp_path: Path) -> None:
    write(tmp_path / "root/greet/SKILL.md", "greet")
    (tmp_path / "elsewhere.json").write_text('{"name": "foreign"}')
    (tmp_path / "root/.claude-plugin").mkdir()
    (tmp_path / "root/.claude-plugin/plugin.json").symlink_to(tmp_path / "elsewhere.json")

    manager = manager_of(tmp_path / "root")

    assert names(manager) == ["greet"]
    assert [Path(problem.path).name for problem in manager.problems] == ["plugin.json"]
