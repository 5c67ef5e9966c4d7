"""Approvals as interrupts: the run stops, somebody answers, and it goes on."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain.agents import create_agent
from langchain_core.messages import HumanMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from skillpouch import Policy, SkillManager
from skillpouch.integrations.langchain import SkillpouchMiddleware
from skillpouch.needs import Need
from skillpouch.policy.approval import Question
from skillpouch.policy.rules import Rule
from skillpouch.trust.grants import Grants
from tests.integrations.langchain_agents.scripted import ScriptedModel, calls, says

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]

CONFIG: Any = {"configurable": {"thread_id": "one"}}
ASKS = Policy(rules=[Rule(verdict="ask", tools=["mail.*"], reason="mail goes out")])
SENDS = '#!/bin/bash\n# Send a letter\necho "$1" >> sent\necho "sent to $1"\n'


@pytest.fixture
def manager(write_skill: WriteSkill, tmp_path: Path) -> SkillManager:
    (tmp_path / "work").mkdir()
    root = write_skill("mail", files={"scripts/send.sh": SENDS}).parent
    return SkillManager(root, workspace=tmp_path / "work", policy=ASKS)


def model_that_sends(*names: str) -> ScriptedModel:
    return ScriptedModel(
        turns=[
            calls(("activate_skill", {"name": "mail"}), turn=1),
            calls(*(("mail__send", {"args": [name]}) for name in names), turn=2),
            says("Done."),
            calls(*(("mail__send", {"args": [name]}) for name in names), turn=3),
            says("Done again."),
        ]
    )


def sent(tmp_path: Path) -> list[str]:
    file = tmp_path / "work" / "sent"
    return sorted(file.read_text().split()) if file.exists() else []


def last_tool_message(found: dict[str, Any]) -> ToolMessage:
    return [each for each in found["messages"] if isinstance(each, ToolMessage)][-1]


def interrupted(agent: Any) -> Any:
    (interrupt,) = agent.invoke({"messages": [HumanMessage("Send it.")]}, CONFIG)["__interrupt__"]
    return interrupt.value


@pytest.mark.promise("ctx-3")
def test_a_call_that_needs_a_yes_stops_the_run_and_goes_on_with_it(
    manager: SkillManager, tmp_path: Path
) -> None:
    agent = create_agent(
        model_that_sends("ada"),
        middleware=[SkillpouchMiddleware(manager)],
        checkpointer=InMemorySaver(),
    )

    asked = interrupted(agent)
    before = sent(tmp_path)
    found = agent.invoke(Command(resume={"decisions": [{"type": "approve"}]}), CONFIG)

    assert before == []
    assert asked["action_requests"][0]["name"] == "mail.send"
    assert asked["action_requests"][0]["args"] == {"args": ["ada"]}
    assert asked["review_configs"] == [
        {"action_name": "mail.send", "allowed_decisions": ["approve", "reject"]}
    ]
    assert any("mail goes out" in reason for reason in asked["reasons"])
    assert "scripts/send.sh" in asked["runs"]
    assert last_tool_message(found).content == "sent to ada"
    assert sent(tmp_path) == ["ada"]


@pytest.mark.promise("ctx-3")
@pytest.mark.parametrize(
    "answer",
    [
        False,
        {"decisions": [{"type": "reject", "message": "not today"}]},
        {"type": "reject"},
        {"decisions": []},
        {"decisions": [{"type": "approve"}, {"type": "approve"}]},
        {"type": "edit"},
        "yes",
        1,
    ],
)
async def test_everything_but_a_yes_is_a_no(
    manager: SkillManager, tmp_path: Path, answer: Any
) -> None:
    agent = create_agent(
        model_that_sends("ada"),
        middleware=[SkillpouchMiddleware(manager)],
        checkpointer=InMemorySaver(),
    )
    await agent.ainvoke({"messages": [HumanMessage("Send it.")]}, CONFIG)

    found = await agent.ainvoke(Command(resume=answer), CONFIG)

    refused = last_tool_message(found)
    assert (refused.status, sent(tmp_path)) == ("error", [])
    assert "mail.send may not run" in refused.content
    assert found["messages"][-1].content == "Done."


@pytest.mark.promise("ctx-3")
def test_a_yes_to_a_skill_that_has_changed_since_is_asked_for_again(
    manager: SkillManager, tmp_path: Path
) -> None:
    agent = create_agent(
        model_that_sends("ada"),
        middleware=[SkillpouchMiddleware(manager)],
        checkpointer=InMemorySaver(),
    )
    first = interrupted(agent)
    script = tmp_path / "skills/mail/scripts/send.sh"
    script.write_text(SENDS.replace("sent to", "sold to"))

    again = agent.invoke(Command(resume=True), CONFIG)["__interrupt__"][0].value
    before = sent(tmp_path)
    found = agent.invoke(Command(resume=True), CONFIG)

    assert again["digest"] != first["digest"]
    assert before == []
    assert last_tool_message(found).content == "sold to ada"


@pytest.mark.promise("ctx-3")
def test_a_yes_to_a_question_from_before_a_restart_is_asked_for_again(
    manager: SkillManager, tmp_path: Path
) -> None:
    kept, model = InMemorySaver(), model_that_sends("ada")
    before = create_agent(model, middleware=[SkillpouchMiddleware(manager)], checkpointer=kept)
    interrupted(before)
    agent = create_agent(model, middleware=[SkillpouchMiddleware(manager)], checkpointer=kept)

    again = agent.invoke(Command(resume=True), CONFIG)
    unsent = sent(tmp_path)
    agent.invoke(Command(resume=True), CONFIG)

    assert len(again["__interrupt__"]) == 1
    assert (unsent, sent(tmp_path)) == ([], ["ada"])


def test_calls_side_by_side_are_asked_about_one_by_one(
    manager: SkillManager, tmp_path: Path
) -> None:
    agent = create_agent(
        model_that_sends("ada", "eve"),
        middleware=[SkillpouchMiddleware(manager)],
        checkpointer=InMemorySaver(),
    )
    asked = agent.invoke({"messages": [HumanMessage("Send both.")]}, CONFIG)["__interrupt__"]

    answers = {each.id: "ada" in str(each.value["action_requests"]) for each in asked}
    agent.invoke(Command(resume=answers), CONFIG)

    assert len(asked) == 2
    assert sent(tmp_path) == ["ada"]


def test_a_yes_for_the_session_is_not_asked_for_again(
    manager: SkillManager, tmp_path: Path
) -> None:
    agent = create_agent(
        model_that_sends("ada"),
        middleware=[SkillpouchMiddleware(manager)],
        checkpointer=InMemorySaver(),
    )
    interrupted(agent)
    agent.invoke(Command(resume={"type": "approve", "remember": "session"}), CONFIG)

    found = agent.invoke({"messages": [HumanMessage("Once more.")]}, CONFIG)

    assert "__interrupt__" not in found
    assert sent(tmp_path) == ["ada", "ada"]


def test_the_approver_of_the_manager_is_asked_when_that_is_wanted(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    root = write_skill("mail", files={"scripts/send.sh": SENDS}).parent
    asked: list[str] = []

    def approver(question: Question) -> bool:
        asked.append(question.tool)
        return True

    manager = SkillManager(root, workspace=tmp_path / "work", policy=ASKS, approver=approver)
    middleware = SkillpouchMiddleware(manager, approvals="manager")
    agent = create_agent(model_that_sends("ada"), middleware=[middleware])

    agent.invoke({"messages": [HumanMessage("Send it.")]})

    assert (asked, sent(tmp_path)) == (["mail.send"], ["ada"])


CLEANS = "#!/bin/bash\n# Clean up\necho run >> $LOG\nrm -f many/*\necho cleaned\n"


@pytest.fixture
def cleaning(write_skill: WriteSkill, tmp_path: Path) -> Callable[[], SkillManager]:
    """Make a manager of a skill that deletes twenty files, and counts how often it ran."""
    many = tmp_path / "work" / "many"
    many.mkdir(parents=True)
    for number in range(20):
        (many / str(number)).write_text("text\n")
    (tmp_path / "granted").mkdir()
    script = CLEANS.replace("$LOG", str(tmp_path / "granted" / "log"))
    root = write_skill("tidy", files={"scripts/clean.sh": script}).parent
    path = Need(kind="write", value=str(tmp_path / "granted"))
    Grants().grant(SkillManager(root).get_skill("tidy"), [path], by="user")
    return lambda: SkillManager(root, workspace=tmp_path / "work", cache=False)


def model_that_cleans() -> ScriptedModel:
    first = calls(("activate_skill", {"name": "tidy"}), turn=1)
    return ScriptedModel(turns=[first, calls(("tidy__clean", {}), turn=2), says("Done.")])


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "granted" / "log").read_text().splitlines())


@pytest.mark.promise("ctx-3")
@pytest.mark.parametrize("restarts", [False, True], ids=["same process", "restarted"])
async def test_an_answer_about_changes_settles_them_and_runs_nothing_again(
    cleaning: Callable[[], SkillManager], tmp_path: Path, restarts: bool
) -> None:
    saver, many = InMemorySaver(), tmp_path / "work" / "many"
    model, middleware = model_that_cleans(), SkillpouchMiddleware(cleaning())
    agent: Any = create_agent(model, middleware=[middleware], checkpointer=saver)

    asked = await agent.ainvoke({"messages": [HumanMessage("Clean.")]}, CONFIG)
    before = len(list(many.iterdir()))
    if restarts:
        middleware = SkillpouchMiddleware(cleaning())
        agent = create_agent(model, middleware=[middleware], checkpointer=saver)
    found = await agent.ainvoke(Command(resume=True), CONFIG)

    request = asked["__interrupt__"][0].value["action_requests"][0]
    assert "tidy.clean ran, and would change this" in request["description"]
    assert (before, list(many.iterdir())) == (20, [])
    assert runs(tmp_path) == 1
    assert (last_tool_message(found).content, last_tool_message(found).status) == (
        "cleaned",
        "success",
    )


@pytest.mark.promise("ctx-3")
def test_a_no_about_changes_leaves_them_refused_and_runs_nothing_again(
    cleaning: Callable[[], SkillManager], tmp_path: Path
) -> None:
    middleware = SkillpouchMiddleware(cleaning())
    saver = InMemorySaver()
    agent: Any = create_agent(model_that_cleans(), middleware=[middleware], checkpointer=saver)
    agent.invoke({"messages": [HumanMessage("Clean.")]}, CONFIG)

    found = agent.invoke(Command(resume={"type": "reject", "message": "not today"}), CONFIG)

    refused = last_tool_message(found)
    assert (refused.status, runs(tmp_path)) == ("error", 1)
    assert "did not reach the workspace: not today" in str(refused.content)
    assert len(list((tmp_path / "work" / "many").iterdir())) == 20
    assert cleaning().changes()[0].state == "refused"


def test_a_question_about_running_comes_before_the_one_about_changes(
    cleaning: Callable[[], SkillManager], tmp_path: Path
) -> None:
    asks = Policy(rules=[Rule(verdict="ask", tools=["tidy.*"])])
    manager = SkillManager(*cleaning().roots, workspace=tmp_path / "work", policy=asks)
    agent: Any = create_agent(
        model_that_cleans(),
        middleware=[SkillpouchMiddleware(manager)],
        checkpointer=InMemorySaver(),
    )
    agent.invoke({"messages": [HumanMessage("Clean.")]}, CONFIG)

    second = agent.invoke(Command(resume=True), CONFIG)
    found = agent.invoke(Command(resume=True), CONFIG)

    assert "would change this" in str(second["__interrupt__"][0].value)
    assert (runs(tmp_path), last_tool_message(found).content) == (1, "cleaned")
