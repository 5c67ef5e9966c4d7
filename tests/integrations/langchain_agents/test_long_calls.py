"""Calls of agents and graphs that take long: they go on, are found again, and run once."""

from typing import Any, TypedDict

import pytest
from langchain.agents import create_agent
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableLambda
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import Command

from skillpouch import Policy, SkillManager
from skillpouch.integrations.langchain import SkillpouchMiddleware, create_langchain_tools
from skillpouch.integrations.long_calls import LongCallOptions
from skillpouch.policy.rules import Rule
from tests.integrations.conftest import JOB_TOOLS, Gate
from tests.integrations.langchain_agents.scripted import ScriptedModel, calls, says

pytestmark = pytest.mark.slow

GATED = {"name": "slow__gated", "args": {"args": ["a"]}, "id": "call-1", "type": "tool_call"}


def thread(name: str) -> Any:
    return {"configurable": {"thread_id": name}}


def told(messages: list[BaseMessage]) -> list[ToolMessage]:
    return [message for message in messages if isinstance(message, ToolMessage)]


def go() -> dict[str, Any]:
    """What a conversation begins with: to activate the skill would be a call like any other."""
    return {"messages": [HumanMessage("Go.")], "active_skills": ["slow"]}


@pytest.mark.promise("leave-1")
async def test_an_agent_waits_for_reads_and_cancels_calls_that_took_long(
    gate: Gate, soon: LongCallOptions
) -> None:
    left: list[str] = []

    def go_on(messages: list[BaseMessage]) -> AIMessage:
        left.extend(message.artifact.job_id for message in told(messages))
        first, second = left
        gate.end("a", first)
        wanted = ("job_wait", first), ("job_output", second), ("job_cancel", second)
        return calls(*((name, {"id": each}) for name, each in wanted), turn=3)

    gated = calls(*(("slow__gated", {"args": [word]}) for word in "ab"), turn=2)
    model = ScriptedModel(turns=[gated, go_on, says("Done.")])
    middleware = SkillpouchMiddleware(gate.manager, long_calls=soon)
    agent: Any = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())

    found = await agent.ainvoke(go(), thread("one"))

    ended, printed, cancelled = told(found["messages"])[-3:]
    assert ["job_wait" in names for names in model.names] == [False, True, True]
    assert model.names[1][-3:] == JOB_TOOLS
    assert found["left_jobs"] == left
    assert ended.content == "begun\nended"
    assert str(printed.content).startswith("begun\n")
    assert cancelled.content == f"job {left[1]} (slow.gated) is cancelled"
    assert gate.ran == ["a", "b"]


@pytest.mark.promise("leave-1")
def test_another_thread_reaches_no_job_and_is_not_shown_the_tools(
    gate: Gate, soon: LongCallOptions
) -> None:
    def cancels(_: list[BaseMessage]) -> AIMessage:
        return calls(("job_cancel", {"id": gate.job_ids[0]}), turn=1)

    gated = calls(("slow__gated", {"args": ["a"]}), turn=2)
    model = ScriptedModel(turns=[gated, says("Done."), cancels, says("Done.")])
    middleware = SkillpouchMiddleware(gate.manager, long_calls=soon)
    agent: Any = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())

    agent.invoke(go(), thread("one"))
    other = agent.invoke(go(), thread("two"))

    gate.until_begun()
    refused = told(other["messages"])[-1]
    assert (refused.status, "job_wait" in model.names[2]) == ("error", False)
    assert str(refused.content).startswith("no job ")
    assert gate.manager.job(gate.job_ids[0]).state == "running"


class Answers(TypedDict):
    messages: list[Any]


