"""Inline Python has the packages that its own text declares, or its skill."""

import json
from pathlib import Path

import pytest

from skillpouch import Policy, SkillManager
from tests.conftest import WriteSkill
from tests.provision.packages.registry import Registry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.usefixtures("with_uv")]
BLOCK = '# /// script\n# dependencies = ["quokka==1.0"]\n# ///\n'
USE = "import quokka\nprint('quokka', quokka.VERSION)\n"


def manager_of(write_skill: WriteSkill, tmp_path: Path, text: str, **files: str) -> SkillManager:
    backend = {"type": "script", "interpreter": "python3", "script": text}
    tools = json.dumps([{"name": "use", "description": "d", "backend": backend}])
    home = write_skill(front=f"name: demo\ndescription: d\ntools: {tools}\n", files=files)
    (tmp_path / "work").mkdir()
    return SkillManager(home.parent, policy=Policy.trusting(), workspace=tmp_path / "work")


def test_a_block_in_the_text_is_installed_and_found(
    registry: Registry, write_skill: WriteSkill, tmp_path: Path
) -> None:
    for version in ("1.0", "2.0"):
        registry.add_wheel("quokka", version)
    manager = manager_of(write_skill, tmp_path, BLOCK + USE)

    first, second = manager.call("use", {}), manager.call("use", {})

    assert (first.stdout, second.stdout) == ("quokka 1.0\n", "quokka 1.0\n")


def test_the_requirements_of_the_skill_hold_for_its_texts_too(
    registry: Registry, write_skill: WriteSkill, tmp_path: Path
) -> None:
    registry.add_wheel("quokka", "2.0")
    files = {"requirements.txt": "quokka\n"}

    result = manager_of(write_skill, tmp_path, USE, **files).call("use", {})

    assert result.stdout == "quokka 2.0\n"
