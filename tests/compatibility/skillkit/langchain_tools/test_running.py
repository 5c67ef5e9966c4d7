"""LangChain tools §3, §6 and §11.2: what a script receives, blocking and awaited.

Without LangChain: `Tool.invoke` is what the document calls `func`, `Tool.ainvoke` its `coroutine`.
"""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import Limits, SkillManager
from skillpouch.errors import ScriptExecutionError, ScriptTimeoutError

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]

# Untyped on purpose: reads all of its stdin and says it back, byte for byte.
ECHO = "import sys\n\nsys.stdout.write(sys.stdin.read())\n"
FAILS = 'import sys\n\nprint("half", flush=True)\nsys.exit("Error: Invalid PDF format")\n'
HANGS = "import time\n\nwhile True:\n    time.sleep(60)\n"

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
# §3.3 and §7.1 write `is not None`, and so does Skillpouch ("`None` → `{}`").
@pytest.mark.parametrize("data", [0, False, "", []])
def test_data_that_is_falsy_is_still_data(echo: SkillManager, data: object) -> None:
    result = echo.call("pdf-extractor.extract", {"data": data})

    assert json.loads(result.stdout) == data


# §3.3 sets `str_strip_whitespace=True`. A script gets what the agent said (Skillpouch: "as JSON
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


# §3.3 hands every `json.dumps(data)` to `execute_skill_script`: JSON text means what it spells.
# Other text is a string (AC-3 of the Script discovery document passes `"World"`).
@pytest.mark.parametrize(
    ("arguments", "arrives"),
    [
        ("plain words", "plain words"),
        ('["a", "b"]', ["a", "b"]),
        ("12", 12),
        (["a", "b"], ["a", "b"]),
    ],
)
def test_arguments_that_are_other_text_reach_stdin_as_one_json_value(
    echo: SkillManager, arguments: object, arrives: object
) -> None:
    result = echo.execute_skill_script("pdf-extractor", "scripts/extract.py", arguments)

    assert json.loads(result.stdout) == arrives


# §3.1, the example in RawJsonInput's docstring: the object stands where `data` would.
def test_an_object_without_a_data_field_is_the_data(echo: SkillManager) -> None:
    result = echo.call("pdf-extractor.extract", AGENT_PROVIDES)

    assert json.loads(result.stdout) == AGENT_PROVIDES


def test_the_path_a_skill_gives_for_its_script_is_a_path_that_runs_it(echo: SkillManager) -> None:
    [script] = echo.get_skill("pdf-extractor").detected_scripts

    result = echo.execute_skill_script("pdf-extractor", script.path, json.dumps(AGENT_PROVIDES))

    assert (result.exit_code, json.loads(result.stdout)) == (0, AGENT_PROVIDES)


# §8.3 rejected typed fields; Skillpouch types what it can, and still takes the document's `data`.
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
    manager = manager_over(home, Limits(timeout_seconds=0.2))

    with pytest.raises(ScriptTimeoutError) as raised:
        await manager.get_tool("pdf-extractor.extract").ainvoke({})
    result = await manager.execute_skill_script_async("pdf-extractor", "scripts/extract.py")

    assert str(raised.value) == "Script timed out after 0.2s: scripts/extract.py"
    assert (result.outcome, result.exit_code) == ("timed_out", 124)


# Each of the two waits for a file that only the other one makes: neither ends unless awaiting one
# leaves the loop free to start the other.
@pytest.mark.usefixtures("writes_directly")
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

    assert list(answers) == ["met", "met"]


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
