"""Where skills are found, under which name, and which of several counts."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.problems import Problem

WriteSkill = Callable[..., Path]

SKILL = "---\nname: {name}\ndescription: {description}\n---\n\nDo it.\n"

# Imports and reads once while everything may be read, then gives up the rights of root.
AS_NOBODY = """
import json, os, sys
from skillpouch import SkillManager
SkillManager(sys.argv[1], cache=False).tools
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
manager = SkillManager(sys.argv[1], cache=False)
tools = [tool.id for tool in manager.tools]
problems = [[problem.path, problem.code, problem.severity] for problem in manager.problems]
names = [skill.name for skill in manager.list_skills()]
print(json.dumps([names, tools, problems, manager.found, manager.skipped]))
"""


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


def problems(manager: SkillManager, code: str) -> list[Problem]:
    return [problem for problem in manager.problems if problem.code == code]


def test_the_user_is_searched_first_then_the_project_and_later_folders_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(project)
    order = [
        home / ".claude/skills",
        home / ".agents/skills",
        project / "skills",
        project / ".opencode/skills",
        project / ".claude/skills",
        project / ".agents/skills",
    ]

    winners = []
    for root in order:
        write(root / "greet/SKILL.md", "greet", f"From {root}.")
        winners.append(manager_of().get_skill("greet").description)

    assert winners == [f"From {root}." for root in order]


def test_default_folders_that_are_not_there_are_no_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)

    manager = manager_of()

    assert (manager.list_skills(), manager.problems) == ([], [])


def test_skillpouch_path_replaces_the_defaults_and_its_later_folders_win(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "project/skills/hidden/SKILL.md", "hidden")
    write(tmp_path / "home/one/greet/SKILL.md", "greet", "One.")
    write(tmp_path / "two/greet/SKILL.md", "greet", "Two.")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("SKILLPOUCH_PATH", os.pathsep.join(["~/one", "", "../two"]))

    manager = manager_of()

    assert [(s.name, s.description) for s in manager.list_skills()] == [("greet", "Two.")]


def test_named_roots_replace_skillpouch_path_and_the_defaults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "skills/default/SKILL.md", "default")
    write(tmp_path / "path/listed/SKILL.md", "listed")
    write(tmp_path / "named/wanted/SKILL.md", "wanted")
    write(tmp_path / "last/also/SKILL.md", "also")
    monkeypatch.setenv("SKILLPOUCH_PATH", str(tmp_path / "path"))
    monkeypatch.chdir(tmp_path)

    manager = SkillManager("named", skills_dir=tmp_path / "last", cache=False)

    assert names(manager) == ["also", "wanted"]


def test_a_later_root_wins_and_the_shadowing_names_both_files(tmp_path: Path) -> None:
    first = write(tmp_path / "one/greet/SKILL.md", "greet", "One.")
    second = write(tmp_path / "two/greet/SKILL.md", "greet", "Two.")

    forth = manager_of(tmp_path / "one", tmp_path / "two")
    back = manager_of(tmp_path / "two", tmp_path / "one")

    assert forth.get_skill("greet").description == "Two."
    assert back.get_skill("greet").description == "One."
    for manager in (forth, back):
        [shadowed] = problems(manager, "skill-shadowed")
        said = f"{shadowed.path} {shadowed.message}"
        assert str(first) in said
        assert str(second) in said
        assert (manager.found, manager.skipped) == (2, 0)


def test_two_skills_of_one_name_below_one_root_are_reported_too(tmp_path: Path) -> None:
    write(tmp_path / "a/SKILL.md", "same", "First by path.")
    write(tmp_path / "b/SKILL.md", "same", "Second by path.")

    manager = manager_of(tmp_path)

    assert [skill.description for skill in manager.list_skills()] == ["Second by path."]
    assert len(problems(manager, "skill-shadowed")) == 1


@pytest.mark.parametrize("inner", ["adapters/codex", "Adapters/Codex", "platforms/x/greet"])
def test_a_skill_inside_one_of_the_same_name_does_not_hide_it(inner: str, tmp_path: Path) -> None:
    write(tmp_path / "greet/SKILL.md", "greet", "The skill.")
    variant = write(tmp_path / "greet" / inner / "SKILL.md", "greet", "For another agent.")

    manager = manager_of(tmp_path)

    assert [skill.description for skill in manager.list_skills()] == ["The skill."]
    [shadowed] = problems(manager, "skill-shadowed")
    assert shadowed.path == str(variant)


def test_the_same_root_named_twice_shadows_nothing(tmp_path: Path) -> None:
    write(tmp_path / "greet/SKILL.md", "greet")

    manager = manager_of(tmp_path, tmp_path)

    assert names(manager) == ["greet"]
    assert problems(manager, "skill-shadowed") == []


def test_a_root_may_itself_be_a_skill(tmp_path: Path) -> None:
    write(tmp_path / "greet/SKILL.md", "greet")

    assert names(manager_of(tmp_path / "greet")) == ["greet"]


def test_a_root_that_is_a_link_is_searched_under_the_path_its_user_knows(tmp_path: Path) -> None:
    write(tmp_path / "real/greet/SKILL.md", "greet")
    (tmp_path / "link").symlink_to(tmp_path / "real")

    [skill] = manager_of(tmp_path / "link").list_skills()

    assert Path(skill.file) == tmp_path / "link/greet/SKILL.md"
    assert Path(skill.source) == tmp_path / "link"


@pytest.mark.parametrize("kind", ["absent", "file"])
def test_a_named_root_that_is_no_folder_is_reported_and_loses_no_other(
    tmp_path: Path, kind: str
) -> None:
    write(tmp_path / "good/greet/SKILL.md", "greet")
    bad = tmp_path / "bad"
    if kind == "file":
        bad.write_text("not a folder")

    manager = manager_of(bad, tmp_path / "good")

    assert names(manager) == ["greet"]
    assert {problem.path for problem in manager.problems} == {str(bad)}


def test_a_skill_inside_a_skill_is_a_skill_of_its_own(tmp_path: Path) -> None:
    write(tmp_path / "outer/SKILL.md", "outer")
    write(tmp_path / "outer/more/inner/SKILL.md", "inner")

    assert names(manager_of(tmp_path)) == ["inner", "outer"]


@pytest.mark.parametrize("folder", [".git", "node_modules", "__pycache__"])
def test_folders_that_never_hold_skills_are_not_searched(tmp_path: Path, folder: str) -> None:
    write(tmp_path / "greet/SKILL.md", "greet")
    write(tmp_path / folder / "trap/SKILL.md", "trap")
    write(tmp_path / "greet" / folder / "SKILL.md", "trap")

    manager = manager_of(tmp_path)

    assert (names(manager), manager.found) == (["greet"], 1)


@pytest.mark.parametrize("spelling", ["skill.md", "Skill.md", "SKILL.MD"])
def test_other_spellings_of_the_file_name_load_with_a_warning(
    tmp_path: Path, spelling: str
) -> None:
    file = write(tmp_path / "greet" / spelling, "greet")

    manager = manager_of(tmp_path)

    assert names(manager) == ["greet"]
    assert [(p.path, p.severity) for p in manager.problems] == [(str(file), "warning")]


@pytest.mark.parametrize("spelling", ["skill.md", "Skill.md", "SKILL.MD"])
def test_the_exact_spelling_wins_over_any_other(tmp_path: Path, spelling: str) -> None:
    write(tmp_path / "greet" / spelling, "greet", "Wrong.")
    write(tmp_path / "greet/SKILL.md", "greet", "Right.")

    manager = manager_of(tmp_path)

    assert [skill.description for skill in manager.list_skills()] == ["Right."]


def test_skills_six_levels_down_are_found_and_a_bottomless_tree_is_bounded(
    tmp_path: Path,
) -> None:
    write(tmp_path / "1/2/3/4/5/6/SKILL.md", "six")
    write(tmp_path.joinpath(*["down"] * 60, "SKILL.md"), "bottom")

    manager = manager_of(tmp_path)

    assert names(manager) == ["six"]
    assert [problem.severity for problem in problems(manager, "too-deep")] == ["warning"]


def test_a_root_with_too_many_folders_is_searched_up_to_a_bound_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "skillpouch.discovery.walk.MAX_FOLDERS", 5
    )  # the bound itself takes minutes to reach
    for number in range(9):
        write(tmp_path / f"skill-{number}/SKILL.md", f"skill-{number}")

    manager = manager_of(tmp_path)

    assert names(manager) == [f"skill-{number}" for number in range(4)]
    assert len(problems(manager, "too-many-folders")) == 1


def test_an_unreadable_folder_and_an_unreadable_file_lose_no_neighbour() -> None:
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        root.chmod(0o755)
        write(root / "closed/secret/SKILL.md", "secret")
        closed_file = write(root / "locked/SKILL.md", "locked")
        write(root / "open/SKILL.md", "open")
        (root / "open/tools.json").write_text("[]")
        (root / "open/scripts").mkdir()
        (root / "open/scripts/ok.sh").write_text("echo ok\n")
        (root / "open/scripts/closed.sh").write_text("echo closed\n")
        for path in ("closed", "locked/SKILL.md", "open/tools.json", "open/scripts/closed.sh"):
            (root / path).chmod(0)

        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, name], capture_output=True, check=True, text=True
        )
        (root / "closed").chmod(0o755)

        skills, tools, found_problems, found, skipped = json.loads(done.stdout)
        assert (skills, tools, found, skipped) == (["open"], ["open.ok"], 2, 1)
        assert [str(root / "closed"), "folder-unreadable", "warning"] in found_problems
        errors = {path for path, _, severity in found_problems if severity == "error"}
        assert errors == {
            str(closed_file),
            str(root / "open/tools.json"),
            str(root / "open/scripts/closed.sh"),
        }


def test_a_folder_whose_name_is_not_utf8_is_a_skill_like_any_other(tmp_path: Path) -> None:
    home = tmp_path / os.fsdecode(b"caf\xe9")
    home.mkdir()
    (home / "SKILL.md").write_text("Just text.\n")

    [skill] = manager_of(tmp_path).list_skills()

    assert (skill.home, skill.description) == (home, "Just text.")
    assert skill.name.isprintable()
