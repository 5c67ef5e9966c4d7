"""Whole agents over the providers' own clients: activate, call, fail, be approved, script."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from skillpouch import Policy, ScriptedTool, SkillManager, Tool
from skillpouch.integrations.anthropic import anthropic_tools, run_anthropic_calls
from skillpouch.integrations.openai import openai_tools, run_openai_calls
from skillpouch.policy.approval import Answer, Question
from skillpouch.policy.rules import Rule
from tests.integrations.conftest import ADD, FAIL, Provider
from tests.integrations.test_anthropic import reply as anthropic_reply
from tests.integrations.test_openai import chat_reply, response_reply

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]
Agent = Callable[[list[Tool], Provider], None]

TURNS: list[tuple[str, dict[str, Any]]] = [
    ("activate_skill", {"name": "demo"}),
    ("demo__fail", {}),
    ("demo__add", {"a": 2, "b": 3}),
    ("demo__drop", {}),
    ("script", {"commands": "for n in 1 2; do demo.add --a $n --b 10; done | jq -s add"}),
]


@pytest.fixture
def asked() -> list[str]:
    return []


@pytest.fixture
def tools(write_skill: WriteSkill, tmp_path: Path, asked: list[str]) -> Iterator[list[Tool]]:
    async def approver(question: Question) -> Answer:
        asked.append(question.tool)
        return Answer(yes=True)

    files = {
        "scripts/add.py": ADD,
        "scripts/fail.sh": FAIL,
        "scripts/drop.sh": "#!/bin/bash\n# Drop all\necho dropped\n",
    }
    root = write_skill("demo", body="Use `add`.\n", files=files).parent
    (tmp_path / "work").mkdir()
    policy = Policy(rules=[Rule(verdict="ask", tools=["demo.drop"])])
    manager = SkillManager(
        root, workspace=tmp_path / "work", policy=policy, approver=approver, disclosure=True
    )
    scripted = ScriptedTool.over(manager)
    yield [*manager.tools, scripted.as_tool()]
    scripted.close()


def over_chat(tools: list[Tool], provider: Provider) -> None:
    provider.replies = [chat_reply((name, json.dumps(given))) for name, given in TURNS]
    provider.replies.append(chat_reply(text="Done."))
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    offered: Any = openai_tools(tools)
    with openai.OpenAI(base_url=provider.url, api_key="none", max_retries=0) as client:
        for _ in (*TURNS, "the last word"):
            turn = client.chat.completions.create(model="m", messages=messages, tools=offered)
            messages += [turn.choices[0].message, *run_openai_calls(turn, tools)]


def over_responses(tools: list[Tool], provider: Provider) -> None:
    provider.replies = [response_reply((name, json.dumps(given))) for name, given in TURNS]
    provider.replies.append(response_reply())
    items: list[Any] = [{"role": "user", "content": "Go."}]
    offered: Any = openai_tools(tools, api="responses")
    with openai.OpenAI(base_url=provider.url, api_key="none", max_retries=0) as client:
        for _ in (*TURNS, "the last word"):
            turn = client.responses.create(model="m", input=items, tools=offered)
            items += [*turn.output, *run_openai_calls(turn, tools)]


def over_messages(tools: list[Tool], provider: Provider) -> None:
    provider.replies = [anthropic_reply((name, given)) for name, given in TURNS]
    provider.replies.append(anthropic_reply(text="Done."))
    messages: list[Any] = [{"role": "user", "content": "Go."}]
    asking: Any = {"model": "m", "max_tokens": 99, "tools": anthropic_tools(tools)}
    with anthropic.Anthropic(base_url=provider.url, api_key="none", max_retries=0) as client:
        for _ in (*TURNS, "the last word"):
            turn = client.messages.create(messages=messages, **asking)
            messages.append({"role": "assistant", "content": turn.content})
            messages += run_anthropic_calls(turn, tools)


def answers_in(request: dict[str, Any]) -> list[str]:
    """Return what the last request tells of the tools, whatever the interface calls it."""
    found = []
    for each in request.get("messages") or request["input"]:
        if each.get("role") == "tool":
            found.append(each["content"])
        elif each.get("type") == "function_call_output":
            found.append(each["output"])
        elif isinstance(each.get("content"), list):
            blocks = [block for block in each["content"] if block["type"] == "tool_result"]
            found += [_text(block["content"]) for block in blocks]
    return found


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(each["text"] for each in content)


@pytest.mark.parametrize("agent", [over_chat, over_responses, over_messages])
def test_an_agent_goes_all_the_way_over_the_client_of_its_provider(
    agent: Agent, tools: list[Tool], provider: Provider, asked: list[str]
) -> None:
    agent(tools, provider)

    activated, failed, added, dropped, scripted = answers_in(provider.requests[-1])
    assert "Use `add`." in activated
    assert "no such page" in failed
    assert (added, dropped, scripted) == ("5", "dropped", "23")
    assert asked == ["demo.drop"]
