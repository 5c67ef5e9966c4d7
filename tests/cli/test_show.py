import pytest

from tests.cli.conftest import Skillpouch
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

SCRIPT = (
    '"""Greet somebody."""\nimport argparse, os\np = argparse.ArgumentParser()\n'
    'p.add_argument("who", help="whom to greet")\n'
    'p.add_argument("--tone", choices=["kind", "curt"], default="kind")\n'
    'p.parse_args()\nos.environ["GREETING_KEY"]\n'
)


def test_show_gives_a_program_the_whole_tool(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    home = write_skill(
        "greeter",
        files={"scripts/greet.py": SCRIPT},
        body="```bash\npython scripts/greet.py Ada --tone curt\n```\n",
    )

    shown = skillpouch("show", "greeter.greet", "--json").json

    assert shown["convention"] == "argv"
    assert shown["read_by"] == "argparse"
    assert shown["examples"] == ["python scripts/greet.py Ada --tone curt"]
    assert shown["variables"] == ["GREETING_KEY"]
    assert shown["origin"] == f"{home}/scripts/greet.py"
    assert shown["missing"] == []
    assert [part["name"] for part in shown["runs"]["plan"]] == ["who", "tone"]


def test_show_tells_a_person_what_a_tool_takes(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill("greeter", files={"scripts/greet.py": SCRIPT})

    ran = skillpouch("show", "greet")

    assert ran.code == 0
    assert "greeter.greet\n\n  Greet somebody.\n" in ran.out
    assert "who (string, required)" in ran.out
    assert 'tone ("kind" | "curt", default "kind")' in ran.out
    assert "GREETING_KEY" in ran.out


def test_show_gives_a_program_the_whole_skill(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill("greeter", files={"scripts/greet.py": SCRIPT}, body="Greet people.\n")

    shown = skillpouch("show", "greeter", "--json").json

    assert shown["body"] == "Greet people.\n"
    assert [tool["id"] for tool in shown["tools"]] == ["greeter.greet"]
    assert shown["metadata"]["frontmatter"] == {
        "name": "greeter",
        "description": "Does greeter.",
    }
    assert len(shown["digest"]) == 64


def test_a_misspelt_name_is_a_wrong_call_with_the_nearest_name(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill("greeter", files={"scripts/greet.py": SCRIPT})

    ran = skillpouch("show", "gret")

    assert (ran.code, ran.out) == (2, "")
    assert (
        ran.err == "error: no skill or tool named 'gret'\n"
        "hint: did you mean 'greet' or 'grep' or 'greeter'?\n"
    )


def test_a_name_that_nothing_has_is_neither_skill_nor_tool(
    write_skill: WriteSkill, skillpouch: Skillpouch
) -> None:
    root = write_skill(files={"scripts/run.py": "print(1)\n"}).parent

    ran = skillpouch("show", "zzz", "--root", root)

    assert ran.code == 2
    assert ran.err.splitlines() == [
        "error: no skill or tool named 'zzz'",
        f"hint: `skillpouch list --root {root}` shows the one tool",
    ]


def test_a_tool_names_the_files_that_it_comes_from(
    write_skill: WriteSkill, skillpouch: Skillpouch
) -> None:
    declared = '[{"name": "go", "description": "Go.", "script": "scripts/run.py"}]'
    home = write_skill(
        files={"scripts/run.py": "", "scripts/own.py": "print(1)", "tools.json": declared}
    )

    own = skillpouch("show", "demo.own", "--root", home.parent)
    go = skillpouch("show", "demo.go", "--root", home.parent)

    assert f"{home}/scripts/own.py\n" in own.out
    assert "declared in:      tools.json (" in go.out
    assert f"{home}/scripts/run.py\n" in go.out
