"""Anthropic's own client against a local server that speaks its Messages interface."""

import base64
import re
from typing import Any

import anthropic
import jsonschema_rs
import pytest

from skillpouch import SkillManager
from skillpouch.integrations.anthropic import (
    anthropic_tools,
    arun_anthropic_calls,
    run_anthropic_calls,
)
from skillpouch.integrations.long_calls import LongCallOptions
from tests.integrations.conftest import JOB_TOOLS, PIXEL, Gate, Provider

pytestmark = pytest.mark.slow


def reply(*calls: tuple[str, dict[str, Any]], text: str = "Let me see.") -> dict[str, Any]:
    blocks = [
        {"type": "tool_use", "id": f"toolu_{place}", "name": name, "input": given}
        for place, (name, given) in enumerate(calls)
    ]
    return {
        "id": "m1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": text}, *blocks],
        "stop_reason": "tool_use" if calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


@pytest.fixture
def client(provider: Provider) -> anthropic.Anthropic:
    return anthropic.Anthropic(base_url=provider.url, api_key="none", max_retries=0)


def test_messages_calls_tools_side_by_side_and_reads_the_answers_in_order(
    manager: SkillManager, provider: Provider, client: anthropic.Anthropic
) -> None:
    provider.replies = [
        reply(
            ("demo__add", {"a": 2, "b": 3}),
            ("demo__fail", {}),
            ("read", {"file_path": "dot.png"}),
            ("nothing", {}),
        ),
        reply(text="Done."),
    ]
    tools: Any = anthropic_tools(manager)
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    asked: Any = {"model": "m", "max_tokens": 99, "tools": tools}

    with client:
        first = client.messages.create(messages=messages, **asked)
        messages += [{"role": "assistant", "content": first.content}]
        messages += run_anthropic_calls(first, manager)
        last = client.messages.create(messages=messages, **asked)

    assert last.content[0].to_dict()["text"] == "Done."
    answers = provider.requests[1]["messages"][2]
    added, failed, shown, unknown = answers["content"]
    assert answers["role"] == "user"
    assert added == {"type": "tool_result", "tool_use_id": "toolu_0", "content": "5"}
    assert (failed["tool_use_id"], failed["is_error"]) == ("toolu_1", True)
    assert failed["content"] == "Script execution failed with exit code 4\nno such page"
    source = {
        "type": "base64",
        "media_type": "image/png",
        "data": base64.b64encode(PIXEL).decode(),
    }
    assert shown["content"][1] == {"type": "image", "source": source}
    assert (unknown["is_error"], unknown["content"].splitlines()[0]) == (
        True,
        "no tool named 'nothing'",
    )


def test_what_is_sent_has_names_and_schemas_that_anthropic_accepts(
    manager: SkillManager, provider: Provider, client: anthropic.Anthropic
) -> None:
    provider.replies = [reply()]
    tools: Any = anthropic_tools(manager, strict="demo.add")

    with client:
        client.messages.create(
            model="m", max_tokens=9, tools=tools, messages=[{"role": "user", "content": "Go."}]
        )

    sent = provider.requests[0]["tools"]
    assert all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", each["name"]) for each in sent)
    for each in sent:
        assert each["input_schema"]["type"] == "object"
        assert {"oneOf", "anyOf", "allOf"}.isdisjoint(each["input_schema"])
        jsonschema_rs.validator_for(each["input_schema"])
    assert [each["name"] for each in sent if each.get("strict")] == ["demo__add"]


async def test_what_is_awaited_is_the_same(manager: SkillManager) -> None:
    message = reply(("demo__add", {"a": 2}))

    assert await arun_anthropic_calls(message, manager) == run_anthropic_calls(message, manager)
    assert await arun_anthropic_calls(message["content"], manager) != []


def test_many_tools_can_be_deferred(manager: SkillManager) -> None:
    search, *tools = anthropic_tools(manager, defer=["demo.*"], include="demo")

    assert search["name"] == "tool_search_tool_bm25"
    assert all(each["defer_loading"] for each in tools)


def test_a_message_without_calls_needs_no_answer(manager: SkillManager) -> None:
    assert run_anthropic_calls(reply(), manager) == []
    assert run_anthropic_calls({"role": "assistant", "content": "Hello."}, manager) == []


def test_tools_of_others_can_be_left_to_them(manager: SkillManager) -> None:
    message = reply(("theirs", {}), ("demo__add", {"a": 1}))

    (answer,) = run_anthropic_calls(message, manager, unknown="skip")

    assert [each["tool_use_id"] for each in answer["content"]] == ["toolu_1"]


@pytest.mark.promise("leave-1")
def test_calls_that_take_long_go_on_and_are_waited_for_read_and_cancelled_by_their_owner(
    gate: Gate, soon: LongCallOptions, provider: Provider, client: anthropic.Anthropic
) -> None:
    provider.replies = [reply(*(("slow__gated", {"args": [word]}) for word in "ab"))]
    other = LongCallOptions(soft_limit_seconds=0.3, owner="somebody else")

    def ask() -> Any:
        tools: Any = anthropic_tools(gate.manager, include="slow", long_calls=soon)
        said: Any = [{"role": "user", "content": "Go."}]
        return client.messages.create(model="m", max_tokens=9, messages=said, tools=tools)

    def answers(message: Any, options: LongCallOptions) -> list[dict[str, Any]]:
        (told,) = run_anthropic_calls(message, gate.manager, long_calls=options)
        return list(told["content"])

    with client:
        left = answers(ask(), soon)
        first, second = (re.findall("j[0-9a-f]{32}", each["content"])[0] for each in left)
        gate.end("a", first)
        wanted = ("job_wait", {"id": first}), ("job_output", {"id": second})
        provider.replies.append(reply(*wanted, ("job_cancel", {"id": second})))
        then = ask()
        foreign = answers(then, other)
        ended, printed, cancelled = answers(then, soon)

    names = [[each["name"] for each in request["tools"]] for request in provider.requests]
    assert names == [["slow__gated"], ["slow__gated", *JOB_TOOLS]]
    assert [each["is_error"] for each in foreign] == [True] * 3
    assert foreign[0]["content"].startswith(f"no job '{first}'")
    assert (ended["content"], ended.get("is_error")) == ("begun\nended", None)
    assert printed["content"].startswith("begun\n")
    assert cancelled["content"] == f"job {second} (slow.gated) is cancelled"
    assert gate.ran == ["a", "b"]
