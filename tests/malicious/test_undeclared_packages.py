"""A package that a script imports and nobody declares: refused, proposed, granted, pinned, used."""

import subprocess
import sys
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.policy import Answer, Approver, Policy, Question
from skillpouch.trust.grants import Grants
from tests.malicious.conftest import Grant, MakeManager
from tests.provision.packages.conftest import registry as registry  # noqa: PLC0414 - a fixture
from tests.provision.packages.conftest import with_uv as with_uv  # noqa: PLC0414 - a fixture
from tests.provision.packages.registry import Registry

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180), pytest.mark.usefixtures("with_uv")]

USE = {"scripts/use.py": "import quokka\nprint('quokka', quokka.VERSION)\n"}


@pytest.fixture
def packages(registry: Registry) -> Registry:
    for version in ("1.0", "2.0"):
        registry.add_wheel("quokka", version)
    return registry


def test_a_failed_import_names_the_command_and_the_command_makes_it_work(
    packages: Registry, manager_of: MakeManager, tmp_path: Path
) -> None:
    manager = manager_of(USE)
    failed = manager.call("bad.use")
    command = f"skillpouch trust bad --package quokka --root {tmp_path}/skills"

    assert failed.outcome == "failed"
    assert f"`{command}`" in failed.content
    subprocess.run(
        [sys.executable, "-m", *command.split(), "--yes"],
        cwd=tmp_path,
        capture_output=True,
        check=True,
    )
    grant = Grants().for_skill(manager.get_skill("bad"))
    assert grant is not None
    assert grant.packages == ("quokka==2.0",)
    before = len(packages.asked)
    assert manager.call("bad.use").stdout == "quokka 2.0\n"
    assert len(packages.asked) == before, "it was installed when it was granted"


@pytest.mark.usefixtures("packages")
def test_a_pin_stays_when_a_newer_version_comes(manager_of: MakeManager, grant: Grant) -> None:
    manager = manager_of(USE)
    grant(manager, packages="quokka==1.0")

    assert manager.call("bad.use").stdout == "quokka 1.0\n"


@pytest.mark.usefixtures("packages")
def test_a_changed_skill_has_no_packages_any_more(
    manager_of: MakeManager, grant: Grant, tmp_path: Path
) -> None:
    manager = manager_of(USE)
    grant(manager, packages="quokka==1.0")
    assert manager.call("bad.use").outcome == "ok"

    (tmp_path / "skills/bad/new").touch()

    assert "No module named 'quokka'" in manager.call("bad.use").stderr


def test_nothing_is_installed_without_a_yes(packages: Registry, manager_of: MakeManager) -> None:
    manager_of(USE).call("bad.use")

    assert packages.asked == []


def test_packages_that_nobody_declared_are_installed_when_the_approver_was_shown_them(
    packages: Registry, manager_of: MakeManager
) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(yes=True)

    manager = manager_of(USE, approver=approve, policy=Policy.strict())
    result = manager.call("bad.use")

    assert (len(asked), result.outcome) == (1, "ok")
    assert [need.kind for need in asked[0].needs] == ["packages"]
    assert packages.asked != []


@pytest.mark.promise("grant-1")
@pytest.mark.usefixtures("packages")
def test_always_for_a_package_that_nobody_declared_holds_until_the_skill_changes(
    manager_of: MakeManager, workspace: Path, tmp_path: Path
) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(yes=True, remember="always")

    def another(approver: Approver | None = None) -> SkillManager:
        """Return the front door of another process: what was said is only on disk."""
        return SkillManager(
            tmp_path / "skills", workspace=workspace, cache=False, approver=approver
        )

    said = [manager_of(USE, approver=approve).call("bad.use")]
    said += [another(approve).call("bad.use"), another().call("bad.use")]
    grant = Grants().for_skill(another().get_skill("bad"))
    (tmp_path / "skills/bad/new").touch()
    changed = another().call("bad.use")

    assert [each.stdout for each in said] == ["quokka 2.0\n"] * 3
    assert grant is not None
    assert (grant.packages, grant.tools, grant.by) == (("quokka",), ("bad.use",), "approver")
    assert "No module named 'quokka'" in changed.stderr
    assert Grants().for_skill(another().get_skill("bad")) is None
    assert len(asked) == 1
    assert another(approve).call("bad.use").outcome == "ok"
    assert len(asked) == 2
