"""LangChain tools §5: what a script answers, what it raises, and what it is not allowed.

The `tool_result` wrapper of §5.1 belongs to the integration: `Tool.invoke` returns or raises what
LangChain wraps.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import Limits, SkillManager, SkillpouchError
from skillpouch.errors import (
    ScriptExecutionError,
    ScriptTimeoutError,
    SkillInvocationError,
    SkillNotFoundError,
    ToolRestrictionError,
)

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]

SUCCEEDS = 'print("Extracted text from document...")\n'
FAILS = 'import sys\n\nprint("half", flush=True)\nsys.exit("Error: Invalid PDF format")\n'
HANGS = "import time\n\nwhile True:\n    time.sleep(60)\n"
LEAVES_A_TRACE = "#!/bin/bash\ntouch ran\n"


def manager_over(home: Path, limits: Limits | None = None) -> SkillManager:
    workspace = home.parent.parent / "work"
    workspace.mkdir()
    manager = SkillManager(home.parent, workspace=workspace, limits=limits)
    manager.discover()
    return manager


# §5.2 returns stdout itself. Skillpouch: `content` drops one trailing newline, `stdout` keeps it.
def test_success_is_the_stdout_of_the_script(write_skill: WriteSkill) -> None:
    manager = manager_over(write_skill("pdf-extractor", files={"scripts/extract.py": SUCCEEDS}))

    result = manager.call("pdf-extractor.extract")

    assert (result.content, result.is_error) == ("Extracted text from document...", False)
    assert (result.exit_code, result.stdout) == (0, "Extracted text from document...\n")
    assert result.output == result.content
    assert manager.get_tool("pdf-extractor.extract").invoke({}) == result.content


def test_failure_is_an_error_result_that_holds_stderr(write_skill: WriteSkill) -> None:
    manager = manager_over(write_skill("pdf-extractor", files={"scripts/extract.py": FAILS}))

    called = manager.call("pdf-extractor.extract")
    executed = manager.execute_skill_script("pdf-extractor", "scripts/extract.py")

    for result in (called, executed):
        assert (result.outcome, result.is_error, result.exit_code) == ("failed", True, 1)
        assert (result.stdout, result.stderr) == ("half\n", "Error: Invalid PDF format\n")
        assert "Error: Invalid PDF format" in result.content
        assert "half" in result.content


# §3.3, §5.3 and §5.5 write three different texts around stderr. §5.3 alone shows a result, and it
# is asserted; the exit code and stderr are attributes as in §5.4.
def test_invoking_a_failing_script_raises_with_its_exit_code_and_stderr(
    write_skill: WriteSkill,
) -> None:
    manager = manager_over(write_skill("pdf-extractor", files={"scripts/extract.py": FAILS}))

    with pytest.raises(ScriptExecutionError) as raised:
        manager.get_tool("pdf-extractor.extract").invoke({"data": {"file": "test.pdf"}})

    error = raised.value
    assert str(error).rstrip() == (
        "Script execution failed with exit code 1\nError: Invalid PDF format"
    )
    assert (error.exit_code, error.stderr.rstrip()) == (1, "Error: Invalid PDF format")
    assert isinstance(error, SkillInvocationError)
    assert isinstance(error, SkillpouchError)


@pytest.mark.parametrize("exit_code", [2, 42, 255])
def test_every_exit_code_but_zero_is_kept_and_raised(
    write_skill: WriteSkill, exit_code: int
) -> None:
    script = f"#!/bin/bash\nexit {exit_code}\n"
    manager = manager_over(write_skill("s", files={"scripts/run.sh": script}))

    result = manager.call("s.run")
    with pytest.raises(ScriptExecutionError) as raised:
        manager.get_tool("s.run").invoke({})

    assert (result.is_error, result.exit_code, raised.value.exit_code) == (
        True,
        exit_code,
        exit_code,
    )


# §5.5 lets `execute_skill_script` raise the timeout. Skillpouch: a tool that ran and failed is
# returned; only `invoke` raises.
def test_a_timeout_is_returned_with_exit_code_124(write_skill: WriteSkill) -> None:
    manager = manager_over(write_skill("pdf-extractor", files={"scripts/extract.py": HANGS}))

    result = manager.execute_skill_script("pdf-extractor", "scripts/extract.py", timeout=0.2)

    assert (result.outcome, result.is_error, result.exit_code) == ("timed_out", True, 124)


def test_invoking_a_script_that_hangs_raises_a_timeout_that_names_it(
    write_skill: WriteSkill,
) -> None:
    home = write_skill("pdf-extractor", files={"scripts/extract.py": HANGS})
    manager = manager_over(home, Limits(timeout_seconds=1.0))

    with pytest.raises(ScriptTimeoutError) as raised:
        manager.get_tool("pdf-extractor.extract").invoke({"data": {"file": "test.pdf"}})

    assert str(raised.value) == "Script timed out after 1s: scripts/extract.py"
    assert raised.value.exit_code == 124


def restricted(write_skill: WriteSkill, allowed_tools: str) -> SkillManager:
    front = f"name: s\ndescription: Says it\n{allowed_tools}"
    return manager_over(write_skill("s", front, files={"scripts/run.sh": LEAVES_A_TRACE}))


def test_scripts_of_a_skill_that_leaves_bash_out_raise_and_do_not_run(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    manager = restricted(write_skill, "allowed-tools: Read, Write\n")
    attempts: list[Callable[[], object]] = [
        lambda: manager.call("s.run"),
        lambda: manager.get_tool("s.run").invoke({}),
        lambda: manager.execute_skill_script("s", "scripts/run.sh"),
    ]

    for attempt in attempts:
        with pytest.raises(ToolRestrictionError) as raised:
            attempt()

        assert (
            str(raised.value) == "Tool 'Bash' not allowed for skill 's'. Allowed: ['Read', 'Write']"
        )
    assert not (tmp_path / "work" / "ran").exists()


async def test_the_restriction_is_raised_when_awaited_too(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    manager = restricted(write_skill, "allowed-tools: Read, Write\n")

    with pytest.raises(ToolRestrictionError):
        await manager.acall("s.run")
    with pytest.raises(ToolRestrictionError):
        await manager.get_tool("s.run").ainvoke({})
    with pytest.raises(ToolRestrictionError):
        await manager.execute_skill_script_async("s", "scripts/run.sh")
    assert not (tmp_path / "work" / "ran").exists()


# §5.5 restricts a skill without the field as well; Skillpouch: "absent → no restriction".
@pytest.mark.parametrize(
    "allowed_tools",
    ["", "allowed-tools: Bash, Read\n", "allowed-tools: Read Bash(git status:*)\n"],
    ids=["absent", "bash", "bash-with-pattern"],
)
def test_a_skill_that_may_use_bash_runs_its_scripts(
    write_skill: WriteSkill, tmp_path: Path, allowed_tools: str
) -> None:
    manager = restricted(write_skill, allowed_tools)

    result = manager.call("s.run")

    assert result.outcome == "ok"
    assert (tmp_path / "work" / "ran").exists()


# §5.5 and §7.1 turn every other exception into ToolError(f"Unexpected error: {e}"). Skillpouch: a
# wrong caller gets the error that says what was wrong.
def test_a_wrong_caller_gets_an_error_of_its_own(write_skill: WriteSkill) -> None:
    manager = manager_over(write_skill("pdf-extractor", files={"scripts/extract.py": SUCCEEDS}))

    with pytest.raises(SkillNotFoundError):
        manager.execute_skill_script("pdf-extracter", "scripts/extract.py")
    with pytest.raises(SkillpouchError) as raised:
        manager.execute_skill_script("pdf-extractor", "scripts/no_such.py")

    assert not isinstance(raised.value, SkillInvocationError)
    assert "scripts/no_such.py" in str(raised.value)
