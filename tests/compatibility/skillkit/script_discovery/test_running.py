"""Script discovery AC-3 to AC-5, FR-203 and FR-205.2: a script runs, answers, and ends in time."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import Limits, SkillManager, Tool
from skillpouch.errors import SkillInvocationError

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]

# AC-3, to the letter.
GREET = 'import sys\nprint(f"Hello, {sys.argv[1]}!")\n'
LEAVES_A_TRACE = "#!/bin/bash\ntouch ran\n"
HANGS = "#!/bin/bash\nwhile true; do :; done\n"


def manager_over(home: Path, limits: Limits | None = None) -> SkillManager:
    workspace = home.parent.parent / "work"
    workspace.mkdir()
    manager = SkillManager(home.parent, workspace=workspace, limits=limits)
    manager.discover()
    return manager


def only_tool(manager: SkillManager) -> Tool:
    [tool] = manager.get_skill_tools("my-skill")
    return tool


def test_ac_3_a_tool_invoked_with_world_returns_hello_world(write_skill: WriteSkill) -> None:
    manager = manager_over(write_skill("my-skill", files={"scripts/greet.py": GREET}))

    assert only_tool(manager).invoke("World") == "Hello, World!"
    assert manager.call("greet", "World").content == "Hello, World!"
    assert manager.call("my-skill.greet", {"args": ["World"]}).content == "Hello, World!"
    executed = manager.execute_skill_script("my-skill", "scripts/greet.py", "World")
    assert executed.content == "Hello, World!"


async def test_ac_3_holds_when_awaited(write_skill: WriteSkill) -> None:
    manager = manager_over(write_skill("my-skill", files={"scripts/greet.py": GREET}))

    assert await only_tool(manager).ainvoke("World") == "Hello, World!"
    assert (await manager.acall("greet", "World")).content == "Hello, World!"


def test_an_argument_is_never_split_nor_read_by_a_shell(write_skill: WriteSkill) -> None:
    manager = manager_over(write_skill("my-skill", files={"scripts/greet.py": GREET}))

    answer = only_tool(manager).invoke("big  World; $(touch ran) `id` \"'*")

    assert answer == "Hello, big  World; $(touch ran) `id` \"'*!"


@pytest.mark.parametrize(
    ("script", "source"),
    [
        ("scripts/fail.py", 'import sys\n\nsys.exit("no such file: report.pdf")\n'),
        ("scripts/fail.sh", "echo 'no such file: report.pdf' >&2\nexit 1\n"),
        ("scripts/fail.js", 'console.error("no such file: report.pdf"); process.exit(1);\n'),
    ],
)
def test_ac_4_a_failing_script_raises_with_the_content_of_stderr(
    write_skill: WriteSkill, script: str, source: str
) -> None:
    manager = manager_over(write_skill("my-skill", files={script: source}))

    with pytest.raises(SkillInvocationError, match=r"no such file: report\.pdf"):
        only_tool(manager).invoke({})


def test_ac_5_a_skill_is_still_invoked_as_before_its_scripts_were_tools(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    home = write_skill(
        "my-skill", body="Look at $ARGUMENTS.\n", files={"scripts/run.sh": LEAVES_A_TRACE}
    )
    manager = manager_over(home)

    before = manager.invoke_skill("my-skill", "report.pdf")
    ran_by_invoking = (tmp_path / "work" / "ran").exists()
    result = manager.call("my-skill.run")
    after = manager.invoke_skill("my-skill", "report.pdf")

    assert isinstance(before, str)
    assert "Look at report.pdf." in before
    assert (ran_by_invoking, result.outcome, after) == (False, "ok", before)


def test_fr_203_3_a_script_runs_in_a_process_of_its_own(write_skill: WriteSkill) -> None:
    script = "import os, signal\n\nos.kill(os.getpid(), signal.SIGKILL)\n"
    manager = manager_over(write_skill("my-skill", files={"scripts/run.py": script}))

    result = manager.call("my-skill.run")

    assert (result.is_error, result.outcome) == (True, "failed")
    assert result.exit_code != 0


def test_fr_203_3_the_default_limit_is_thirty_seconds() -> None:
    assert Limits().timeout_seconds == 30


def test_fr_203_4_and_5_stdout_is_the_result_and_stderr_is_kept_apart(
    write_skill: WriteSkill,
) -> None:
    script = "#!/bin/bash\necho working >&2\necho done\n"
    manager = manager_over(write_skill("my-skill", files={"scripts/run.sh": script}))

    result = manager.call("my-skill.run")

    assert (result.outcome, result.is_error, result.exit_code) == ("ok", False, 0)
    assert (result.content, result.stdout, result.stderr) == ("done", "done\n", "working\n")


@pytest.mark.parametrize("configured", ["by the call", "by the manager", "by the script's call"])
def test_fr_205_2_a_script_that_hangs_is_ended_by_a_limit_that_can_be_set(
    write_skill: WriteSkill, configured: str
) -> None:
    home = write_skill("my-skill", files={"scripts/run.sh": HANGS})
    limits = Limits(timeout_seconds=0.2) if configured == "by the manager" else None
    manager = manager_over(home, limits)

    if configured == "by the call":
        result = manager.call("my-skill.run", timeout=0.2)
    elif configured == "by the manager":
        result = manager.call("my-skill.run")
    else:
        result = manager.execute_skill_script("my-skill", "scripts/run.sh", timeout=0.2)

    assert (result.outcome, result.is_error, result.exit_code) == ("timed_out", True, 124)


def test_fr_205_2_a_declared_tool_may_set_its_own_limit(write_skill: WriteSkill) -> None:
    declared = [
        {"name": "run", "description": "Runs", "script": "scripts/run.sh", "timeout_ms": 200}
    ]
    files = {"tools.json": json.dumps(declared), "scripts/run.sh": HANGS}
    manager = manager_over(write_skill("my-skill", files=files))

    result = manager.call("my-skill.run")

    assert (result.outcome, result.exit_code) == ("timed_out", 124)


CALCULATOR = {
    "scripts/add.py": (
        '"""Add numbers."""\nimport argparse\n\nparser = argparse.ArgumentParser()\n'
        'parser.add_argument("numbers", nargs="+", type=float)\n'
        'parser.add_argument("--round", type=int, default=2)\n'
        "options = parser.parse_args()\nprint(round(sum(options.numbers), options.round))\n"
    ),
    "scripts/multiply.py": (
        "def main(left: float, right: float = 1.0) -> float:\n"
        '    """Multiply two numbers."""\n    return left * right\n'
    ),
}
FILE_PROCESSOR = {
    "scripts/read_file.py": "import sys\n\nprint(open(sys.argv[1]).read())\n",
    "scripts/write_file.py": (
        "import json\nimport sys\n\norder = json.load(sys.stdin)\n"
        'open(order["path"], "w").write(order["text"])\n'
    ),
}


def test_the_example_skill_calculator_adds_and_multiplies(write_skill: WriteSkill) -> None:
    manager = manager_over(write_skill("calculator", files=CALCULATOR))

    added = manager.call("calculator.add", {"numbers": [1.25, -2, 3.5], "round": 1})
    multiplied = manager.call("calculator.multiply", {"left": 6, "right": 7})

    assert (added.content, multiplied.structured) == ("2.8", 42)


def test_the_example_skill_file_processor_works_on_the_files_of_its_caller(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    manager = manager_over(write_skill("file-processor", files=FILE_PROCESSOR))

    written = manager.call(
        "file-processor.write_file", {"data": {"path": "note.txt", "text": "Read me."}}
    )
    read = manager.call("file-processor.read_file", {"args": ["note.txt"]})

    assert (written.outcome, [str(file.path) for file in written.files]) == ("ok", ["note.txt"])
    assert (tmp_path / "work" / "note.txt").read_text() == "Read me."
    assert read.content == "Read me."
