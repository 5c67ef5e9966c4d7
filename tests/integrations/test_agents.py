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
from skillpouch.integrations.long_calls import LongCallOptions
from tests.integrations.conftest import JOB_TOOLS, PIXEL, Gate, Provider
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


@pytest.mark.promise("leave-1")
async def test_calls_that_take_long_go_on_and_are_waited_for_read_and_cancelled_by_their_owner(
    gate: Gate, soon: LongCallOptions, provider: Provider
) -> None:
    def outputs(request: dict[str, Any]) -> list[str]:
        items = request["input"]
        return [each["output"] for each in items if each.get("type") == "function_call_output"]

    def go_on(request: dict[str, Any]) -> dict[str, Any]:
        first, second = (re.findall("j[0-9a-f]{32}", each)[0] for each in outputs(request))
        gate.end("a", first)
        wanted = ("job_wait", {"id": first}), ("job_output", {"id": second})
        calls = [(name, json.dumps(given)) for name, given in wanted]
        return response_reply(*calls, ("job_cancel", json.dumps({"id": second})), first=2)

    gated = [("slow__gated", json.dumps({"args": [word]})) for word in "ab"]
    provider.replies = [response_reply(*gated), go_on, said("Done.")]

    ran = await run(provider, agents_tools(gate.manager, include="slow", long_calls=soon))

    names = [[each["name"] for each in request["tools"]] for request in provider.requests]
    assert names == [["slow__gated"], *[["slow__gated", *JOB_TOOLS]] * 2]
    assert ran.final_output == "Done."
    _, second, ended, printed, cancelled = outputs(provider.requests[-1])
    assert ended == "begun\nended"
    assert printed.startswith("begun\n")
    assert cancelled.removeprefix("job ").split()[0] in second
    assert cancelled.endswith(" (slow.gated) is cancelled")
    assert gate.ran == ["a", "b"]


@pytest.mark.promise("leave-1")
async def test_the_tools_of_another_owner_reach_no_job_and_are_not_shown_for_it(
    gate: Gate, soon: LongCallOptions, provider: Provider
) -> None:
    other = LongCallOptions(soft_limit_seconds=0.3, owner=f"not {soon.owner}")
    provider.replies = [response_reply(("slow__gated", '{"args": ["a"]}')), said("Done.")]
    await run(provider, agents_tools(gate.manager, long_calls=soon))
    (left,) = gate.job_ids
    gate.until_begun()

    provider.replies += [response_reply(("job_cancel", json.dumps({"id": left}))), said("Done.")]
    always = LongCallOptions(list_tools=True, owner=other.owner)
    await run(provider, agents_tools(gate.manager, long_calls=always))
    provider.replies += [said("Done.")]
    await run(provider, agents_tools(gate.manager, long_calls=other))

    assert provider.requests[3]["input"][-1]["output"].startswith(f"Error: no job '{left}'")
    assert [each["name"] for each in provider.requests[4]["tools"]] == ["slow__gated"]
    assert gate.manager.job(left).state == "running"
