"""Grants, digests and copies: what runs is what was checked, also while it is edited."""

import tempfile
from pathlib import Path

import pytest

from kitbag import SkillManager
from kitbag.needs import Need
from kitbag.skills import Skill
from kitbag.trust.grants import Grants
from tests.watching import skills

pytestmark = pytest.mark.timeout(180)  # longer than what is waited for
KEY = Need(kind="secret", value="API_KEY")
TELL = '"""Tell."""\nimport os\n\n\ndef handler(args):\n    return "API_KEY" in os.environ\n'


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("API_KEY", "hunter2hunter2")
    (tmp_path / "work").mkdir()
    home = skills.write(tmp_path / "skills" / "demo")
    (home / "scripts/tell.py").write_text(TELL)
    return tmp_path / "skills"


def grant(manager: SkillManager) -> Skill:
    skill = manager.get_skill("demo")
    Grants().grant(skill, [KEY])
    return skill


@pytest.mark.promise("watch-2")
def test_an_edit_ends_a_grant_and_a_half_written_file_does_not(root: Path) -> None:
    manager = SkillManager(root, workspace=root.parent / "work")
    with manager.watch(polling=True, poll_seconds=3600, settle_seconds=0.02):
        grant(manager)
        assert manager.call("demo.tell").structured is True

        (root / "demo/scripts/tell.py").write_text(TELL[: TELL.index("args")])
        manager.discover()
        assert manager.call("demo.tell").structured is True

        (root / "demo/scripts/tell.py").write_text(f"{TELL}\n")
        manager.discover()

        assert manager.call("demo.tell").structured is False


@pytest.mark.promise("watch-1")
def test_what_was_edited_and_not_yet_seen_gets_no_grant_and_does_not_run(root: Path) -> None:
    manager = SkillManager(root, workspace=root.parent / "work")
    with manager.watch(polling=True, poll_seconds=3600, settle_seconds=0.02):
        grant(manager)
        (root / "demo/scripts/tell.py").write_text(
            '"""Tell."""\ndef handler(args):\n    return 1\n'
        )

        assert manager.call("demo.tell").structured is True

        manager.discover()
        assert manager.call("demo.tell").structured == 1


@pytest.mark.promise("watch-3")
@pytest.mark.parametrize("place", ["", "/..", "/../..", "/scripts"])
def test_no_tool_writes_the_copies_even_inside_the_workspace(
    root: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    work = root.parent / "work"
    (work / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(work / "tmp"))
    (root / "demo/scripts/plant.py").write_text(
        '"""Plant."""\nimport os\n\n\ndef handler(args):\n'
        f'    open(os.environ["SKILL_BASE_DIR"] + "{place}/planted.py", "w")\n'
    )
    manager = SkillManager(root, workspace=work)
    with manager.watch(polling=True, poll_seconds=3600):
        result = manager.call("demo.plant")

    assert (result.outcome, "Read-only file system" in result.stderr) == ("failed", True)
    assert not list(work.rglob("planted.py"))


def test_a_skill_that_cannot_be_copied_runs_from_its_folder_and_says_so(root: Path) -> None:
    (root / "demo/out").symlink_to(root.parent)
    manager = SkillManager(root, workspace=root.parent / "work")
    with manager.watch(polling=True, poll_seconds=3600, settle_seconds=0.02):
        [problem] = [each for each in manager.problems if each.code == "skill-not-copied"]
        assert (problem.severity, "leads out of the skill" in problem.message) == ("info", True)

        (root / "demo/scripts/say.py").write_text(skills.script(2))
        manager.discover()

        assert manager.call("demo.say").structured == [2, 2]
