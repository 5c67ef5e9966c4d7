"""Pydantic AI agents, offline, with its own models for tests."""

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("pydantic_ai")

from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel

from kitbag import SkillManager, ToolResult, tool
from kitbag.integrations.pydantic_ai import KitbagToolset


def scripted(turns: Sequence[ModelResponse], seen: list[AgentInfo]) -> FunctionModel:
    """Return a model that says what it was told to, and notes what it was shown."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:  # noqa: ARG001
        seen.append(info)
        return turns[len(seen) - 1]

    return FunctionModel(answer)


def calls(name: str, arguments: dict[str, Any]) -> ModelResponse:
    return ModelResponse(parts=[ToolCallPart(name, arguments)])


def says(text: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(text)])


def parts(messages: list[ModelMessage], kind: type) -> list[Any]:
    return [part for message in messages for part in message.parts if isinstance(part, kind)]


async def test_an_agent_calls_tools_is_told_what_went_wrong_and_goes_on(
    manager: SkillManager,
) -> None:
    seen: list[AgentInfo] = []
    turns = [
        calls("kit__add", {"a": "two"}),
        calls("kit__add", {"a": 2, "b": 3}),
        calls("kit__fail", {}),
        says("It is 5."),
    ]
    agent = Agent(scripted(turns, seen), toolsets=[KitbagToolset(manager)])

    found = await agent.run("Go.")

    wrong, added, failed = parts(found.all_messages(), ToolReturnPart)
    assert found.output == "It is 5."
    assert '"two" is not of type "integer"' in str(wrong.content)
    assert added.content == "5"
    assert isinstance(added.metadata, ToolResult)
    assert "no such page" in str(failed.content)
    assert [each.outcome for each in (wrong, added, failed)] == ["retried", "success", "failed"]
    assert b"no such page" in found.all_messages_json()


async def test_a_model_sees_names_and_schemas_of_the_tools(manager: SkillManager) -> None:
    seen: list[AgentInfo] = []
    toolset = KitbagToolset(manager, include="kit.add")
    agent = Agent(scripted([says("Hello.")], seen), toolsets=[toolset])

    await agent.run("Go.")

    (shown,) = seen[0].function_tools
    schema = manager.get_tool("kit.add").input_schema
    assert (shown.name, shown.description) == ("kit__add", "Add two numbers.")
    assert shown.parameters_json_schema == schema


async def test_skills_are_listed_where_an_agent_can_activate_them(manager: SkillManager) -> None:
    seen: list[AgentInfo] = []
    finding = SkillManager(*manager.roots, disclosure=True)
    turns = [calls("activate_skill", {"name": "kit"}), says("Done.")]
    agent = Agent(scripted(turns, seen), toolsets=[KitbagToolset(finding)])

    found = await agent.run("Go.")

    (activated,) = parts(found.all_messages(), ToolReturnPart)
    assert "<name>kit</name>" in (seen[0].instructions or "")
    assert '<skill_content name="kit">' in activated.content


async def test_the_test_model_of_the_framework_calls_every_tool() -> None:
    said: list[str] = []

    @tool
    def note(text: str, times: int = 1) -> str:
        """Note something."""
        said.append(text)
        return "noted" * times

    agent = Agent(TestModel(), toolsets=[KitbagToolset([note])])

    found = await agent.run("Go.")

    assert len(said) == 1
    assert "noted" in found.output