@pytest.mark.promise("leave-5")
@pytest.mark.parametrize("is_async", [False, True])
async def test_a_node_that_is_run_again_starts_no_second_job(
    gate: Gate, soon: LongCallOptions, is_async: bool
) -> None:
    """A process that dies leaves a checkpoint from which its last node is run again."""
    tools = create_langchain_tools(gate.manager, skills="none", long_calls=soon)
    passes: list[Any] = []

    def dies_after(message: ToolMessage) -> Answers:
        passes.append(message.artifact)
        if len(passes) == 1:
            raise RuntimeError("it dies here")
        return {"messages": [message]}

    async def acall(_: Answers) -> Answers:
        return dies_after(await tools[0].ainvoke(GATED))

    building = StateGraph(Answers)
    building.add_node("call", RunnableLambda(lambda _: dies_after(tools[0].invoke(GATED)), acall))
    building.add_edge(START, "call")
    building.add_edge("call", END)
    graph: Any = building.compile(checkpointer=InMemorySaver())

    async def run(given: Answers | None) -> Any:
        if is_async:
            return await graph.ainvoke(given, thread("one"))
        return graph.invoke(given, thread("one"))

    with pytest.raises(RuntimeError, match="it dies here"):
        await run({"messages": []})
    gate.end("a", passes[0].job_id)
    found = await run(None)

    assert (passes[0].code, passes[1].job_id) == ("still_running", passes[0].job_id)
    assert [job.id for job in gate.manager.jobs()] == [passes[0].job_id]
    assert (gate.ran, told(found["messages"])[0].content) == (["a"], "begun\nended")


def test_the_same_call_id_in_another_run_is_another_call(gate: Gate, soon: LongCallOptions) -> None:
    tools = create_langchain_tools(gate.manager, skills="none", long_calls=soon)
    building = StateGraph(Answers)
    building.add_node("tools", ToolNode(tools))
    building.add_edge(START, "tools")
    building.add_edge("tools", END)
    graph: Any = building.compile()
    gate.open("a")

    for _ in range(2):
        graph.invoke({"messages": [AIMessage("", tool_calls=[GATED])]}, thread("one"))
    gate.until_begun()

    assert (gate.ran, len(gate.job_ids)) == (["a", "a"], 2)


@pytest.mark.promise("leave-5")
@pytest.mark.parametrize("restarts", [False, True], ids=["same process", "restarted"])
def test_an_interrupt_about_a_job_lets_it_go_on_when_the_run_is_resumed(
    gate: Gate, soon: LongCallOptions, restarts: bool
) -> None:
    policy = Policy(rules=[Rule(verdict="ask", tools=["slow.*"], reason="it takes long")])
    manager = SkillManager(*gate.manager.roots, workspace=gate.work, writes="direct", policy=policy)
    patient = LongCallOptions(soft_limit_seconds=100, owner=soon.owner)
    gated = calls(("slow__gated", {"args": ["a"]}), turn=2)
    model = ScriptedModel(turns=[gated, says("Done.")])
    saver = InMemorySaver()

    def agent() -> Any:
        middleware = SkillpouchMiddleware(manager, long_calls=patient)
        return create_agent(model, middleware=[middleware], checkpointer=saver)

    running = agent()
    asked = running.invoke(go(), thread("one"))["__interrupt__"]
    before = gate.ran
    states = [job.state for job in manager.jobs()]
    gate.open("a")
    if restarts:  # an answer to a question that this process has not asked is asked for again
        running = agent()
        assert "__interrupt__" in running.invoke(Command(resume=True), thread("one"))
    found = running.invoke(Command(resume=True), thread("one"))

    assert "it takes long" in asked[0].value["reasons"][0]
    assert (before, states) == ([], ["waiting_for_approval"])
    assert told(found["messages"])[-1].content == "begun\nended"
    assert (gate.ran, [job.state for job in manager.jobs()]) == (["a"], ["done"])


def test_a_rejected_job_is_denied_and_has_not_run(gate: Gate, soon: LongCallOptions) -> None:
    policy = Policy(rules=[Rule(verdict="ask", tools=["slow.*"], reason="it takes long")])
    manager = SkillManager(*gate.manager.roots, workspace=gate.work, policy=policy)
    patient = LongCallOptions(soft_limit_seconds=100, owner=soon.owner)
    gated = calls(("slow__gated", {"args": ["a"]}), turn=2)
    model = ScriptedModel(turns=[gated, says("Done.")])
    middleware = SkillpouchMiddleware(manager, long_calls=patient)
    agent: Any = create_agent(model, middleware=[middleware], checkpointer=InMemorySaver())
    agent.invoke(go(), thread("one"))

    rejection: Any = Command(resume={"type": "reject", "message": "not today"})
    found = agent.invoke(rejection, thread("one"))

    refused = told(found["messages"])[-1]
    assert (refused.status, "not today" in str(refused.content)) == ("error", True)
    assert (gate.ran, [job.state for job in manager.jobs()]) == ([], ["failed"])
