"""Granted packages are installed once and pinned to what came."""

from pathlib import Path

import pytest

from kitbag import SkillManager
from kitbag.needs import Need
from kitbag.pinning import pin_packages
from kitbag.trust.grants import Grants
from tests.conftest import WriteSkill
from tests.environments.conftest import registry as registry  # noqa: PLC0414 - a fixture
from tests.environments.conftest import with_uv as with_uv  # noqa: PLC0414 - a fixture
from tests.environments.registry import Registry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120), pytest.mark.usefixtures("with_uv")]


async def pinned(home: Path, *packages: str, name: str = "demo") -> tuple[str, ...] | None:
    manager = SkillManager(home.parent, cache=False)
    skill = manager.get_skill(name)
    if packages:
        Grants().grant(skill, [Need(kind="packages", value=each) for each in packages])
    said: list[str] = []
    grant = await pin_packages(skill, manager.get_skill_tools(name), Grants(), said.append)
    return grant.packages if grant else None


async def test_a_loose_package_is_pinned_to_the_version_that_came(
    registry: Registry, write_skill: WriteSkill
) -> None:
    for version in ("1.0", "2.0"):
        registry.add_wheel("quokka", version)
    home = write_skill(files={"scripts/x.py": "import quokka\n"})

    assert await pinned(home, "quokka") == ("quokka==2.0",)
    registry.add_wheel("quokka", "3.0")
    assert await pinned(home) == ("quokka==2.0",)


async def test_what_is_pinned_already_is_not_installed_for_it(
    registry: Registry, write_skill: WriteSkill
) -> None:
    home = write_skill(files={"scripts/x.py": "import quokka\n"})

    assert await pinned(home, "quokka==1.0", "npm:ws") == ("npm:ws", "quokka==1.0")
    assert registry.asked == []


async def test_without_a_grant_or_a_python_script_nothing_is_pinned(
    registry: Registry, write_skill: WriteSkill
) -> None:
    home = write_skill(files={"scripts/x.py": "import quokka\n"})
    other = write_skill("shell", files={"scripts/x.sh": "echo\n"})

    assert await pinned(home) is None
    assert await pinned(other, "quokka", name="shell") == ("quokka",)
    assert registry.asked == []
