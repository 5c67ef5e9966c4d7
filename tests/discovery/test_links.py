"""Links among skills: followed inside the named roots, counted once, never a way out."""

from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.errors import SkillUnreadableError
from tests.conftest import WriteSkill

SKILL = "---\nname: {name}\ndescription: {description}\n---\n\nDo it.\n"


def write(path: Path, name: str, description: str = "It helps.") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(SKILL.format(name=name, description=description))
    return path


def manager_of(*roots: Path) -> SkillManager:
    manager = SkillManager(*roots, cache=False)
    manager.discover()
    return manager


def names(manager: SkillManager) -> list[str]:
    return sorted(skill.name for skill in manager.list_skills())


def told(manager: SkillManager) -> list[tuple[str, str, str]]:
    return [(problem.path, problem.code, problem.severity) for problem in manager.problems]


@pytest.mark.parametrize("target", [".", "..", "../..", "../greet/loop"])
def test_a_loop_of_links_ends(tmp_path: Path, target: str) -> None:
    root = tmp_path / "root"
    write(root / "greet/SKILL.md", "greet")
    (root / "greet/loop").symlink_to(target)

    manager = manager_of(root)

    assert (names(manager), manager.found) == (["greet"], 1)


def test_two_links_to_each_other_end(tmp_path: Path) -> None:
    write(tmp_path / "greet/SKILL.md", "greet")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    assert names(manager_of(tmp_path)) == ["greet"]


def test_a_folder_link_that_leaves_the_root_is_skipped_and_says_where_it_leads(
    tmp_path: Path,
) -> None:
    write(tmp_path / "outside/trap/SKILL.md", "trap")
    write(tmp_path / "root/greet/SKILL.md", "greet")
    link = tmp_path / "root/more"
    link.symlink_to(tmp_path / "outside")

    manager = manager_of(tmp_path / "root")

    assert names(manager) == ["greet"]
    assert told(manager) == [(str(link), "link-leaves-root", "warning")]
    assert str(tmp_path / "outside") in manager.problems[0].message


def test_a_file_link_that_leaves_the_root_is_a_skipped_skill(tmp_path: Path) -> None:
    outside = write(tmp_path / "outside/trap/SKILL.md", "trap")
    write(tmp_path / "root/greet/SKILL.md", "greet")
    link = tmp_path / "root/trap/SKILL.md"
    link.parent.mkdir()
    link.symlink_to(outside)

    manager = manager_of(tmp_path / "root")

    assert (names(manager), manager.found, manager.skipped) == (["greet"], 2, 1)
    assert told(manager) == [(str(link), "link-leaves-root", "error")]


def test_a_root_is_not_left_towards_a_folder_whose_name_begins_like_it(tmp_path: Path) -> None:
    write(tmp_path / "root-of-others/trap/SKILL.md", "trap")
    (tmp_path / "root").mkdir()
    (tmp_path / "root/more").symlink_to(tmp_path / "root-of-others")

    assert names(manager_of(tmp_path / "root")) == []


def test_a_link_may_lead_into_another_named_root(tmp_path: Path) -> None:
    write(tmp_path / "library/pdf/SKILL.md", "pdf")
    (tmp_path / "chosen").mkdir()
    (tmp_path / "chosen/pdf").symlink_to(tmp_path / "library/pdf")

    alone = manager_of(tmp_path / "chosen")
    both = manager_of(tmp_path / "library", tmp_path / "chosen")

    assert names(alone) == []
    assert names(both) == ["pdf"]
    assert {problem.severity for problem in both.problems} <= {"info"}


