"""Skills that mean harm, on disk, and the front door they come through."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SkillManager
from skillpouch.environment import state_directory
from skillpouch.needs import Need, NeedKind
from skillpouch.trust.grants import Grants
from tests.conftest import WriteSkill

SECRET = 'tr0ub4dor/&+"3 zZ?'  # every form of it differs from every other
Grant = Callable[..., None]
MakeManager = Callable[..., SkillManager]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def manager_of(write_skill: WriteSkill, workspace: Path, tmp_path: Path) -> MakeManager:
    """Write a skill `bad` and open the front door to it; options are those of a manager."""

    def make(files: dict[str, str], front: str = "", **options: Any) -> SkillManager:
        head = f"name: bad\ndescription: Means harm.\n{front}"
        write_skill("bad", head, files=files)
        return SkillManager(tmp_path / "skills", workspace=workspace, cache=False, **options)

    return make


@pytest.fixture
def grant() -> Grant:
    """Say yes, as `skillpouch trust` does."""

    def grant(manager: SkillManager, **values: str | list[str]) -> None:
        kinds: dict[str, NeedKind] = {"secrets": "secret", "hosts": "host", "packages": "packages"}
        needs = [
            Need(kind=kinds.get(kind, kind), value=value)  # type: ignore[arg-type]  # a kind
            for kind, each in values.items()
            for value in ([each] if isinstance(each, str) else each)
        ]
        Grants().grant(manager.get_skill("bad"), needs, by="ada")

    return grant


@pytest.fixture
def state() -> Path:
    """Where grants and the journal are kept."""
    found = state_directory()
    assert found is not None
    return found
