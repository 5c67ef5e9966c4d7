"""OpenAI's own client against a local server that speaks both of its interfaces."""

import base64
import json
import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import openai
import pytest

from skillpouch import SkillManager, tool
from skillpouch.integrations.long_calls import LongCallOptions
from skillpouch.integrations.openai import arun_openai_calls, openai_tools, run_openai_calls
from skillpouch.policy.approval import Answer, Question
from tests.integrations.conftest import JOB_TOOLS, PIXEL, Gate, Provider, WriteSkill

pytestmark = pytest.mark.slow

INCLUDE = ["demo", "read"]


def chat_reply(*calls: tuple[str, str], text: str | None = None) -> dict[str, Any]:
    wanted = [
        {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": given}}
        for place, (name, given) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": text, **({"tool_calls": wanted} if wanted else {})}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if wanted else "stop"}
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }


def response_reply(*calls: tuple[str, str], first: int = 0) -> dict[str, Any]:
    output = [
        {
            "type": "function_call",
            "id": f"fc_{place}",
            "call_id": f"call_{place}",
            "name": name,
            "arguments": given,
            "status": "completed",
        }
        for place, (name, given) in enumerate(calls, first)
    ]
    return {
        "id": "r1",
        "object": "response",
        "created_at": 1,
        "model": "m",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }


@pytest.fixture
def client(provider: Provider) -> openai.OpenAI:
    return openai.OpenAI(base_url=provider.url, api_key="none", max_retries=0)


def test_chat_completions_calls_tools_side_by_side_and_reads_the_answers_in_order(
    manager: SkillManager, provider: Provider, client: openai.OpenAI
) -> None:
    provider.replies = [
        chat_reply(
            ("demo__add", '{"a": 2, "b": 3}'),
            ("demo__fail", "{}"),
            ("demo__add", '{"a": "two", "b": null}'),
            ("demo__add", '{"a": 2, "b": null}'),
            ("nothing", "{}"),
            ("demo__add", "{broken"),
        ),
        chat_reply(text="Done."),
    ]
    tools: Any = openai_tools(manager, include=INCLUDE)
    messages: list[Any] = [{"role": "user", "content": "Go."}]

    with client:
        first = client.chat.completions.create(model="m", messages=messages, tools=tools)
        messages += [first.choices[0].message, *run_openai_calls(first, manager)]
        last = client.chat.completions.create(model="m", messages=messages, tools=tools)

    assert last.choices[0].message.content == "Done."
    answers = provider.requests[1]["messages"][2:]
    assert [(each["role"], each["tool_call_id"]) for each in answers] == [
        ("tool", f"call_{place}") for place in range(6)
    ]
    assert [each["content"].splitlines()[0] for each in answers] == [
        "5",
        "Error: Script execution failed with exit code 4",
        'Error: invalid arguments for demo.add: a: "two" is not of type "integer"',
        "3",
        "Error: no tool named 'nothing'",
        answers[5]["content"],
    ]
    assert answers[5]["content"].startswith(
        "Error: the arguments of demo__add are not a JSON object"
    )
    assert "no such page" in answers[1]["content"]


def test_what_is_sent_has_names_and_schemas_that_openai_accepts(
    manager: SkillManager, provider: Provider, client: openai.OpenAI
) -> None:
    provider.replies = [chat_reply(text="Hello.")]
    tools: Any = openai_tools(manager)

    with client:
        client.chat.completions.create(
            model="m", messages=[{"role": "user", "content": "Go."}], tools=tools
        )

    sent = [each["function"] for each in provider.requests[0]["tools"]]
    by_name = {each["name"]: each for each in sent}
    assert len(by_name) == len(sent) == 11
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in by_name)
    assert all(each["parameters"]["type"] == "object" for each in sent)
    for each in sent:
        jsonschema_rs.validator_for(each["parameters"])
    assert by_name["demo__add"]["strict"] is True
    assert by_name["demo__add"]["parameters"] == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": ["integer", "null"]}},
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    assert by_name["demo__echo"]["strict"] is False


