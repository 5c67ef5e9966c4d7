"""The files of skills that a script can read: copies, as many as there is room for."""

import contextlib
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.shell.skill_commands import files_of
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow


def open_below(folder: Path) -> list[Path]:
    """Return what this process holds open in a folder, whatever other tests have left open."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # closed meanwhile by another thread
            found.append(descriptor.readlink())
    return [path for path in found if path.is_relative_to(folder)]


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
    home = write_skill("many", files=files)
    skills = SkillManager(home.parent).list_skills()

    found = files_of(skills)

    assert len(found) == 2_000
    assert open_below(home) == []
