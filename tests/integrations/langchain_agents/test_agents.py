"""Whole agents, offline: a scripted model drives `create_agent` with the skills of a manager."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool as langchain_tool
from langgraph.checkpoint.memory import InMemorySaver

from skillpouch import ScriptedTool, SkillManager
from skillpouch.integrations.langchain import SkillpouchMiddleware, create_langchain_tools
from tests.integrations.conftest import JOB_TOOLS
from tests.integrations.langchain_agents.scripted import ScriptedModel, calls, says

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]

FINDING = ["activate_skill", "read_skill_file", "search_tools"]
ADD = '''"""Add two numbers."""
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("a", type=int)
parser.add_argument("b", type=int)
given = parser.parse_args()
if given.a < 0:
    parser.error("a must not be negative")
print(given.a + given.b)
'''


@pytest.fixture
def manager(write_skill: WriteSkill, tmp_path: Path) -> SkillManager:
    (tmp_path / "work").mkdir()
    files = {"scripts/add.py": ADD, "references/rules.md": "Round nothing.\n"}
    write_skill("calculator", body="Use `add`.\n", files=files)
    write_skill("poems", "name: poems\ndescription: Writes verse.\n", body="Rhyme.\n")
    return SkillManager(tmp_path / "skills", workspace=tmp_path / "work")


def tool_messages(messages: list[AnyMessage]) -> list[ToolMessage]:
    return [message for message in messages if isinstance(message, ToolMessage)]


def outcome(agent: Any, **config: Any) -> dict[str, Any]:
    found: dict[str, Any] = agent.invoke({"messages": [HumanMessage("Go.")]}, config or None)
    return found


def test_an_agent_activates_a_skill_uses_its_tool_fails_and_recovers(manager: SkillManager) -> None:
    model = ScriptedModel(
        turns=[
            calls(("activate_skill", {"name": "calculator"}), turn=1),
            calls(("calculator__add", {"a": -2, "b": 3}), turn=2),
            calls(("calculator__add", {"a": 2, "b": 3}), turn=3),
            says("It is 5."),
        ]
    )
    agent = create_agent(
        model, middleware=[SkillpouchMiddleware(manager)], system_prompt="You count."
    )

    found = outcome(agent)

    activated, failed, added = tool_messages(found["messages"])
    assert "Use `add`." in activated.content
    assert (failed.status, failed.artifact.exit_code) == ("error", 2)
    assert "a must not be negative" in failed.content
    assert (added.status, added.content, added.artifact.structured) == ("success", "5", 5)
    assert found["messages"][-1].content == "It is 5."
    assert found["active_skills"] == ["calculator"]
    assert model.names == [FINDING, *([[*FINDING, "calculator__add"]] * 3)]


def test_the_catalogue_stands_after_the_system_prompt_of_the_agent(manager: SkillManager) -> None:
    model = ScriptedModel(turns=[says("Hello.")])
    agent = create_agent(
        model, middleware=[SkillpouchMiddleware(manager)], system_prompt="You count."
    )

    outcome(agent)

    system = model.requests[0][0][0].content
    assert isinstance(system, str)
    assert system.startswith("You count.\n\nSkills are folders")
    assert re.findall("<name>(.*)</name>", system) == ["calculator", "poems"]


async def test_an_awaited_agent_does_the_same(manager: SkillManager) -> None:
    model = ScriptedModel(
        turns=[
            calls(("activate_skill", {"name": "calculator"}), turn=1),
            calls(
                ("calculator__add", {"a": 2, "b": 3}),
                ("read_skill_file", {"skill": "calculator", "path": "references/rules.md"}),
                turn=2,
            ),
            says("It is 5."),
        ]
    )
    agent = create_agent(model, middleware=[SkillpouchMiddleware(manager)])

    found = await agent.ainvoke({"messages": [HumanMessage("Go.")]})

    _, added, read = tool_messages(found["messages"])
    assert added.content == "5"
    assert "     1\tRound nothing." in read.content


def test_a_tool_of_a_skill_that_is_not_active_is_refused_with_the_next_step(
    manager: SkillManager,
) -> None:
    model = ScriptedModel(
        turns=[calls(("calculator__add", {"a": 2, "b": 3}), turn=1), says("Sorry.")]
    )
    agent = create_agent(model, middleware=[SkillpouchMiddleware(manager)])

    (refused,) = tool_messages(outcome(agent)["messages"])

    assert (refused.status, refused.content) == (
        "error",
        (
            "calculator__add is a tool of the skill 'calculator', which is not active\n"
            "hint: call activate_skill with name 'calculator' first"
        ),
    )


def test_tools_that_a_search_found_are_there_from_then_on(manager: SkillManager) -> None:
    model = ScriptedModel(
        turns=[
            calls(("search_tools", {"query": "add numbers"}), turn=1),
            calls(("calculator__add", {"a": 2, "b": 3}), turn=2),
            says("5."),
        ]
    )
    agent = create_agent(model, middleware=[SkillpouchMiddleware(manager)])

    found = outcome(agent)

    assert tool_messages(found["messages"])[1].content == "5"
    assert model.names[1] == [*FINDING, "calculator__add"]


def test_a_skill_that_is_activated_twice_says_its_instructions_once(manager: SkillManager) -> None:
    again = ("activate_skill", {"name": "poems"})
    model = ScriptedModel(turns=[calls(again, turn=1), calls(again, turn=2), says("Done.")])
    agent = create_agent(model, middleware=[SkillpouchMiddleware(manager)])

    first, second = tool_messages(outcome(agent)["messages"])

    assert "Rhyme." in first.content
    assert second.content == (
        "This skill is active already; its instructions, unchanged, are above."
    )


def test_skills_that_come_and_go_are_noticed_at_the_next_turn(
    manager: SkillManager, write_skill: WriteSkill, tmp_path: Path
) -> None:
    def grow() -> str:
        """Change the skills on disk."""
        write_skill("songs", "name: songs\ndescription: Sings.\n", body="La la.\n")
        (tmp_path / "skills/poems/SKILL.md").unlink()
        return "changed"

    model = ScriptedModel(
        turns=[
            calls(("grow", {}), turn=1),
            calls(("activate_skill", {"name": "songs"}), turn=2),
            says("La."),
        ]
    )
    middleware = SkillpouchMiddleware(manager, reload_seconds=0)
    agent = create_agent(model, [langchain_tool(grow)], middleware=[middleware])

    found = outcome(agent)

    systems = [str(messages[0].content) for messages, _ in model.requests]
    assert [re.findall("<name>(.*)</name>", text) for text in systems[:2]] == [
        ["calculator", "poems"],
        ["calculator", "songs"],
    ]
    assert "La la." in tool_messages(found["messages"])[1].content


def test_without_skills_nothing_is_added_to_an_agent(tmp_path: Path) -> None:
    model = ScriptedModel(turns=[says("Hello.")])
    agent = create_agent(model, middleware=[SkillpouchMiddleware(SkillManager(tmp_path))])

    outcome(agent)

    (messages, shown) = model.requests[0]
    assert ([message.type for message in messages], shown) == (["human"], [])


def test_a_tool_of_the_agent_keeps_its_name_beside_one_of_a_skill(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    def shout(text: str) -> str:
        """Shout."""
        return text.upper()

    declared = '[{"name": "shout", "description": "Whisper.", "script": "run.py"}]'
    files = {"tools.json": declared, "run.py": "def handler(args):\n    return 'psst'\n"}
    root = write_skill("voice", files=files).parent
    (tmp_path / "work").mkdir()
    manager = SkillManager(root, workspace=tmp_path / "work")
    model = ScriptedModel(
        turns=[
            calls(("activate_skill", {"name": "voice"}), turn=1),
            calls(("shout", {"text": "hey"}), ("voice__shout", {}), turn=2),
            says("Done."),
        ]
    )
    middleware = [SkillpouchMiddleware(manager)]
    agent = create_agent(model, [langchain_tool(shout)], middleware=middleware)

    found = outcome(agent)

    assert model.names[1] == ["shout", *FINDING, "voice__shout"]
    assert [message.content for message in tool_messages(found["messages"])[1:]] == ["HEY", "psst"]


def test_a_conversation_that_is_kept_still_has_its_skills(manager: SkillManager) -> None:
    model = ScriptedModel(
        turns=[
            calls(("activate_skill", {"name": "calculator"}), turn=1),
            says("Ready."),
            calls(("calculator__add", {"a": 10**18, "b": 1}), turn=2),
            says("There."),
        ]
    )
    kept = InMemorySaver()
    config = {"thread_id": "one"}
    first = create_agent(model, middleware=[SkillpouchMiddleware(manager)], checkpointer=kept)
    outcome(first, configurable=config)
    second = create_agent(model, middleware=[SkillpouchMiddleware(manager)], checkpointer=kept)

    found = outcome(second, configurable=config)

    assert tool_messages(found["messages"])[-1].content == "1000000000000000001"
    assert model.names[2] == [*FINDING, "calculator__add"]


def test_a_result_that_no_checkpoint_could_hold_does_not_end_the_conversation(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    files = {"scripts/big.sh": "echo '{\"n\": 123456789012345678901234567890}'\n"}
    root = write_skill("numbers", files=files).parent
    manager = SkillManager(root, workspace=tmp_path / "work")
    model = ScriptedModel(turns=[calls(("numbers__big", {}), turn=1), says("Big.")])
    tools = create_langchain_tools(manager, skills="none")
    agent = create_agent(model, tools, checkpointer=InMemorySaver())

    found = outcome(agent, configurable={"thread_id": "one"})

    (message,) = tool_messages(found["messages"])
    assert message.content == '{"n": 123456789012345678901234567890}'


def test_plain_tools_work_without_the_middleware(manager: SkillManager) -> None:
    model = ScriptedModel(
        turns=[
            calls(("poems", {"arguments": "on autumn"}), turn=1),
            calls(("calculator__add", {"a": "two", "b": 3}), turn=2),
            calls(("calculator__add", {"a": 2, "b": 3}), turn=3),
            says("5."),
        ]
    )
    agent = create_agent(model, create_langchain_tools(manager))

    poem, wrong, added = tool_messages(outcome(agent)["messages"])

    assert poem.content == manager.invoke_skill("poems", "on autumn")
    assert wrong.status == "error"
    assert added.content == "5"


def test_an_agent_does_in_one_script_what_takes_others_many_turns(manager: SkillManager) -> None:
    commands = "for n in 1 2 3; do calculator.add --a $n --b 10; done | jq -s add"
    model = ScriptedModel(turns=[calls(("bash_tools", {"commands": commands})), says("It is 36.")])
    scripted = ScriptedTool.over(manager, name="bash_tools")
    agent = create_agent(model, tools=create_langchain_tools([scripted.as_tool()]))

    (ran,) = tool_messages(outcome(agent)["messages"])

    assert (ran.status, ran.content) == ("success", "36")
    # A script may take a minute, which is longer than a model waits for it.
    assert model.names == [["bash_tools", *JOB_TOOLS]] * 2
    assert "calculator.add --a <integer>" in model.requests[0][1][0]["description"]
