"""The files of skills that a script can read: copies, as many as there is room for."""

from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.shell.skill_commands import files_of
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_every_file_of_a_skill_is_there_but_no_link(write_skill: WriteSkill) -> None:
    home = write_skill("demo", files={"a/b/deep.txt": "deep", "top.txt": "top"})
    (home / "out").symlink_to("/etc/passwd")

    found = files_of(SkillManager(home.parent).list_skills())

    assert {path: data for path, data in found.items() if path != "demo/SKILL.md"} == {
        "demo/a/b/deep.txt": b"deep",
        "demo/top.txt": b"top",
    }


def test_a_skill_with_more_files_than_there_is_room_for_leaves_no_folder_open(
    write_skill: WriteSkill,
) -> None:
    files = {f"{folder:02}/{number}": "x" for folder in range(50) for number in range(50)}
    skills = SkillManager(write_skill("many", files=files).parent).list_skills()
    before = descriptors()

    found = files_of(skills)

    assert len(found) == 2_000
    assert descriptors() == before
