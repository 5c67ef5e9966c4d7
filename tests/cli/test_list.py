import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Skillpouch
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

GREET = 'import argparse\np = argparse.ArgumentParser()\np.add_argument("who")\np.parse_args()\n'


def test_list_gives_a_program_skills_tools_and_problems(
    skillpouch: Skillpouch, write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = write_skill("greeter", files={"scripts/greet.py": f'"""Greet."""\n{GREET}'})

    ran = skillpouch("list", "--json", "--root", home.parent)

    assert ran.code == 0
    assert ran.json == {
        "skills": [
            {
                "name": "greeter",
                "description": "Does greeter.",
                "path": str(home),
                "source": str(tmp_path / "skills"),
                "version": None,
                "compatibility": None,
                "tools": ["greeter.greet"],
            }
        ],
        "tools": [
            {
                "id": "greeter.greet",
                "name": "greeter__greet",
                "skill": "greeter",
                "description": "Greet.",
                "kind": "script",
                "convention": "argv",
                "input_schema": {
                    "type": "object",
                    "properties": {"who": {"type": "string"}},
                    "required": ["who"],
                    "additionalProperties": False,
                },
                "effects": ["read", "write", "execute"],
                "ready": True,
                "missing": [],
            }
        ],
        "problems": [],
    }


def test_list_tells_a_person_what_each_tool_takes(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill("greeter", files={"scripts/greet.py": f'"""Greet."""\n{GREET}'})

    ran = skillpouch("list")

    assert ran.out == "greeter.greet\twho\tGreet.\n"
    assert ran.err == "1 skill, 1 tool\n"


def test_list_of_nothing_says_where_it_looked(skillpouch: Skillpouch, tmp_path: Path) -> None:
    ran = skillpouch("list")

    assert (ran.code, ran.out) == (0, "")
    assert f"{tmp_path}/.agents/skills; use --root DIR or SKILLPOUCH_PATH" in ran.err


def test_later_roots_override_earlier_ones(skillpouch: Skillpouch, write_skill: WriteSkill) -> None:
    write_skill("demo", "name: demo\ndescription: first\n", root="one")
    write_skill("demo", "name: demo\ndescription: second\n", root="two")

    ran = skillpouch("list", "--json", "--root", "one", "--root", "two")

    assert [skill["description"] for skill in ran.json["skills"]] == ["second"]
    assert [problem["code"] for problem in ran.json["problems"]] == ["skill-shadowed"]


def test_a_root_that_is_not_there_is_a_wrong_call(skillpouch: Skillpouch) -> None:
    ran = skillpouch("list", "--root", "nowhere")

    assert (ran.code, ran.out) == (2, "")
    assert "'nowhere' does not exist" in ran.err


def test_a_skill_that_had_to_be_skipped_is_said_on_standard_error(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    home = write_skill("demo")
    (home / "SKILL.md").write_bytes(b"")

    ran = skillpouch("list")

    assert ran.code == 0
    assert "skipped: the file is empty" in ran.err


def test_an_unknown_command_is_a_wrong_call_with_a_suggestion(skillpouch: Skillpouch) -> None:
    ran = skillpouch("lisst")

    assert ran.code == 2
    assert "'lisst'" in ran.err
    assert "list" in ran.err


def test_a_tool_that_lacks_something_says_so_beside_its_description(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    front = "name: demo\ndescription: d\nmetadata: {x: {requires: {bins: [no-such-program]}}}\n"
    write_skill("demo", front, files={"scripts/run.sh": "# Run it.\ncat\n"})

    ran = skillpouch("list")

    assert ran.out == "demo.run\tdata?\tRun it. [not ready: no-such-program is not installed]\n"


def test_list_shows_skillpouchs_own_tools_when_asked(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill("greeter", files={"scripts/greet.py": f'"""Greet."""\n{GREET}'})

    ran = skillpouch("list", "--builtin")
    as_json = skillpouch("list", "--builtin", "--json")

    own = ["bash", "read", "write", "edit", "grep", "glob", "ls", "run_for_skill"]
    names = [*own, "greeter.greet"]
    assert [line.split("\t")[0] for line in ran.out.splitlines()] == names
    assert ran.err == "1 skill, 9 tools\n"
    assert [tool["id"] for tool in as_json.json["tools"]] == names
    assert as_json.json["tools"][1]["kind"] == "built-in"


@pytest.mark.parametrize("words", [["list"], ["call", "x"], ["check"], ["show", "x"]])
def test_a_root_that_is_not_there_is_said_to_be_not_there(
    skillpouch: Skillpouch, words: list[str]
) -> None:
    said = ["typo"] if words == ["check"] else ["--root", "typo"]

    ran = skillpouch(*words, *said)

    assert ran.code == 2
    assert "'typo' does not exist" in ran.err


@pytest.mark.parametrize(
    "words",
    ["list", "show x", "check", "call x", "script true", "trust x", "new x", "serve mcp"],
)
def test_a_current_folder_that_was_removed_is_a_clear_error(words: str, tmp_path: Path) -> None:
    line = f"mkdir gone && cd gone && rmdir ../gone && exec {sys.executable} -m skillpouch {words}"

    ran = subprocess.run(
        ["/bin/sh", "-c", line], cwd=tmp_path, capture_output=True, text=True, check=False
    )

    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr == (
        "error: the current folder was removed\n"
        "hint: change to a folder that is there, such as `cd ~`\n"
    )


def test_nothing_is_imported_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "click.py").write_text("open('loaded', 'w').close()\nraise SystemExit(7)\n")

    ran = subprocess.run(
        [sys.executable, "-m", "skillpouch", "list", "--root", "."],
        cwd=tmp_path,
        capture_output=True,
        check=False,
    )

    assert (ran.returncode, (tmp_path / "loaded").exists()) == (0, False)
