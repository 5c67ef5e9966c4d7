import json
import os
from pathlib import Path

import pytest

from tests.cli.conftest import Skillpouch
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

GREET = (
    '"""Greet."""\nimport argparse\np = argparse.ArgumentParser()\np.add_argument("who")\n'
    'p.add_argument("--times", type=int, default=1)\na = p.parse_args()\n'
    'print(" ".join([f"Hello, {a.who}!"] * a.times))\n'
)


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path) -> None:
    """A home that is not above the folder in which the commands run."""
    assert not tmp_path.is_relative_to(os.environ["HOME"])


def test_call_prints_what_the_tool_gave(skillpouch: Skillpouch, write_skill: WriteSkill) -> None:
    write_skill("greeter", files={"scripts/greet.py": GREET})

    ran = skillpouch("call", "greet", "who=Ada", "times=2")

    assert (ran.code, ran.out, ran.err) == (0, "Hello, Ada! Hello, Ada!\n", "")


def test_call_gives_a_program_the_whole_result(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill("greeter", files={"scripts/greet.py": GREET})

    result = skillpouch("call", "greeter.greet", "--args", '{"who": "Ada"}', "--json").json

    assert set(result.pop("protections")) >= {"fs", "net", "tree"}
    assert result.pop("duration_ms") > 0
    assert result.pop("writes") in ("direct", "undoable")  # as this machine can
    assert result == {
        "tool": "greeter.greet",
        "outcome": "ok",
        "is_error": False,
        "content": "Hello, Ada!",
        "structured": None,
        "exit_code": 0,
        "stdout": "Hello, Ada!\n",
        "stderr": "",
        "truncated": False,
    }


def test_a_tool_that_fails_exits_with_1_and_says_why(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill("demo", files={"scripts/fail.sh": "# Fail.\necho part; echo why >&2; exit 7\n"})

    ran = skillpouch("call", "fail")

    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "part\nwhy\nexit code 7\n"


def test_wrong_arguments_exit_with_2_and_name_the_right_ones(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill("greeter", files={"scripts/greet.py": GREET})

    ran = skillpouch("call", "greet", "whom=Ada")

    assert (ran.code, ran.out) == (2, "")
    assert "allowed are who, times; did you mean 'who'?" in ran.err
    assert "hint: greeter.greet takes who, times (optional)" in ran.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["call", "gret"], "did you mean 'greet'"),
        (["call", "greet", "--args", "{"], "--args is not JSON"),
        (["call", "greet", "who=Ada", "--args", "{}"], "not both"),
        (["call", "greet", "who=Ada", "x"], "'x' is not KEY=VALUE"),
        (["call", "greet", "who=Ada", "--timeout", "0"], "--timeout"),
    ],
)
def test_a_wrong_call_exits_with_2(
    skillpouch: Skillpouch, write_skill: WriteSkill, words: list[str], message: str
) -> None:
    write_skill("greeter", files={"scripts/greet.py": GREET})

    ran = skillpouch(*words)

    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_a_skill_that_forbids_its_scripts_exits_with_3(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    front = "name: demo\ndescription: d\nallowed-tools: Read\n"
    write_skill("demo", front, files={"scripts/run.sh": "# Run.\necho\n"})

    ran = skillpouch("call", "demo.run")

    assert (ran.code, ran.out) == (3, "")
    assert "Tool 'Bash' not allowed for skill 'demo'. Allowed: ['Read']" in ran.err


def test_a_tool_with_nothing_to_run_exits_with_4_and_names_the_next_step(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    tools = json.dumps([{"name": "think", "description": "Think."}])
    write_skill("demo", files={"tools.json": tools})

    ran = skillpouch("call", "think")

    assert (ran.code, ran.out) == (4, "")
    assert "load the skill 'demo'" in ran.err


def test_the_workspace_is_the_current_folder_unless_told_otherwise(
    skillpouch: Skillpouch, write_skill: WriteSkill, tmp_path: Path
) -> None:
    write_skill("demo", files={"scripts/save.sh": "# Save.\necho hi > made.txt\n"})
    (tmp_path / "other").mkdir()

    skillpouch("call", "save")
    skillpouch("call", "save", "--workspace", "other")

    assert (tmp_path / "made.txt").read_text() == "hi\n"
    assert (tmp_path / "other" / "made.txt").read_text() == "hi\n"


def test_what_a_call_did_to_files_is_said(
    skillpouch: Skillpouch, write_skill: WriteSkill, tmp_path: Path
) -> None:
    write_skill("demo", files={"scripts/move.sh": "mv old.txt new.txt || mv new.txt old.txt\n"})
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "old.txt").write_text("old")

    said = skillpouch("call", "move", "--workspace", "other")
    found = json.loads(skillpouch("call", "move", "--workspace", "other", "--json").out)

    assert said.err == "created: new.txt\ndeleted: old.txt\n"
    assert found["files"] == [
        {"path": "new.txt", "type": "text/plain", "size": 0, "change": "deleted"},
        {"path": "old.txt", "type": "text/plain", "size": 3, "change": "created"},
    ]


def test_a_note_on_an_answer_is_kept_out_of_the_pipe(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    script = "import socket\ntry:\n    socket.socket(socket.AF_UNIX)\nexcept OSError:\n    pass\n"
    write_skill("demo", files={"scripts/count.py": f"{script}print('[1, 2]')\n"})

    said = skillpouch("call", "count")
    found = json.loads(skillpouch("call", "count", "--json").out)

    assert (said.code, said.out) == (0, "[1, 2]\n")
    assert said.err.startswith("note: it wanted unix sockets, of which it was not granted any")
    assert found["structured"] == [1, 2]
    assert found["content"] == f"[1, 2]\n{said.err.strip()}"


def test_a_timeout_is_said(skillpouch: Skillpouch, write_skill: WriteSkill) -> None:
    write_skill("demo", files={"scripts/wait.sh": "# Wait.\necho first; sleep 60\n"})

    ran = skillpouch("call", "wait", "--timeout", "0.3", "--json")

    assert ran.code == 1
    assert (ran.json["outcome"], ran.json["exit_code"]) == ("timed_out", 124)
    assert ran.json["stdout"] == "first\n"


REFUSED = {
    "unknown": (["call", "demo.nothing"], 2, "failed", "unknown_tool"),
    "invalid": (["call", "demo.run", "who=Ada"], 2, "failed", "invalid_arguments"),
    "usage": (["call", "demo.run", "--args", "{"], 2, "failed", "usage"),
    "denied": (["call", "demo.web"], 3, "denied", "denied"),
    "not started": (["call", "demo.lost"], 4, "failed", "cannot_start"),
}


@pytest.mark.parametrize("how", REFUSED)
def test_a_call_that_is_not_made_is_json_for_whoever_asked_for_json(
    write_skill: WriteSkill, skillpouch: Skillpouch, how: str
) -> None:
    front = (
        "name: demo\ndescription: d\ntools:\n"
        "- {name: web, description: d, backend: {type: http, url: 'https://example.com/'}}\n"
        "- {name: lost, description: d, backend: {type: binary, path: no-such-program}}\n"
    )
    script = "def main(n: int = 1):\n    print(n)\n"
    root = write_skill(front=front, files={"scripts/run.py": script}).parent
    words, exit_code, outcome, code = REFUSED[how]

    ran = skillpouch(*words, "--json", "--root", root)

    assert (ran.code, ran.json["outcome"], ran.json["is_error"]) == (exit_code, outcome, True)
    assert (ran.json["code"], ran.json["stdout"]) == (code, "")
    assert ran.json["content"]
    assert ran.json["content"] in ran.err
    assert ran.json["hint"] in ran.err


@pytest.mark.promise("limit-8")
def test_a_person_at_a_terminal_gives_more_time(
    skillpouch: Skillpouch, write_skill: WriteSkill, tmp_path: Path
) -> None:
    entry = {"name": "x", "description": "d", "script": "scripts/x.sh", "timeout_ms": 200}
    files = {"scripts/x.sh": "sleep ${1:-1000}\n", "tools.json": json.dumps([entry])}
    write_skill(files=files)

    late = skillpouch("call", "x")
    given = skillpouch("call", "x", "--args", '{"args": ["0.5"]}', "--timeout", "90", "--json")
    (tmp_path / "skillpouch.toml").write_text("[[limits]]\ntimeout_seconds = 1\n")
    ruled = skillpouch("call", "x", "--timeout", "90")

    assert (late.code, late.err.splitlines()[0]) == (1, "timed out after 0.2 s")
    assert late.err.endswith("or `--timeout 0.4` at a terminal\n")
    assert given.json["outcome"] == "ok"
    assert (ruled.code, ruled.err.splitlines()[0]) == (2, "error: demo.x may run for 1 s, not 90 s")


@pytest.mark.parametrize(
    "wrong",
    [["--root", "no-such-folder"], ["--timeout", "soon"], ["--workspace", "nowhere"], ["--nope"]],
    ids=["root", "timeout", "workspace", "unknown"],
)
def test_a_wrong_option_is_json_for_whoever_asked_for_json(
    skillpouch: Skillpouch, wrong: list[str]
) -> None:
    for words in (["call", "demo.run", "--json", *wrong], ["call", *wrong, "demo.run", "--json"]):
        ran = skillpouch(*words)

        assert (ran.code, ran.json["outcome"], ran.json["code"]) == (2, "failed", "usage")
        assert wrong[0] in ran.json["content"]
        assert wrong[0] in ran.err


def test_json_that_is_an_argument_of_the_tool_asks_for_none(skillpouch: Skillpouch) -> None:
    ran = skillpouch("call", "demo.run", "--timeout", "soon", "--", "--json")

    assert (ran.code, ran.out) == (2, "")


def test_where_there_are_no_skills_the_hint_does_not_count_the_built_in_tools(
    skillpouch: Skillpouch,
) -> None:
    ran = skillpouch("call", "greeter.greet")

    assert ran.err == (
        "error: no tool named 'greeter.greet'\n"
        "hint: no tools were found; `skillpouch list` says where it looked\n"
    )


CONVERT = (
    '"""Convert."""\nimport argparse\np = argparse.ArgumentParser()\n'
    'p.add_argument("--in", "-i", dest="input_file")\np.add_argument("-v", action="count")\n'
    "print(vars(p.parse_args()))\n"
)


@pytest.mark.parametrize(
    "words",
    [
        ("convert", "--", "-vvi", "a b"),
        ("demo", "--", "python", "scripts/convert.py", "--in", "a b", "-vv"),
        ("convert", "in=a b", "v=2"),
        ("convert", "--args", '{"in": "a b", "v": 2}'),
    ],
)
def test_a_call_is_written_as_skill_md_shows_it(
    skillpouch: Skillpouch, write_skill: WriteSkill, words: tuple[str, ...]
) -> None:
    write_skill("demo", files={"scripts/convert.py": CONVERT})

    ran = skillpouch("call", *words)

    assert (ran.code, ran.out) == (0, "{'input_file': 'a b', 'v': 2}\n")


def test_words_that_are_no_call_exit_with_2_and_show_the_usage(
    skillpouch: Skillpouch, write_skill: WriteSkill
) -> None:
    write_skill("demo", files={"scripts/convert.py": CONVERT})

    wrong = skillpouch("call", "convert", "--", "--out", "x")
    both = skillpouch("call", "convert", "in=a", "--", "--in", "b")
    unknown = skillpouch("call", "nobody", "--", "python", "scripts/convert.py")

    assert (wrong.code, both.code, unknown.code) == (2, 2, 2)
    assert "usage: scripts/convert.py [--in INPUT_FILE] [-v]" in wrong.err
    assert "one of them" in both.err
    assert "no tool named 'nobody'" in unknown.err
