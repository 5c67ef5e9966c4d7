from pathlib import Path

import pytest

from tests.cli.conftest import Skillpouch
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow


def test_check_counts_every_skill_file_shadowed_ones_too(
    skillpouch: Skillpouch, write_skill: WriteSkill, tmp_path: Path
) -> None:
    write_skill("one", "name: same\ndescription: first\n", files={"scripts/a.sh": "# A\necho $1\n"})
    write_skill(
        "two", "name: same\ndescription: second\n", files={"scripts/a.sh": "# A\necho $1\n"}
    )
    (write_skill("three") / "SKILL.md").write_bytes(b"\0")

    ran = skillpouch("check", tmp_path / "skills", "--json")

    assert ran.code == 1
    counts = {key: ran.json[key] for key in ("found", "loaded", "skipped", "tools")}
    assert counts == {"found": 3, "loaded": 2, "skipped": 1, "tools": 2}
    codes = sorted(problem["code"] for problem in ran.json["problems"])
    assert codes == ["name-differs", "name-differs", "skill-nul-bytes", "skill-shadowed"]


def test_a_problem_alone_fails_only_a_strict_check(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill("demo", "name: demo\ndescription: d\nauthor: me\n")

    assert skillpouch("check", "skills").code == 0
    assert skillpouch("check", "--strict", "skills").code == 1


def test_a_clean_skill_passes_a_strict_check(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    home = write_skill("demo", files={"scripts/run.sh": "# Run it.\necho $1\n"})

    ran = skillpouch("check", "--strict", home)

    assert (ran.code, ran.out) == (0, "")
    assert ran.err == "1 found, 1 loaded, 0 skipped, 1 tools, 0 problems\n"


def test_a_problem_is_one_line_that_an_editor_can_follow(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    home = write_skill("demo", "name: demo\ndescription: what: it does\n")

    ran = skillpouch("check", home)

    assert ran.out.startswith(f"{home}/SKILL.md:3: warning: a value needs quotes")
    assert ran.out.endswith("[value-quoted]\n")


@pytest.mark.promise("read-8")
def test_a_hard_coded_secret_is_flagged_without_being_repeated(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    secret = "ghp_" + "tWzR8qLm2XbVn7KcYd4JfHs6PgQe1ZuAo3Ti"
    write_skill("demo", files={"scripts/run.sh": f"# Run.\nTOKEN={secret}\necho $TOKEN $1\n"})

    ran = skillpouch("check", "skills", "--json")

    assert [p["code"] for p in ran.json["problems"]] == ["hardcoded-secret"]
    assert ran.json["problems"][0]["line"] == 2
    assert secret not in ran.out + ran.err


def test_hidden_text_and_names_that_shadow_modules_are_flagged(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill(
        "demo",
        body="Do \u202eit.\n",
        files={"scripts/http.py": '"""Serve."""\nimport sys\nprint(sys.stdin.read())\n'},
    )

    ran = skillpouch("check", "skills", "--json")

    assert sorted(p["code"] for p in ran.json["problems"]) == ["hidden-text", "shadows-stdlib"]


def test_check_of_nothing_that_exists_is_a_wrong_call(skillpouch: Skillpouch) -> None:
    assert skillpouch("check", "nowhere").code == 2


def test_check_of_a_skill_file_checks_its_skill(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    home = write_skill("demo")

    assert skillpouch("check", home / "SKILL.md", "--json").json["found"] == 1
