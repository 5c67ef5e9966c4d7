"""Agents of the OpenAI Agents SDK, offline, with a scripted model."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("agents")

from agents import Agent, Model, ModelResponse, RunConfig, Runner, Usage
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
)

from kitbag import SkillManager, tool
from kitbag.integrations.agents import agents_tools


class ScriptedModel(Model):
    """Says what it was told to; notes what it was sent."""

    def __init__(self, *turns: Any) -> None:
        self.turns = list(turns)
        self.inputs: list[Any] = []
        self.tools: list[Any] = []

    async def get_response(self, *_: Any, **given: Any) -> ModelResponse:
        said = given["input"]
        self.inputs.append(list(said) if isinstance(said, list) else said)
        self.tools = given["tools"]
        turn = self.turns[len(self.inputs) - 1]
        return ModelResponse(output=turn, usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def calls(*wanted: tuple[str, str]) -> list[Any]:
    return [
        ResponseFunctionToolCall(
            type="function_call", call_id=f"call_{place}", name=name, arguments=given
        )
        for place, (name, given) in enumerate(wanted)
    ]


def says(text: str) -> list[Any]:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return [
        ResponseOutputMessage(
            id="m1", type="message", role="assistant", status="completed", content=[content]
        )
    ]


async def ran(model: ScriptedModel, tools: list[Any]) -> Any:
    agent = Agent(name="worker", model=model, tools=tools)
    found = await Runner.run(agent, "Go.", run_config=RunConfig(tracing_disabled=True))
    return found.final_output


def outputs(model: ScriptedModel) -> list[Any]:
    found = [each for each in model.inputs[-1] if each.get("type") == "function_call_output"]
    return [each["output"] for each in found]


async def test_an_agent_calls_tools_is_told_what_went_wrong_and_goes_on(
    manager: SkillManager,
) -> None:
    wanted = [
        ("kit__add", '{"a": 2, "b": null}'),
        ("kit__fail", "{}"),
        ("kit__add", '{"a": "two", "b": null}'),
        ("read", '{"file_path": "dot.png"}'),
    ]
    model = ScriptedModel(calls(*wanted), says("It is 3."))

    final = await ran(model, [*agents_tools(manager)])

    added, failed, wrong, shown = outputs(model)
    assert final == "It is 3."
    assert added == "3"
    assert failed == "Error: Script execution failed with exit code 4\nno such page"
    assert wrong.startswith('Error: invalid arguments for kit.add: a: "two" is not of type')
    assert [each["type"] for each in shown] == ["input_text", "input_image"]


async def test_schemas_are_strict_where_they_can_be(manager: SkillManager) -> None:
    model = ScriptedModel(says("Hello."))

    await ran(model, [*agents_tools(manager, include="kit")])

    assert {each.name: each.strict_json_schema for each in model.tools} == {
        "kit__add": True,
        "kit__echo": False,
        "kit__fail": False,
    }


async def test_a_function_needs_no_manager() -> None:
    @tool
    def double(number: int) -> int:
        """Double a number."""
        return number * 2

    model = ScriptedModel(calls(("double", '{"number": 4}')), says("8."))

    await ran(model, [*agents_tools([double])])

    assert outputs(model) == ["8"]
