"""Granted packages are installed once and pinned to what came."""

from pathlib import Path

import pytest

from skillpouch import Policy, SkillManager
from skillpouch.needs import Need
from skillpouch.provision.packages.lookup import pinned_packages
from skillpouch.trust.grants import Grants
from skillpouch.trust.requested_packages import propose_packages
from tests.conftest import WriteSkill
from tests.provision.packages.conftest import registry as registry  # noqa: PLC0414 - a fixture
from tests.provision.packages.conftest import with_uv as with_uv  # noqa: PLC0414 - a fixture
from tests.provision.packages.registry import Registry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.usefixtures("with_uv")]


async def pinned(home: Path, *packages: str, name: str = "demo") -> tuple[str, ...]:
    """Say yes to packages, as `skillpouch trust` does; return what the skill has then."""
    manager = SkillManager(home.parent, cache=False)
    skill, grants = manager.get_skill(name), Grants()
    had = grants.for_skill(skill)
    wanted = [Need(kind="packages", value=each) for each in packages]
    needs = await pinned_packages(
        skill,
        manager.get_skill_tools(name),
        wanted,
        lambda _line: None,
        granted=had.packages if had else (),
    )
    return grants.grant(skill, needs).packages


async def test_a_loose_package_is_pinned_to_the_version_that_came(
    registry: Registry, write_skill: WriteSkill
) -> None:
    for version in ("1.0", "2.0"):
        registry.add_wheel("quokka", version)
    home = write_skill(files={"scripts/x.py": "import quokka\nprint(quokka.VERSION)\n"})

    assert await pinned(home, "quokka") == ("quokka==2.0",)
    registry.add_wheel("quokka", "3.0")
    assert await pinned(home) == ("quokka==2.0",)


async def test_what_is_pinned_already_is_not_installed_for_it(
    registry: Registry, write_skill: WriteSkill
) -> None:
    home = write_skill(files={"scripts/x.py": "import quokka\nprint(quokka.VERSION)\n"})

    assert await pinned(home, "quokka==1.0", "npm:ws") == ("npm:ws", "quokka==1.0")
    assert registry.asked == []


async def test_a_call_finds_what_was_installed_for_the_yes(
    registry: Registry, write_skill: WriteSkill, tmp_path: Path
) -> None:
    registry.add_wheel("quokka", "2.0")
    script = "import quokka\nprint(quokka.VERSION)\n"
    home = write_skill(files={"scripts/x.py": script})
    await pinned(home, "quokka")
    asked = list(registry.asked)
    said: list[str] = []
    manager = SkillManager(home.parent, workspace=tmp_path, on_progress=said.append)

    result = await manager.acall("demo.x")

    assert (result.stdout, said) == ("2.0\n", [])
    assert registry.asked == asked


async def test_no_note_names_a_package_that_is_granted_already(
    registry: Registry, write_skill: WriteSkill, tmp_path: Path
) -> None:
    registry.add_wheel("quokka", "2.0")
    script = "import quokka\n__import__('wombat')\n"
    home = write_skill(files={"scripts/x.py": script})
    await pinned(home, "quokka")

    result = await SkillManager(home.parent, workspace=tmp_path).acall("demo.x")

    assert "No module named 'wombat'" in result.content
    assert "note:" not in result.content


async def test_what_a_skill_declares_keeps_the_versions_it_declares(
    registry: Registry, write_skill: WriteSkill
) -> None:
    registry.add_wheel("quokka", "2.0")
    registry.add_wheel("wombat", "1.0")
    files = {"scripts/x.py": "import quokka, wombat\nprint(1)\n", "requirements.txt": "quokka>=1\n"}
    home = write_skill(files=files)

    assert await pinned(home, "quokka>=1", "wombat") == ("quokka>=1", "wombat==1.0")


async def test_without_a_grant_or_a_python_script_nothing_is_pinned(
    registry: Registry, write_skill: WriteSkill
) -> None:
    home = write_skill(files={"scripts/x.py": "import quokka\nprint(quokka.VERSION)\n"})
    other = write_skill("shell", files={"scripts/x.sh": "echo\n"})

    assert await pinned(home) == ()
    assert await pinned(other, "quokka", name="shell") == ("quokka",)
    assert registry.asked == []


async def test_what_an_installed_package_brings_is_not_proposed(
    registry: Registry, write_skill: WriteSkill, tmp_path: Path
) -> None:
    files = {"cv2/__init__.py": "", "visionkit/__init__.py": ""}
    registry.add_wheel("visionkit", files=files, requires="deeplamp")
    registry.add_wheel("deeplamp", files={"fitz.py": ""})
    script = "import cv2, fitz, quokka\nprint(1)\n"
    home = write_skill(files={"scripts/x.py": script, "requirements.txt": "visionkit\n"})
    manager = SkillManager(home.parent, workspace=tmp_path, policy=Policy.trusting())
    skill, tools = manager.get_skill("demo"), manager.get_skill_tools("demo")

    before = [each.package for each in propose_packages(skill, tools)]
    result = await manager.acall("demo.x")
    after = [each.package for each in propose_packages(skill, tools)]

    assert before == ["opencv-python", "PyMuPDF", "quokka"]
    assert after == ["quokka"]
    assert "No module named 'quokka'" in result.content
    assert "(quokka, a guess)" in result.content.splitlines()[-1]
