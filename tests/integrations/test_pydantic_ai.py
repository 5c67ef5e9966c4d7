"""Real agents of pydantic-ai, with the models that it ships for tests."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import (
    Agent,
    BinaryContent,
    ModelMessage,
    ModelMessagesTypeAdapter,
    ModelRequest,
    ModelResponse,
    RunContext,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UnexpectedModelBehavior,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.toolsets import ToolsetTool, WrapperToolset

from skillpouch import SkillManager, tool
from skillpouch.integrations.long_calls import LongCallOptions
from skillpouch.integrations.pydantic_ai import SkillpouchToolset
from skillpouch.results import ToolResult
from tests.integrations.conftest import JOB_TOOLS, PIXEL, Gate

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]


def scripted(*turns: list[tuple[str, Any]]) -> FunctionModel:
    """A model that makes the calls of each turn, then says "Done."."""
    left = list(turns)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        del messages, info
        if not left:
            return ModelResponse(parts=[TextPart("Done.")])
        return ModelResponse(parts=[ToolCallPart(name, given) for name, given in left.pop(0)])

    return FunctionModel(answer)


def returned(messages: list[ModelMessage]) -> list[ToolReturnPart]:
    requests = [message for message in messages if isinstance(message, ModelRequest)]
    parts = [part for request in requests for part in request.parts]
    return [part for part in parts if isinstance(part, ToolReturnPart)]


def instructions(messages: list[ModelMessage]) -> str | None:
    first = messages[0]
    assert isinstance(first, ModelRequest)
    return first.instructions


async def test_calls_of_one_turn_are_answered_in_order_and_failures_are_told(
    manager: SkillManager,
) -> None:
    turn = [
        ("demo__add", {"a": 2, "b": 3}),
        ("demo__fail", {}),
        ("demo__add", {"a": "two"}),
        ("demo__add", "{broken"),
        ("read", {"file_path": "dot.png"}),
    ]
    agent = Agent(scripted(turn), toolsets=[SkillpouchToolset(manager)])

    ran = await agent.run("Go.")

    added, failed, refused, broken, shown = returned(ran.all_messages())
    assert ran.output == "Done."
    assert (added.content, added.outcome) == ("5", "success")
    assert failed.content == "Script execution failed with exit code 4\nno such page"
    assert failed.outcome == "failed"
    assert (refused.outcome, broken.outcome) == ("retried", "retried")
    assert str(refused.content).startswith(
        'invalid arguments for demo.add: a: "two" is not of type "integer"'
    )
    assert shown.content == [
        "dot.png: image/png, 32 bytes",
        BinaryContent(data=PIXEL, media_type="image/png"),
    ]


async def test_a_program_gets_the_whole_result_and_a_conversation_can_be_written_down(
    manager: SkillManager,
) -> None:
    turn = [("demo__add", {"a": 2}), ("read", {"file_path": "dot.png"})]
    agent = Agent(scripted(turn), toolsets=[SkillpouchToolset(manager)])

    ran = await agent.run("Go.")

    result = returned(ran.all_messages())[0].metadata
    assert isinstance(result, ToolResult)
    assert (result.tool, result.structured, result.exit_code) == ("demo.add", 3, 0)
    written = ModelMessagesTypeAdapter.dump_json(ran.all_messages())
    read = returned(ModelMessagesTypeAdapter.validate_json(written))
    assert (read[0].content, read[0].metadata["structured"]) == ("3", 3)


async def test_the_model_that_calls_everything_is_given_schemas_it_can_fill(
    manager: SkillManager,
) -> None:
    model = TestModel(call_tools=["demo__add", "demo__echo"])
    agent = Agent(model, toolsets=[SkillpouchToolset(manager, include="demo")])

    ran = await agent.run("Go.")

    assert model.last_model_request_parameters is not None
    shown = model.last_model_request_parameters.function_tools
    assert [each.name for each in shown] == ["demo__add", "demo__echo", "demo__fail"]
    assert [each.metadata and each.metadata["id"] for each in shown] == [
        "demo.add",
        "demo.echo",
        "demo.fail",
    ]
    assert [each.outcome for each in returned(ran.all_messages())] == ["success", "success"]


async def test_wrong_arguments_end_a_run_only_after_the_retries_it_was_given(
    manager: SkillManager,
) -> None:
    wrong = [("demo__add", {"a": "two"})]
    patient = Agent(scripted(wrong, wrong), toolsets=[SkillpouchToolset(manager, max_retries=2)])
    strict = Agent(scripted(wrong, wrong), toolsets=[SkillpouchToolset(manager, max_retries=1)])

    assert (await patient.run("Go.")).output == "Done."
    with pytest.raises(UnexpectedModelBehavior, match="demo__add"):
        await strict.run("Go.")


async def test_a_skill_that_is_added_during_a_run_is_there_at_the_next_step(
    manager: SkillManager, write_skill: WriteSkill
) -> None:
    @tool
    def learn() -> str:
        """Write a new skill."""
        write_skill("late", files={"scripts/hello.sh": "#!/bin/bash\n# Greet\necho hello\n"})
        manager.discover()
        return "learned"

    turns: list[list[tuple[str, Any]]] = [[("learn", {})], [("late__hello", {})]]
    toolsets = [SkillpouchToolset(manager), SkillpouchToolset([learn], id="functions")]
    agent = Agent(scripted(*turns), toolsets=toolsets)

    ran = await agent.run("Go.")

    assert [each.content for each in returned(ran.all_messages())] == ["learned", "hello"]


async def test_skills_are_listed_where_an_agent_can_activate_them(manager: SkillManager) -> None:
    finding = SkillManager(*manager.roots, disclosure=True)
    turn = [("activate_skill", {"name": "demo"})]
    agent = Agent(scripted(turn), toolsets=[SkillpouchToolset(finding)])
    unaware = Agent(scripted(), toolsets=[SkillpouchToolset(manager)])

    ran = await agent.run("Go.")
    other = await unaware.run("Go.")

    (activated,) = returned(ran.all_messages())
    assert '<skill_content name="demo">' in str(activated.content)
    assert "<name>demo</name>" in (instructions(ran.all_messages()) or "")
    assert instructions(other.all_messages()) is None


async def test_tools_keep_working_under_another_name(manager: SkillManager) -> None:
    toolset = SkillpouchToolset(manager, include="demo.add").prefixed("my")
    agent = Agent(scripted([("my_demo__add", {"a": 1})]), toolsets=[toolset])

    ran = await agent.run("Go.")

    assert [each.content for each in returned(ran.all_messages())] == ["2"]


async def test_deferred_tools_are_found_by_searching(manager: SkillManager) -> None:
    model = TestModel(call_tools=[])
    agent = Agent(model, toolsets=[SkillpouchToolset(manager, include="demo", defer="demo.add")])

    await agent.run("Go.")

    assert model.last_model_request_parameters is not None
    shown = model.last_model_request_parameters.function_tools
    deferred = {each.name for each in shown if each.defer_loading}
    assert deferred == {"demo__add"}
    assert "search_tools" in {each.name for each in shown}


@pytest.mark.promise("leave-1")
async def test_calls_that_take_long_go_on_and_are_waited_for_read_and_cancelled_by_their_owner(
    gate: Gate, soon: LongCallOptions
) -> None:
    shown: list[list[str]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        shown.append([each.name for each in info.function_tools])
        done = returned(messages)
        if not done:
            calls = [ToolCallPart("slow__gated", {"args": [word]}) for word in "ab"]
            return ModelResponse(parts=calls)
        if len(done) > 2:
            return ModelResponse(parts=[TextPart("Done.")])
        first, second = (each.metadata.job_id for each in done)
        gate.end("a", first)
        wanted = ("job_wait", first), ("job_output", second), ("job_cancel", second)
        return ModelResponse(parts=[ToolCallPart(name, {"id": each}) for name, each in wanted])

    agent = Agent(
        FunctionModel(answer), toolsets=[SkillpouchToolset(gate.manager, long_calls=soon)]
    )
    ran = await agent.run("Go.")

    left, second, ended, printed, cancelled = returned(ran.all_messages())
    assert shown == [["slow__gated"], *[["slow__gated", *JOB_TOOLS]] * 2]
    assert (left.metadata.code, left.outcome) == ("still_running", "success")
    assert ended.content == "begun\nended"
    assert str(printed.content).startswith("begun\n")
    assert cancelled.content == f"job {second.metadata.job_id} (slow.gated) is cancelled"
    assert gate.ran == ["a", "b"]


@pytest.mark.promise("leave-1")
async def test_the_tools_of_another_owner_reach_no_job(gate: Gate, soon: LongCallOptions) -> None:
    first = Agent(
        scripted([("slow__gated", {"args": ["a"]})]),
        toolsets=[SkillpouchToolset(gate.manager, long_calls=soon)],
    )
    await first.run("Go.")
    (left,) = gate.job_ids
    gate.until_begun()
    always = LongCallOptions(list_tools=True, owner=f"not {soon.owner}")
    other = Agent(
        scripted([(name, {"id": left}) for name in JOB_TOOLS]),
        toolsets=[SkillpouchToolset(gate.manager, long_calls=always)],
    )

    ran = await other.run("Go.")

    refused = returned(ran.all_messages())
    assert [each.outcome for each in refused] == ["failed"] * 3
    assert str(refused[0].content).startswith(f"no job '{left}'")
    assert gate.manager.job(left).state == "running"


@pytest.mark.promise("leave-5")
async def test_a_step_that_a_workflow_runs_again_starts_no_second_job(
    gate: Gate, soon: LongCallOptions
) -> None:
    toolset = SkillpouchToolset(gate.manager, long_calls=soon)
    results: list[ToolResult] = []

    class Twice(WrapperToolset[Any]):
        async def call_tool(
            self, name: str, tool_args: dict[str, Any], ctx: RunContext[Any], tool: ToolsetTool[Any]
        ) -> Any:
            first = await super().call_tool(name, tool_args, ctx, tool)
            again = await super().call_tool(name, tool_args, ctx, tool)
            results.extend((first.metadata, again.metadata))
            return again

    agent = Agent(scripted([("slow__gated", {"args": ["a"]})]), toolsets=[Twice(toolset)])
    await agent.run("Go.")

    gate.until_begun()
    assert [each.job_id for each in results] == gate.job_ids * 2
    assert (gate.ran, len(gate.job_ids)) == (["a"], 1)