def test_a_link_inside_the_root_to_a_skill_file_is_followed(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared/greet.md").write_text(SKILL.format(name="greet", description="Shared."))
    (tmp_path / "greet").mkdir()
    (tmp_path / "greet/SKILL.md").symlink_to("../shared/greet.md")

    [skill] = manager_of(tmp_path).list_skills()

    assert (skill.name, skill.description, skill.home) == ("greet", "Shared.", tmp_path / "greet")


def test_an_alias_of_a_folder_is_the_same_skill_and_the_real_path_counts(tmp_path: Path) -> None:
    real = write(tmp_path / "zebra/SKILL.md", "zebra")
    (tmp_path / "alias").symlink_to("zebra")

    manager = manager_of(tmp_path)

    assert [skill.file for skill in manager.list_skills()] == [str(real)]
    assert (manager.found, manager.skipped) == (1, 0)
    assert {problem.severity for problem in manager.problems} == {"info"}


def test_dangling_links_are_skipped_and_only_a_skill_file_is_worth_an_error(
    tmp_path: Path,
) -> None:
    write(tmp_path / "greet/SKILL.md", "greet")
    (tmp_path / "gone").symlink_to("nowhere")
    (tmp_path / "lost").mkdir()
    (tmp_path / "lost/SKILL.md").symlink_to("nowhere")

    manager = manager_of(tmp_path)

    assert (names(manager), manager.found, manager.skipped) == (["greet"], 2, 1)
    assert told(manager) == [(str(tmp_path / "lost/SKILL.md"), "link-dangling", "error")]


def test_a_link_of_the_exact_spelling_wins_over_a_file_of_another(tmp_path: Path) -> None:
    write(tmp_path / "greet/skill.md", "greet", "Wrong.")
    write(tmp_path / "greet/page.md", "greet", "Right.")
    (tmp_path / "greet/SKILL.md").symlink_to("page.md")

    manager = manager_of(tmp_path)

    assert [skill.description for skill in manager.list_skills()] == ["Right."]
    assert manager.found == 1


def test_a_skill_file_that_links_to_a_folder_loses_no_neighbour(tmp_path: Path) -> None:
    write(tmp_path / "greet/SKILL.md", "greet")
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/SKILL.md").symlink_to("../greet")

    assert names(manager_of(tmp_path)) == ["greet"]


@pytest.mark.parametrize("target", ["/dev/zero", "/dev/stdin", "/proc/self/mem"])
def test_a_skill_file_that_links_to_a_device_is_never_read(tmp_path: Path, target: str) -> None:
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd/SKILL.md").symlink_to(target)

    manager = manager_of(tmp_path)

    assert (names(manager), manager.skipped) == ([], 1)


def test_tools_json_and_scripts_that_link_out_of_the_skill_give_no_tool(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "tools.json").write_text(
        '[{"name": "evil", "description": "Not the skill\'s own."}]'
    )
    (outside / "evil.py").write_text("print('evil')\n")
    (outside / "manifest.yml").write_text("tools: [{name: evil, script: own.py}]\n")
    home = write(tmp_path / "root/greet/SKILL.md", "greet").parent
    (home / "scripts").mkdir()
    (home / "scripts/own.py").write_text("print('own')\n")
    (home / "tools.json").symlink_to(outside / "tools.json")
    (home / "scripts/evil.py").symlink_to(outside / "evil.py")
    (home / "scripts/manifest.yml").symlink_to(outside / "manifest.yml")

    manager = manager_of(tmp_path / "root")

    assert [tool.id for tool in manager.get_skill_tools("greet")] == ["greet.own"]
    assert {Path(problem.path).name for problem in manager.problems} == {
        "tools.json",
        "evil.py",
        "manifest.yml",
    }


def test_a_scripts_folder_that_links_out_of_the_skill_is_not_searched(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/private_name.py").write_text("print('evil')\n")
    home = write(tmp_path / "root/greet/SKILL.md", "greet").parent
    (home / "scripts").symlink_to(tmp_path / "outside")

    manager = manager_of(tmp_path / "root")

    assert manager.get_skill_tools("greet") == []
    assert {problem.path for problem in manager.problems} == {str(home / "scripts")}


@pytest.mark.promise("read-2")
def test_a_link_that_takes_the_place_of_a_skill_file_later_is_not_followed(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = write_skill("demo")
    (tmp_path / "key").write_text("hunter2")
    manager = SkillManager(tmp_path / "skills", cache=False)
    manager.list_skills()

    # As a tool can where skills lie in its workspace.
    (home / "SKILL.md").unlink()
    (home / "SKILL.md").symlink_to(tmp_path / "key")

    with pytest.raises(SkillUnreadableError, match="outside the skill"):
        manager.invoke_skill("demo")


@pytest.mark.promise("read-2")
def test_a_skill_file_that_was_a_link_leads_where_it_did_when_it_was_found(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = write_skill("demo")
    (tmp_path / "key").write_text("hunter2")
    (home / "SKILL.md").rename(tmp_path / "skills/shared.md")
    (home / "SKILL.md").symlink_to(tmp_path / "skills/shared.md")
    manager = SkillManager(tmp_path / "skills", cache=False)
    before = manager.invoke_skill("demo")

    (home / "SKILL.md").unlink()
    (home / "SKILL.md").symlink_to(tmp_path / "key")

    assert manager.invoke_skill("demo") == before
