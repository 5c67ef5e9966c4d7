"""Script discovery FR-205.1 and FR-205.3: scripts refused when called, not only when read."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import SkillManager, Tool
from skillpouch.errors import CallDeniedError, SkillInvocationError, SkillpouchError

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]

LEAVES_A_TRACE = "#!/bin/bash\ntouch ran\n"
# What a tools.json needs to make the same script a declared tool.
DECLARES_RUN = json.dumps([{"name": "run", "description": "Runs", "script": "scripts/run.sh"}])


def manager_over(home: Path) -> SkillManager:
    workspace = home.parent.parent / "work"
    workspace.mkdir()
    manager = SkillManager(home.parent, workspace=workspace)
    manager.discover()
    return manager


def only_tool(manager: SkillManager) -> Tool:
    [tool] = manager.get_skill_tools("my-skill")
    return tool


@pytest.mark.parametrize("bit", [0o4000, 0o2000, 0o6000], ids=["setuid", "setgid", "both"])
@pytest.mark.parametrize("files", [{}, {"tools.json": DECLARES_RUN}], ids=["found", "declared"])
def test_fr_205_3_a_script_with_setuid_or_setgid_is_not_executed(
    write_skill: WriteSkill, tmp_path: Path, bit: int, files: dict[str, str]
) -> None:
    home = write_skill("my-skill", files={"scripts/run.sh": LEAVES_A_TRACE, **files})
    (home / "scripts" / "run.sh").chmod(0o755 | bit)
    manager = manager_over(home)

    with pytest.raises(CallDeniedError, match=r"run\.sh"):
        manager.call("my-skill.run")
    with pytest.raises(CallDeniedError, match=r"run\.sh"):
        manager.execute_skill_script("my-skill", "scripts/run.sh")
    assert not (tmp_path / "work" / "ran").exists()


def test_fr_205_3_is_looked_at_when_the_script_is_called(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = write_skill("my-skill", files={"scripts/run.sh": LEAVES_A_TRACE})
    manager = manager_over(home)
    assert manager.call("my-skill.run").outcome == "ok"
    (tmp_path / "work" / "ran").unlink()

    (home / "scripts" / "run.sh").chmod(0o4755)
    with pytest.raises(CallDeniedError):
        manager.call("my-skill.run")
    (home / "scripts" / "run.sh").chmod(0o755)

    assert not (tmp_path / "work" / "ran").exists()
    assert manager.call("my-skill.run").outcome == "ok"


@pytest.mark.parametrize(
    "path",
    [
        "../outside.sh",
        "scripts/../../outside.sh",
        "../other/scripts/run.sh",
        "scripts/../../other/scripts/run.sh",
        "{skills}/outside.sh",
        "{skills}/other/scripts/run.sh",
        "scripts/linked.sh",
        "linked/run.sh",
    ],
)
def test_fr_205_1_a_path_that_leaves_the_skill_is_refused(
    write_skill: WriteSkill, tmp_path: Path, path: str
) -> None:
    write_skill("other", files={"scripts/run.sh": LEAVES_A_TRACE})
    home = write_skill("my-skill", files={"scripts/run.sh": LEAVES_A_TRACE})
    (home.parent / "outside.sh").write_text(LEAVES_A_TRACE)
    (home / "scripts" / "linked.sh").symlink_to(home.parent / "outside.sh")
    (home / "linked").symlink_to(home.parent / "other" / "scripts")
    manager = manager_over(home)

    with pytest.raises(SkillpouchError):
        manager.execute_skill_script("my-skill", path.format(skills=home.parent))

    assert not (tmp_path / "work" / "ran").exists()


@pytest.mark.parametrize("replaced", ["scripts/run.sh", "scripts"])
@pytest.mark.parametrize("files", [{}, {"tools.json": DECLARES_RUN}], ids=["found", "declared"])
def test_fr_205_1_a_script_that_became_a_link_out_of_its_skill_is_refused_when_called(
    write_skill: WriteSkill, tmp_path: Path, replaced: str, files: dict[str, str]
) -> None:
    home = write_skill("my-skill", files={"scripts/run.sh": "#!/bin/bash\necho mine\n", **files})
    outside = tmp_path / "outside"
    (outside / "scripts").mkdir(parents=True)
    (outside / "scripts" / "run.sh").write_text(LEAVES_A_TRACE)
    manager = manager_over(home)
    tool = only_tool(manager)

    (home / replaced).rename(home / "before")
    (home / replaced).symlink_to(outside / replaced)

    with pytest.raises(CallDeniedError):
        manager.call("my-skill.run")
    with pytest.raises(CallDeniedError):
        tool.invoke({})
    assert not (tmp_path / "work" / "ran").exists()


def test_fr_205_1_a_link_that_stays_inside_the_skill_runs(write_skill: WriteSkill) -> None:
    home = write_skill("my-skill", files={"scripts/run.sh": "#!/bin/bash\necho mine\n"})
    (home / "scripts" / "also.sh").symlink_to("run.sh")
    manager = manager_over(home)

    result = manager.execute_skill_script("my-skill", "scripts/also.sh")

    assert (result.outcome, result.content) == ("ok", "mine")


# What a caller sees when a script is gone is an error of the start, never a result of the tool.
def test_a_script_that_is_gone_when_called_could_not_be_started(write_skill: WriteSkill) -> None:
    home = write_skill("my-skill", files={"scripts/run.sh": LEAVES_A_TRACE})
    manager = manager_over(home)
    tool = only_tool(manager)
    shutil.rmtree(home / "scripts")

    with pytest.raises(SkillpouchError) as raised:
        tool.invoke({})

    assert not isinstance(raised.value, SkillInvocationError)
    assert "run.sh" in str(raised.value)