async def test_responses_calls_tools_and_shows_images(
    manager: SkillManager, provider: Provider, client: openai.OpenAI
) -> None:
    provider.replies = [
        response_reply(("demo__add", '{"a": 2, "b": 3}'), ("read", '{"file_path": "dot.png"}')),
        response_reply(),
    ]
    tools: Any = openai_tools(manager, api="responses", include=INCLUDE)
    items: list[Any] = [{"role": "user", "content": "Go."}]

    with client:
        first = client.responses.create(model="m", input=items, tools=tools)
        items += [*first.output, *(await arun_openai_calls(first, manager))]
        client.responses.create(model="m", input=items, tools=tools)

    sent = provider.requests[1]
    assert sent["tools"][-1]["name"] == "demo__fail"
    data = base64.b64encode(PIXEL).decode()
    assert sent["input"][-2:] == [
        {"type": "function_call_output", "call_id": "call_0", "output": "5"},
        {
            "type": "function_call_output",
            "call_id": "call_1",
            "output": [
                {"type": "input_text", "text": "dot.png: image/png, 32 bytes"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{data}"},
            ],
        },
    ]


def test_in_chat_completions_an_image_follows_the_tool_messages(manager: SkillManager) -> None:
    reply = chat_reply(("read", '{"file_path": "dot.png"}'), ("demo__add", '{"a": 1}'))

    messages = run_openai_calls(reply, manager)

    assert [message["role"] for message in messages] == ["tool", "tool", "user"]
    assert messages[2]["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")


def test_tools_of_others_can_be_left_to_them(manager: SkillManager) -> None:
    reply = chat_reply(("theirs", "{}"), ("demo__add", '{"a": 1}'))

    messages = run_openai_calls(reply, manager, unknown="skip")

    assert [(each["tool_call_id"], each["content"]) for each in messages] == [("call_1", "2")]


def test_many_tools_can_be_deferred_in_responses_only(manager: SkillManager) -> None:
    tools = openai_tools(manager, api="responses", defer="demo", include=INCLUDE)

    deferred = [each.get("name") for each in tools if each.get("defer_loading")]
    assert deferred == ["demo__add", "demo__echo", "demo__fail"]
    assert tools[-1] == {"type": "tool_search"}
    with pytest.raises(ValueError, match="use api='responses'"):
        openai_tools(manager, defer="demo")


def test_a_function_needs_no_manager() -> None:
    @tool
    def double(number: int) -> int:
        """Double a number."""
        return number * 2

    reply = json.loads(json.dumps(chat_reply(("double", '{"number": 4}'))))

    assert openai_tools([double])[0]["function"]["name"] == "double"
    assert run_openai_calls(reply, [double]) == [
        {"role": "tool", "tool_call_id": "call_0", "content": "8"}
    ]


def test_a_reply_without_calls_needs_no_answer(manager: SkillManager) -> None:
    assert run_openai_calls(chat_reply(text="Hello."), manager) == []
    assert run_openai_calls(response_reply(), manager) == []


def test_a_model_calls_only_what_it_was_offered(
    manager: SkillManager, write_skill: WriteSkill
) -> None:
    front = "name: mine\ndescription: For people.\ndisable-model-invocation: true\n"
    write_skill("mine", front=front, files={"scripts/hi.sh": "#!/bin/bash\n# Hi\necho hi\n"})
    manager.discover()
    reply = chat_reply(("mine__hi", "{}"), ("demo__fail", "{}"), ("demo__add", '{"a": 1}'))

    messages = run_openai_calls(reply, manager, include="demo.add")

    assert [each["content"].splitlines()[0] for each in messages] == [
        "Error: no tool named 'mine__hi'",
        "Error: no tool named 'demo__fail'",
        "2",
    ]
    assert run_openai_calls(reply, manager, exclude="demo", unknown="skip") == []


def test_a_tool_that_an_agent_defined_is_offered_to_it(tmp_path: Path) -> None:
    async def yes(_: Question) -> Answer:
        return Answer(yes=True)

    (tmp_path / "skills").mkdir()
    manager = SkillManager(tmp_path / "skills", define_tools=True, approver=yes)
    code = "def handler(args):\n    return 'hi'\n"
    manager.call("define_tool", {"name": "hi", "description": "Say hi.", "code": code})

    names = [each["function"]["name"] for each in openai_tools(manager)]

    assert "hi" in names
    assert run_openai_calls(chat_reply(("hi", "{}")), manager)[0]["content"] == "hi"


@pytest.mark.promise("leave-1")
@pytest.mark.parametrize("api", ["chat", "responses"])
def test_calls_that_take_long_go_on_and_are_waited_for_read_and_cancelled_by_their_owner(
    gate: Gate, soon: LongCallOptions, provider: Provider, client: openai.OpenAI, api: Any
) -> None:
    reply_of = chat_reply if api == "chat" else response_reply
    provider.replies = [reply_of(*(("slow__gated", f'{{"args": ["{word}"]}}') for word in "ab"))]
    other = LongCallOptions(soft_limit_seconds=0.3, owner="somebody else")

    def ask() -> Any:
        tools: Any = openai_tools(gate.manager, api=api, include="slow", long_calls=soon)
        said: Any = [{"role": "user", "content": "Go."}]
        if api == "chat":
            return client.chat.completions.create(model="m", messages=said, tools=tools)
        return client.responses.create(model="m", input=said, tools=tools)

    def answers(response: Any, options: LongCallOptions) -> list[str]:
        found = run_openai_calls(response, gate.manager, long_calls=options)
        return [each["content"] if api == "chat" else each["output"] for each in found]

    with client:
        left = answers(ask(), soon)
        first, second = (re.findall("j[0-9a-f]{32}", text)[0] for text in left)
        gate.end("a", first)
        wanted = [(name, json.dumps({"id": second})) for name in ("job_output", "job_cancel")]
        provider.replies.append(reply_of(("job_wait", json.dumps({"id": first})), *wanted))
        then = ask()
        foreign = answers(then, other)
        ended, printed, cancelled = answers(then, soon)

    names = [
        [(each.get("function") or each)["name"] for each in request["tools"]]
        for request in provider.requests
    ]
    assert names == [["slow__gated"], ["slow__gated", *JOB_TOOLS]]
    assert [text.startswith("Error: no job ") for text in foreign] == [True] * 3
    assert (ended, printed.splitlines()[0]) == ("begun\nended", "begun")
    assert cancelled == f"job {second} (slow.gated) is cancelled"
    assert gate.ran == ["a", "b"]


def test_who_lists_tools_once_lists_those_for_jobs_from_the_beginning(
    gate: Gate, soon: LongCallOptions
) -> None:
    always = LongCallOptions(list_tools=True, owner=soon.owner)

    listed = openai_tools(gate.manager, long_calls=always)

    assert [each["function"]["name"] for each in listed] == ["slow__gated", *JOB_TOOLS]
