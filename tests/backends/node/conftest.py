"""One skill of handlers, called by a manager that keeps Node waiting and by one that does not."""

from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import Limits, SkillManager
from tests.backends.node.cases import SAME, SIBLING

NewManager = Callable[..., SkillManager]


@pytest.fixture(scope="package")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the skill `cases` and a workspace, for all tests: what waits, waits for all."""
    folder = tmp_path_factory.mktemp("node")
    scripts = folder / "skills/cases/scripts"
    (scripts / "lib").mkdir(parents=True)
    (folder / "workspace").mkdir()
    (folder / "skills/cases/SKILL.md").write_text("---\nname: cases\ndescription: d\n---\n")
    (scripts / "lib/sibling.mjs").write_text(SIBLING)
    (scripts / "lib/broken.mjs").write_text("export default (\n")
    for name, text in SAME.items():
        (scripts / name).write_text(text)
    return folder


@pytest.fixture(scope="package")
def warm(folder: Path) -> SkillManager:
    limits = Limits(timeout_seconds=20)
    return SkillManager(
        folder / "skills", workspace=folder / "workspace", cache=False, limits=limits
    )


@pytest.fixture(scope="package")
def cold(folder: Path) -> SkillManager:
    """The same calls, each in a process of its own: waiting would use up its processor time."""
    limits = Limits(timeout_seconds=20, cpu_seconds=60)
    return SkillManager(
        folder / "skills", workspace=folder / "workspace", cache=False, limits=limits
    )


@pytest.fixture
def manager_of(tmp_path: Path) -> NewManager:
    """Write a skill of scripts, and return a manager for it."""

    def make(scripts: dict[str, str], limits: Limits | None = None) -> SkillManager:
        home = tmp_path / "skills/s"
        (home / "scripts").mkdir(parents=True)
        (home / "SKILL.md").write_text("---\nname: s\ndescription: d\n---\n")
        for name, text in scripts.items():
            (home / "scripts" / name).write_text(text)
        (tmp_path / "workspace").mkdir()
        return SkillManager(
            tmp_path / "skills", workspace=tmp_path / "workspace", cache=False, limits=limits
        )

    return make
