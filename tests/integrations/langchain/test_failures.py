"""What goes wrong: messages in an agent, exceptions in a program."""

import asyncio
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import ToolMessage
from langchain_core.tools import ToolException

from skillpouch import Limits, SkillManager, SkillpouchError, ToolResult
from skillpouch.errors import (
    InvalidArgumentsError,
    ScriptExecutionError,
    ScriptTimeoutError,
    SkillInvocationError,
    ToolRestrictionError,
)
from skillpouch.integrations.langchain import SkillpouchTool, get_skill_tools

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]

FAILS = 'echo "half of it"\necho "Error: Invalid PDF format" >&2\nexit 3\n'
TYPED = "def main(count: int):\n    return count\n"


def only_tool(home: Path, limits: Limits | None = None) -> SkillpouchTool:
    workspace = home.parent.parent / "work"
    workspace.mkdir()
    manager = SkillManager(home.parent, workspace=workspace, limits=limits)
    (tool,) = get_skill_tools(manager, home.name)
    return tool


def as_call(tool: SkillpouchTool, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"name": tool.name, "args": arguments, "id": "1", "type": "tool_call"}


def test_a_failed_tool_raises_what_both_worlds_catch(write_skill: WriteSkill) -> None:
    tool = only_tool(write_skill("pdf", files={"scripts/extract.sh": FAILS}))

    with pytest.raises(ToolException) as raised:
        tool.invoke({})

    error = raised.value
    assert isinstance(error, ScriptExecutionError)
    assert isinstance(error, SkillInvocationError)
    assert (error.exit_code, error.stderr) == (3, "Error: Invalid PDF format\n")
    assert str(error) == (
        "Script execution failed with exit code 3\nhalf of it\nError: Invalid PDF format"
    )


async def test_awaited_it_raises_the_same(write_skill: WriteSkill) -> None:
    tool = only_tool(write_skill("pdf", files={"scripts/extract.sh": FAILS}))

    with pytest.raises(ToolException, match="Invalid PDF format") as raised:
        await tool.ainvoke({})

    assert isinstance(raised.value, SkillInvocationError)


async def test_in_an_agent_a_failure_is_a_message_the_model_sees(write_skill: WriteSkill) -> None:
    tool = only_tool(write_skill("pdf", files={"scripts/extract.sh": FAILS}))
    call = as_call(tool, {})

    messages = [tool.invoke(call), await tool.ainvoke(call)]

    for message in messages:
        assert isinstance(message, ToolMessage)
        assert (message.status, message.tool_call_id) == ("error", "1")
        assert "exit code 3" in message.content
        assert "Error: Invalid PDF format" in message.content
        assert isinstance(message.artifact, ToolResult)
        assert message.artifact.exit_code == 3


def test_wrong_arguments_are_checked_by_skillpouch_and_told_to_the_model(
    write_skill: WriteSkill,
) -> None:
    tool = only_tool(write_skill("count", files={"scripts/count.py": TYPED}))

    message = tool.invoke(as_call(tool, {"count": "many"}))
    with pytest.raises(InvalidArgumentsError) as raised:
        tool.invoke({"count": "many"})

    assert message.status == "error"
    assert message.content == (
        'invalid arguments for count.count: count: "many" is not of type "integer"\n'
        "hint: count.count takes count"
    )
    assert isinstance(raised.value, ToolException)
    assert raised.value.problems == ['count: "many" is not of type "integer"']


def test_a_restricted_tool_is_refused_with_the_text_of_the_restriction(
    write_skill: WriteSkill,
) -> None:
    front = "name: safe\ndescription: S.\nallowed-tools: Read, Write\n"
    tool = only_tool(write_skill("safe", front, files={"scripts/run.sh": "echo ran\n"}))

    with pytest.raises(ToolRestrictionError, match="Tool 'Bash' not allowed for skill 'safe'"):
        tool.invoke({})

    assert tool.invoke(as_call(tool, {})).status == "error"


def test_a_timeout_is_an_error_with_the_exit_code_of_timeout(write_skill: WriteSkill) -> None:
    files = {"scripts/hang.sh": "echo begun\nsleep 600\n"}
    tool = only_tool(write_skill("slow", files=files), Limits(timeout_seconds=2))

    with pytest.raises(ScriptTimeoutError) as raised:
        tool.invoke({})

    assert isinstance(raised.value, ToolException)
    assert raised.value.exit_code == 124
    assert str(raised.value).startswith("Script timed out after 2s: scripts/hang.sh\nbegun")


def test_an_error_survives_pickling(write_skill: WriteSkill) -> None:
    tool = only_tool(write_skill("pdf", files={"scripts/extract.sh": FAILS}))
    with pytest.raises(ToolException) as raised:
        tool.invoke({})

    again = pickle.loads(pickle.dumps(raised.value))

    assert isinstance(again, ToolException)
    assert isinstance(again, SkillpouchError)
    assert (str(again), again.__dict__) == (str(raised.value), raised.value.__dict__)


@pytest.mark.usefixtures("writes_directly")
async def test_cancelling_an_awaited_call_cancels_it(write_skill: WriteSkill) -> None:
    home = write_skill("slow", files={"scripts/hang.sh": "touch begun\nsleep 600\n"})
    call = asyncio.ensure_future(only_tool(home).ainvoke({}))
    while not (home.parent.parent / "work" / "begun").exists():
        await asyncio.sleep(0.02)

    call.cancel()

    with pytest.raises(asyncio.CancelledError):
        await call
