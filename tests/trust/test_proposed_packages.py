"""Packages that nobody declared: shown to whoever can be asked, before a call that needs them."""

from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.errors import CallDeniedError
from skillpouch.needs import Need
from skillpouch.policy.approval import Question
from skillpouch.trust.requested_packages import propose_packages
from tests.conftest import WriteSkill

SCRIPT = '"""Count."""\nimport json\nimport nothing_like_it\n\nprint(1)\n'


@pytest.fixture
def root(write_skill: WriteSkill) -> Path:
    return write_skill("demo", files={"scripts/count.py": SCRIPT}).parent


def test_an_approver_is_shown_packages_that_nobody_declared(root: Path, tmp_path: Path) -> None:
    asked: list[Question] = []

    def refuse(question: Question) -> bool:
        asked.append(question)
        return False

    with pytest.raises(CallDeniedError, match="nothing_like_it"):
        SkillManager(root, workspace=tmp_path, approver=refuse).call("demo.count")

    assert [need.value for need in asked[0].needs] == ["nothing_like_it"]
    assert isinstance(asked[0].needs[0], Need)
    assert asked[0].needs[0].kind == "packages"


@pytest.mark.slow
def test_where_nobody_can_be_asked_the_failed_call_names_the_command(
    root: Path, tmp_path: Path
) -> None:
    result = SkillManager(root, workspace=tmp_path).call("demo.count")

    assert result.outcome == "failed"
    assert "skillpouch trust demo --package nothing_like_it" in result.content


OPTIONAL = """
try:
    import yaml
except ImportError:
    yaml = None
import nothing_like_it
print(nothing_like_it)
"""


@pytest.mark.slow
def test_what_the_first_grant_would_take_away_is_proposed_with_it(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    """A script without packages of its own finds those beside Skillpouch, another does not."""
    root = write_skill("demo", files={"scripts/count.py": OPTIONAL}).parent
    words = "skillpouch trust demo --package nothing_like_it --package PyYAML"

    assert words in SkillManager(root, workspace=tmp_path).call("demo.count").content


@pytest.mark.slow
def test_a_missing_program_is_no_reason_to_propose_what_is_imported(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    script = "import subprocess, yaml\nsubprocess.run(['quokka'])\n"
    root = write_skill("demo", files={"scripts/count.py": script}).parent

    assert "--package" not in SkillManager(root, workspace=tmp_path).call("demo.count").content


def test_what_is_installed_is_not_asked_for(write_skill: WriteSkill, tmp_path: Path) -> None:
    script = '"""Count."""\nimport yaml\n\nprint(1)\n'
    root = write_skill("demo", files={"scripts/count.py": script}).parent

    result = SkillManager(root, workspace=tmp_path, approver=lambda _: False).call("demo.count")

    assert result.content == "1"


TOLD = """
try:
    import swisslike
except ImportError:
    raise SystemExit("Install it with `python -m pip install pyswisslike`, then try again")
print(swisslike)
"""


def test_the_package_that_a_file_tells_to_install_is_no_guess(write_skill: WriteSkill) -> None:
    """`swisslike` itself may be published by anybody."""
    root = write_skill("demo", files={"scripts/count.py": TOLD}).parent
    manager = SkillManager(root)

    [proposed] = propose_packages(manager.get_skill("demo"), manager.tools)

    assert (proposed.package, proposed.confidence) == ("pyswisslike", "exact")


DECLARED = """# /// script
# dependencies = ["swisslike-framework>=7"]
# ///
'''Count. It needs: pip install swisslike-framework'''
from swisslike import counting
print(counting)
"""


def test_a_declared_package_is_not_proposed_again_by_the_name_that_its_file_tells(
    write_skill: WriteSkill,
) -> None:
    root = write_skill("demo", files={"scripts/count.py": DECLARED}).parent
    manager = SkillManager(root)

    assert propose_packages(manager.get_skill("demo"), manager.tools) == ()


BESIDE = """
import sys
from pathlib import Path
sys.path.insert(0, str(Path(__file__).parents[2] / "shared" / "lib"))
from swisslike_lib import count
print(count)
"""


@pytest.mark.parametrize(
    ("beside", "proposed"),
    [
        ({}, []),
        ({"other.py": ""}, ["swisslike_lib"]),
        ({"swisslike_lib.py": ""}, []),
        ({"swisslike_lib/__init__.py": ""}, []),
    ],
    ids=["no folder", "without it", "a module of it", "a folder of it"],
)
def test_a_folder_beside_the_skill_explains_only_an_import_that_it_may_hold(
    beside: dict[str, str], proposed: list[str], write_skill: WriteSkill
) -> None:
    root = write_skill("demo", files={"scripts/count.py": BESIDE}).parent
    for name, text in beside.items():
        path = root / "shared" / "lib" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    manager = SkillManager(root)

    found = propose_packages(manager.get_skill("demo"), manager.tools)

    assert [each.package for each in found] == proposed


CAUGHT = """
import json
try:
    import swisslike
except ImportError:
    swisslike = None
print(json.dumps({"error": "swisslike library is not installed."} if swisslike is None else {}))
"""


@pytest.mark.slow
def test_an_optional_package_that_the_answer_calls_missing_is_proposed(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    root = write_skill("demo", files={"scripts/count.py": CAUGHT}).parent
    silent = write_skill("other", files={"scripts/x.py": CAUGHT.replace("installed", "there")})

    manager = SkillManager(root, workspace=tmp_path, cache=False)
    told, untold = manager.call("demo.count"), manager.call("other.x")

    assert silent.parent == root
    assert (told.outcome, untold.notes) == ("ok", ())
    assert f"`skillpouch trust demo --package swisslike --root {root}`" in told.content
