"""Real agents of the OpenAI Agents SDK, with its client against a local server."""

import base64
import json
import re
from typing import Any

import jsonschema_rs
import openai
import pytest
from agents import Agent, OpenAIResponsesModel, Runner, ToolSearchTool, set_tracing_disabled

from skillpouch import SkillManager, tool
from skillpouch.integrations.agents import agents_tools
from tests.integrations.conftest import PIXEL, Provider
from tests.integrations.test_openai import response_reply

pytestmark = pytest.mark.slow

INCLUDE = ["demo", "read"]


@pytest.fixture(autouse=True)
def no_tracing() -> None:
    set_tracing_disabled(disabled=True)


def said(text: str) -> dict[str, Any]:
    block = {"type": "output_text", "text": text, "annotations": []}
    message = {
        "type": "message",
        "id": "m1",
        "role": "assistant",
        "status": "completed",
        "content": [block],
    }
    return response_reply() | {"output": [message]}


async def run(provider: Provider, tools: list[Any]) -> Any:
    client = openai.AsyncOpenAI(base_url=provider.url, api_key="none", max_retries=0)
    async with client:
        model = OpenAIResponsesModel("m", client)
        return await Runner.run(Agent(name="Demo", model=model, tools=tools), "Go.")


async def test_calls_of_one_turn_are_answered_in_order_and_failures_are_told(
    manager: SkillManager, provider: Provider
) -> None:
    provider.replies = [
        response_reply(
            ("demo__add", '{"a": 2, "b": 3}'),
            ("demo__fail", '{"data": null}'),
            ("demo__add", '{"a": "two", "b": null}'),
            ("demo__add", "{broken"),
            ("read", '{"file_path": "dot.png"}'),
        ),
        said("Done."),
    ]

    ran = await run(provider, agents_tools(manager, include=INCLUDE))

    assert ran.final_output == "Done."
    answers = [
        each["output"]
        for each in provider.requests[1]["input"]
        if each.get("type") == "function_call_output"
    ]
    assert answers[0] == "5"
    assert answers[1] == "Error: Script execution failed with exit code 4\nno such page"
    assert answers[2].startswith('Error: invalid arguments for demo.add: a: "two" is not of type')
    assert answers[3].startswith("Error: the arguments of demo__add are not a JSON object")
    data = base64.b64encode(PIXEL).decode()
    assert answers[4][0] == {"type": "input_text", "text": "dot.png: image/png, 32 bytes"}
    assert answers[4][1]["image_url"] == f"data:image/png;base64,{data}"


async def test_what_is_sent_has_names_and_schemas_that_openai_accepts(
    manager: SkillManager, provider: Provider
) -> None:
    provider.replies = [said("Done.")]

    await run(provider, agents_tools(manager))

    sent = provider.requests[0]["tools"]
    assert len(sent) == len({each["name"] for each in sent}) == 11
    for each in sent:
        assert re.fullmatch("[a-zA-Z0-9_-]{1,64}", each["name"])
        assert each["parameters"]["type"] == "object"
        jsonschema_rs.validator_for(each["parameters"])
    strict = {each["name"]: each["strict"] for each in sent if each["name"].startswith("demo")}
    assert strict == {"demo__add": True, "demo__echo": False, "demo__fail": True}


async def test_deferred_tools_are_left_to_the_search_of_the_provider(
    manager: SkillManager, provider: Provider
) -> None:
    provider.replies = [said("Done.")]
    tools = agents_tools(manager, include="demo", defer="demo.add")

    await run(provider, [*tools, ToolSearchTool()])

    sent = provider.requests[0]["tools"]
    assert [each.get("name") for each in sent if each.get("defer_loading")] == ["demo__add"]
    assert {"type": "tool_search"} in sent


async def test_functions_need_no_manager(provider: Provider) -> None:
    @tool
    def double(number: int) -> int:
        """Double a number."""
        return number * 2

    provider.replies = [response_reply(("double", json.dumps({"number": 4}))), said("Done.")]

    await run(provider, agents_tools([double]))

    assert provider.requests[1]["input"][-1]["output"] == "8"
