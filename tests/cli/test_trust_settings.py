"""`skillpouch trust --set`: plain variables are shown, kept with the grant, and not redacted."""

from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.policy.approval import Answer, Question
from tests.cli.conftest import Skillpouch
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

FRONT = "name: demo\ndescription: d\nrequires:\n  env: [REPORT_DIR]\n"
FILES = {"scripts/run.sh": '# Run.\necho "$REPORT_DIR $SITE_URL"\n'}


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("REPORT_DIR", "SITE_URL"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.promise("set-1")
def test_a_setting_is_given_as_it_was_granted_and_shown(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    home = write_skill(front=FRONT, files=FILES)
    root = ("--root", str(home.parent))

    shown = skillpouch("trust", "demo", "--json", *root)
    words = ("--set", "REPORT_DIR=/srv/reports", "--set", "SITE_URL=https://example.com/a")
    granted = skillpouch("trust", "demo", *words, "--yes", *root)
    called = skillpouch("call", "demo.run", *root)
    listed = skillpouch("trust", "--list")
    (home / "scripts/run.sh").write_text("# Run.\necho changed\n")
    again = skillpouch("call", "demo.run", *root)

    assert [(ask["kind"], ask["value"]) for ask in shown.json["asks"]] == [
        ("setting", "REPORT_DIR"),
        ("setting", "SITE_URL"),
    ]
    assert granted.code == 0, granted.err
    assert (called.code, called.out) == (0, "/srv/reports https://example.com/a\n"), called.err
    assert "setting REPORT_DIR=/srv/reports" in listed.out
    assert again.code == 3  # the grant was for other bytes


@pytest.mark.promise("set-1")
def test_a_setting_with_a_password_in_it_is_refused_and_not_repeated(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    root = ("--root", str(write_skill(front=FRONT, files=FILES).parent))

    ran = skillpouch(
        "trust", "demo", "--set", "SITE_URL=https://ada:hunter22@example.com", "--yes", *root
    )

    assert (ran.code != 0, "hunter22" in ran.out + ran.err) == (True, False)
    assert "--secret SITE_URL" in ran.err
    assert skillpouch("trust", "--list").out == ""


async def test_the_question_shows_the_value_and_the_answer_keeps_it(
    write_skill: WriteSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = write_skill(front=FRONT, files=FILES)
    monkeypatch.setenv("REPORT_DIR", "/srv/reports")
    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(yes=True, remember="always")

    first = await SkillManager(home.parent, workspace=tmp_path, approver=approve).acall("demo.run")
    monkeypatch.setenv("REPORT_DIR", "/srv/elsewhere")
    later = await SkillManager(home.parent, workspace=tmp_path).acall("demo.run")

    assert [need.value for need in asked[0].needs] == ["REPORT_DIR=/srv/reports"]
    assert [first.content.strip(), later.content.strip()] == ["/srv/reports"] * 2


async def test_a_declared_setting_whose_value_is_a_secret_is_asked_for_as_one(
    write_skill: WriteSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = write_skill(front=FRONT, files=FILES)
    monkeypatch.setenv("REPORT_DIR", "https://ada:hunter22@example.com/reports")
    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(yes=True)

    result = await SkillManager(home.parent, workspace=tmp_path, approver=approve).acall("demo.run")

    assert [(need.kind, need.value) for need in asked[0].needs] == [("secret", "REPORT_DIR")]
    assert "hunter22" not in result.content


def test_a_setting_without_a_value_needs_one(
    skillpouch: Skillpouch, write_skill: WriteSkill, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = ("--root", str(write_skill(front=FRONT, files=FILES).parent))

    unset = skillpouch("trust", "demo", "--set", "REPORT_DIR", "--yes", *root)
    monkeypatch.setenv("REPORT_DIR", "/srv/here")
    here = skillpouch("trust", "demo", "--set", "REPORT_DIR", "--yes", *root)

    assert (unset.code, "--set REPORT_DIR=VALUE" in unset.err) == (2, True)
    assert "granted to demo: setting REPORT_DIR=/srv/here" in here.err
