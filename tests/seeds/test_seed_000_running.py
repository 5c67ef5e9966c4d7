"""Seed 000 §3, §5, §6 and §11.2: what a script receives, what it answers, what it raises.

Without LangChain, whose `tool_result` wrapper (§5.1) belongs to the integration: `Tool.invoke` is
what the seed calls `func`, `Tool.ainvoke` its `coroutine`.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from kitbag import KitbagError, Limits, SkillManager
from kitbag.errors import (
    ScriptExecutionError,
    ScriptTimeoutError,
    SkillInvocationError,
    SkillNotFoundError,
    ToolRestrictionError,
)

WriteSkill = Callable[..., Path]

# Untyped on purpose: reads all of its stdin and says it back, byte for byte.
ECHO = "import sys\n\nsys.stdout.write(sys.stdin.read())\n"
SUCCEEDS = 'print("Extracted text from document...")\n'
FAILS = 'import sys\n\nprint("half", flush=True)\nsys.exit("Error: Invalid PDF format")\n'
HANGS = "import time\n\nwhile True:\n    time.sleep(60)\n"
LEAVES_A_TRACE = "#!/bin/bash\ntouch ran\n"

# §3.1, the example of RawJsonInput.
AGENT_PROVIDES = {"file_path": "/tmp/doc.pdf", "options": {"format": "text"}}


def manager_over(home: Path, limits: Limits | None = None) -> SkillManager:
    workspace = home.parent.parent / "work"
    workspace.mkdir()
    manager = SkillManager(home.parent, workspace=workspace, limits=limits)
    manager.discover()
    return manager


@pytest.fixture
def echo(write_skill: WriteSkill) -> SkillManager:
    return manager_over(write_skill("pdf-extractor", files={"scripts/extract.py": ECHO}))


@pytest.mark.parametrize(
    "data",
    [
        AGENT_PROVIDES,
        {"file": "/tmp/doc.pdf"},
        ["object", "array", {"string": "etc."}],
        "just a string",
        12.5,
        True,
        "naïve → ✓",
    ],
    ids=["object", "file", "array", "string", "number", "boolean", "unicode"],
)
def test_a_script_receives_its_data_as_json_on_stdin(echo: SkillManager, data: object) -> None:
    result = echo.call("pdf-extractor.extract", {"data": data})

    assert json.loads(result.stdout) == data
    assert (result.outcome, result.is_error, result.structured) == ("ok", False, data)


def test_a_script_without_data_receives_an_empty_object(echo: SkillManager) -> None:
    tool = echo.get_tool("pdf-extractor.extract")

    received = [
        tool.invoke({"data": None}),
        tool.invoke({}),
        echo.call(tool.id).stdout,
        echo.execute_skill_script("pdf-extractor", "scripts/extract.py").stdout,
    ]

    assert received == ["{}", "{}", "{}", "{}"]


# §5.5 and §6.2 write `json.dumps(data) if data else "{}"`, which would turn each of these into {}.
# §3.3 and §7.1 write `is not None`, and so does design.md §3 ("`None` → `{}`").
@pytest.mark.parametrize("data", [0, False, "", []])
def test_data_that_is_falsy_is_still_data(echo: SkillManager, data: object) -> None:
    result = echo.call("pdf-extractor.extract", {"data": data})

    assert json.loads(result.stdout) == data


# §3.3 sets `str_strip_whitespace=True`. A script gets what the agent said (design.md §3: "as JSON
# on stdin"): white space is part of it.
def test_white_space_around_a_string_is_kept(echo: SkillManager) -> None:
    result = echo.call("pdf-extractor.extract", {"data": "  padded \n"})

    assert json.loads(result.stdout) == "  padded \n"


def test_arguments_that_are_json_text_reach_stdin_as_they_are(echo: SkillManager) -> None:
    text = '{"file_path":   "/tmp/doc.pdf", "options": {"format": "text"}}'

    result = echo.execute_skill_script(
        skill_name="pdf-extractor", script_path="scripts/extract.py", arguments=text
    )

    assert (result.exit_code, result.stdout) == (0, text)


def test_the_path_a_skill_gives_for_its_script_is_a_path_that_runs_it(echo: SkillManager) -> None:
    [script] = echo.get_skill("pdf-extractor").detected_scripts

    result = echo.execute_skill_script("pdf-extractor", script.path, json.dumps(AGENT_PROVIDES))

    assert (result.exit_code, json.loads(result.stdout)) == (0, AGENT_PROVIDES)


# §8.3 rejected typed fields; design.md §3 types what it can, and still takes the seed's `data`.
def test_a_typed_script_takes_the_seeds_data_field_too(write_skill: WriteSkill) -> None:
    script = (
        "import argparse\n\nparser = argparse.ArgumentParser()\n"
        'parser.add_argument("file_path")\nparser.add_argument("--format", default="text")\n'
        "options = parser.parse_args()\nprint(options.file_path, options.format)\n"
    )
    manager = manager_over(write_skill("reader", files={"scripts/read.py": script}))
    tool = manager.get_tool("reader.read")

    plain = tool.invoke({"file_path": "/tmp/doc.pdf", "format": "html"})
    wrapped = tool.invoke({"data": {"file_path": "/tmp/doc.pdf", "format": "html"}})

    assert (plain, wrapped) == ("/tmp/doc.pdf html", "/tmp/doc.pdf html")


# §5.2 returns stdout itself. design.md §3: `content` drops one trailing newline, `stdout` keeps it.
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
    assert isinstance(error, KitbagError)


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


# §5.5 lets `execute_skill_script` raise the timeout. design.md §2: a tool that ran and failed is
# returned; only `invoke` raises.
def test_a_timeout_is_returned_with_exit_code_124(write_skill: WriteSkill) -> None:
    manager = manager_over(write_skill("pdf-extractor", files={"scripts/extract.py": HANGS}))

    result = manager.execute_skill_script("pdf-extractor", "scripts/extract.py", timeout=0.2)

    assert (result.outcome, result.is_error, result.exit_code) == ("timed_out", True, 124)


def test_invoking_a_script_that_hangs_raises_a_timeout_that_names_it(
    write_skill: WriteSkill,
) -> None:
    home = write_skill("pdf-extractor", files={"scripts/extract.py": HANGS})
    manager = manager_over(home, Limits(timeout_seconds=1))

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


# §5.5 restricts a skill without the field as well; design.md §3: "absent → no restriction".
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


# §5.5 and §7.1 turn every other exception into ToolError(f"Unexpected error: {e}"). design.md §2: a
# wrong caller gets the error that says what was wrong.
def test_a_wrong_caller_gets_an_error_of_its_own(echo: SkillManager) -> None:
    with pytest.raises(SkillNotFoundError):
        echo.execute_skill_script("pdf-extracter", "scripts/extract.py")
    with pytest.raises(KitbagError) as raised:
        echo.execute_skill_script("pdf-extractor", "scripts/no_such.py")

    assert not isinstance(raised.value, SkillInvocationError)
    assert "scripts/no_such.py" in str(raised.value)


async def test_an_awaited_script_answers_what_a_blocking_one_answers(
    write_skill: WriteSkill,
) -> None:
    files = {"scripts/extract.py": ECHO, "scripts/fail.py": FAILS}
    manager = manager_over(write_skill("pdf-extractor", files=files))
    tool = manager.get_tool("pdf-extractor.extract")
    text = json.dumps(AGENT_PROVIDES)

    invoked = await tool.ainvoke({"data": AGENT_PROVIDES})
    called = await manager.acall(tool.id, {"data": AGENT_PROVIDES})
    executed = await manager.execute_skill_script_async(
        skill_name="pdf-extractor", script_path="scripts/extract.py", arguments=text
    )
    failed = await manager.execute_skill_script_async("pdf-extractor", "scripts/fail.py")

    assert invoked == tool.invoke({"data": AGENT_PROVIDES})
    assert json.loads(invoked) == called.structured == AGENT_PROVIDES
    assert (executed.exit_code, executed.stdout) == (0, text)
    assert (failed.is_error, failed.exit_code) == (True, 1)
    with pytest.raises(ScriptExecutionError, match="Error: Invalid PDF format") as raised:
        await manager.get_tool("pdf-extractor.fail").ainvoke({"data": {}})
    assert raised.value.exit_code == 1


async def test_an_awaited_script_that_hangs_raises_a_timeout(write_skill: WriteSkill) -> None:
    home = write_skill("pdf-extractor", files={"scripts/extract.py": HANGS})
    manager = manager_over(home, Limits(timeout_seconds=1))

    with pytest.raises(ScriptTimeoutError) as raised:
        await manager.get_tool("pdf-extractor.extract").ainvoke({})
    result = await manager.execute_skill_script_async(
        "pdf-extractor", "scripts/extract.py", timeout=0.2
    )

    assert str(raised.value) == "Script timed out after 1s: scripts/extract.py"
    assert (result.outcome, result.exit_code) == ("timed_out", 124)


# Each of the two waits for a file that only the other one makes: neither ends unless awaiting one
# leaves the loop free to start the other.
async def test_awaiting_a_script_does_not_hold_up_the_others(write_skill: WriteSkill) -> None:
    meets = "#!/bin/bash\ntouch {me}\nuntil [ -e {other} ]; do sleep 0.01; done\necho met\n"
    files = {
        "scripts/left.sh": meets.format(me="left", other="right"),
        "scripts/right.sh": meets.format(me="right", other="left"),
    }
    manager = manager_over(write_skill("pair", files=files))

    answers = await asyncio.gather(
        manager.get_tool("pair.left").ainvoke({}), manager.get_tool("pair.right").ainvoke({})
    )

    assert answers == ["met", "met"]


def test_each_of_several_script_tools_runs_its_own_script(write_skill: WriteSkill) -> None:
    names = ["extract", "convert", "merge", "utils/parse"]
    files = {f"scripts/{name}.sh": f"#!/bin/bash\necho {name}\n" for name in names}
    manager = manager_over(write_skill("pdf-extractor", files=files))

    tools = manager.get_skill_tools("pdf-extractor")

    assert {tool.id: tool.invoke({}) for tool in tools} == {
        "pdf-extractor.extract": "extract",
        "pdf-extractor.convert": "convert",
        "pdf-extractor.merge": "merge",
        "pdf-extractor.utils-parse": "utils/parse",
    }


# §11.2, both of its tests, to the letter but for create_langchain_tools.
async def test_a_script_tool_is_invoked_with_json_data(echo: SkillManager) -> None:
    script_tool = next(tool for tool in echo.tools if "." in tool.id)

    result = script_tool.invoke({"data": {"file": "test.pdf"}})
    awaited = await script_tool.ainvoke({"data": {"file": "test.pdf"}})

    assert result
    assert isinstance(result, str)
    assert json.loads(result) == {"file": "test.pdf"}
    assert awaited == result
