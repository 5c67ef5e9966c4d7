"""Bashkit over skills: each tool of a manager is a command, by the same spine as every call."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skillpouch import Policy, ScriptedTool, SkillManager
from skillpouch.policy import Question, Rule
from tests.conftest import WriteSkill

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

GREET = '''\
"""Greet somebody."""
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--who", required=True, help="whom to greet")
parser.add_argument("--times", type=int, default=1)
args = parser.parse_args()
print(" ".join([f"Hello, {args.who}!"] * args.times))
'''
COUNT = 'def handler(args):\n    return {"length": len(args["text"])}\n'
SHOUT = "import sys\nprint(sys.stdin.read().upper(), end='')\n"
FAIL = "import sys\nprint('half')\nprint('it broke', file=sys.stderr)\nsys.exit(3)\n"
TOOLS_JSON = json.dumps(
    [
        {
            "name": "count",
            "description": "Count the characters of a text",
            "parameters": {
                "type": "object",
                "properties": {"text": {"type": "string"}},
                "required": ["text"],
                "additionalProperties": False,
            },
            "script": "scripts/count.py",
        }
    ]
)


@pytest.fixture
def skills(tmp_path: Path, write_skill: WriteSkill) -> Path:
    write_skill(
        "hello",
        files={
            "scripts/greet.py": GREET,
            "scripts/shout.py": SHOUT,
            "scripts/fail.py": FAIL,
            "notes.txt": "for the skill\n",
        },
    )
    write_skill("texts", files={"tools.json": TOOLS_JSON, "scripts/count.py": COUNT})
    (tmp_path / "work").mkdir()
    return tmp_path / "skills"


def over(skills: Path, **options: Any) -> ScriptedTool:
    return ScriptedTool.over(SkillManager(skills, workspace=skills.parent / "work", **options))


def test_each_tool_of_a_skill_is_a_command_by_its_id(skills: Path) -> None:
    ran = over(skills).execute_sync("hello.greet --who Ada --times 2; texts.count --text abcd")

    assert (ran.status, ran.stderr) == ("ok", "")
    first, second = ran.stdout.splitlines()
    assert first == "Hello, Ada! Hello, Ada!"
    assert json.loads(second) == {"length": 4}


def test_standard_input_reaches_a_skill(skills: Path) -> None:
    ran = over(skills).execute_sync("echo quiet | hello.shout")

    assert (ran.stdout, ran.exit_code) == ("QUIET\n", 0)


def test_skills_and_jq_and_loops_make_one_script(skills: Path) -> None:
    script = """
        for who in Ada Alan; do
            hello.greet --who $who | texts.count --text "$who" | jq .length
        done
    """

    assert over(skills).execute_sync(script).stdout == "3\n4\n"


def test_a_skill_that_fails_shows_what_it_printed_and_its_exit_code(skills: Path) -> None:
    ran = over(skills).execute_sync("hello.fail || echo $?")

    assert ran.stdout == "half\n3\n"
    assert "it broke" in ran.stderr


def test_arguments_are_checked_before_a_skill_runs(skills: Path) -> None:
    ran = over(skills).execute_sync("hello.greet --times 2; echo $?; texts.count --txt a; echo $?")

    assert ran.stdout == "2\n2\n"
    assert "who" in ran.stderr
    assert "did you mean --text?" in ran.stderr


def test_the_shells_own_commands_stay_what_they_are(skills: Path) -> None:
    script = "echo a | read x; echo abc | grep -c b; ls / > /dev/null && echo listed"

    ran = over(skills, builtins=True).execute_sync(script)

    assert ran.stdout == "1\nlisted\n"


def test_a_policy_denies_within_a_script(skills: Path) -> None:
    policy = Policy(rules=[Rule(verdict="deny", tools=["hello.greet"])])

    ran = over(skills, policy=policy).execute_sync(
        "hello.greet --who Ada || echo refused; texts.count --text ab | jq .length"
    )

    assert ran.stdout == "refused\n2\n"
    assert [(call.tool, call.outcome) for call in ran.calls] == [
        ("hello.greet", "denied"),
        ("texts.count", "ok"),
    ]


def test_somebody_is_asked_in_the_middle_of_a_script(skills: Path) -> None:
    asked: list[str] = []

    def approve(question: Question) -> bool:
        asked.append(question.tool)
        return question.tool == "texts.count"

    tool = over(
        skills,
        policy=Policy(rules=[Rule(verdict="ask", skills=["hello", "texts"])]),
        approver=approve,
    )

    ran = tool.execute_sync("hello.greet --who Ada; texts.count --text ab | jq .length")

    assert asked == ["hello.greet", "texts.count"]
    assert ran.stdout == "2\n"


def test_the_script_and_each_of_its_calls_are_on_record(skills: Path) -> None:
    over(skills).execute_sync("hello.greet --who Ada; texts.count --text ab")

    ran = skillpouch(skills, "journal", "--json")

    records = json.loads(ran.stdout)["calls"]
    script = [each for each in records if each["tool"] not in ("hello.greet", "texts.count")]
    assert len(script) == 1
    assert [each["tool"] for each in records if each.get("parent") == script[0]["id"]] == [
        "hello.greet",
        "texts.count",
    ]


def test_a_dry_run_changes_nothing_and_says_what_would_run(skills: Path) -> None:
    ran = over(skills).execute_sync("hello.greet --who Ada; echo after", dry_run=True)

    assert "Hello" not in ran.stdout
    assert "after" in ran.stdout
    assert [(call.tool, call.params) for call in ran.calls] == [("hello.greet", {"who": "Ada"})]


def test_discover_and_help_know_the_skills(skills: Path) -> None:
    tool = over(skills)

    assert "texts.count" in tool.execute_sync("discover characters of a text").stdout
    assert "--who <string>" in tool.execute_sync("help hello.greet").stdout
    assert "`hello.greet`" in tool.system_prompt()


def skillpouch(skills: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "skillpouch", words[0], "--root", str(skills), *words[1:]],
        cwd=skills.parent / "work",
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command_line_answers_with_the_json_of_the_design(skills: Path) -> None:
    script = "hello.greet --who Ada; echo '{\"n\": 1}' | result"

    ran = skillpouch(skills, "script", script, "--json")

    answer = json.loads(ran.stdout)
    for call in answer["calls"]:
        assert call.pop("duration_ms") >= 0
    wanted = ("status", "stdout", "stderr", "exit_code", "result", "calls")
    assert {key: answer[key] for key in wanted} == {
        "status": "ok",
        "stdout": "Hello, Ada!\n",
        "stderr": "",
        "exit_code": 0,
        "result": {"n": 1},
        "calls": [{"seq": 1, "tool": "hello.greet", "params": {"who": "Ada"}, "outcome": "ok"}],
    }
    assert ran.returncode == 0


@pytest.mark.parametrize(
    ("script", "code", "status"),
    [("false", 1, "failed"), ("hello.fail", 1, "failed"), ("if then", 2, "syntax")],
)
def test_the_command_line_ends_as_the_design_says(
    skills: Path, script: str, code: int, status: str
) -> None:
    ran = skillpouch(skills, "script", script, "--json")

    assert (ran.returncode, json.loads(ran.stdout)["status"]) == (code, status)


def test_a_script_comes_from_a_file_or_from_standard_input(skills: Path) -> None:
    file = skills.parent / "work" / "task.sh"
    file.write_text("hello.greet --who File\n")

    assert skillpouch(skills, "script", "-f", str(file)).stdout == "Hello, File!\n"
    piped = skillpouch(skills, "script", "-f", "-", stdin="hello.greet --who Pipe\n")
    assert piped.stdout == "Hello, Pipe!\n"


def test_a_trace_goes_to_standard_error_as_a_tree(skills: Path) -> None:
    ran = skillpouch(skills, "script", "hello.greet --who Ada", "--trace")

    assert ran.stdout == "Hello, Ada!\n"
    assert "hello.greet" in ran.stderr
    assert "ms" in ran.stderr


def test_a_dry_run_is_a_flag_of_the_command_line(skills: Path) -> None:
    ran = skillpouch(skills, "script", "hello.greet --who Ada", "--dry-run", "--json")

    answer = json.loads(ran.stdout)
    assert "Hello" not in answer["stdout"]
    assert answer["calls"][0]["tool"] == "hello.greet"
