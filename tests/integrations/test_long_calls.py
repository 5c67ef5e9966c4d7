"""What all integrations do with calls that take long, tried with dictionaries."""

import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch import Policy, SessionManager, SkillManager, tool
from skillpouch.integrations.long_calls import LongCallOptions
from skillpouch.integrations.openai import arun_openai_calls, openai_tools, run_openai_calls
from skillpouch.jobs.job_runner import user_jobs
from skillpouch.policy.approval import Question
from skillpouch.policy.rules import Rule
from tests.integrations.conftest import JOB_TOOLS, Gate
from tests.jobs.hosts import jobs_folder, until

pytestmark = pytest.mark.slow

ASKS = Policy(rules=[Rule(verdict="ask", tools=["slow.*"], reason="it takes long")])


def message(name: str, arguments: Any) -> dict[str, Any]:
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
    return {"role": "assistant", "tool_calls": [call]}


def said(name: str, arguments: Any, tools: Any, options: LongCallOptions) -> str:
    (answer,) = run_openai_calls(message(name, arguments), tools, long_calls=options)
    text: str = answer["content"]
    return text


def id_in(text: str) -> str:
    found = re.search("j[0-9a-f]{32}", text)
    assert found is not None, text
    return found[0]


def names(tools: Any, options: LongCallOptions) -> list[str]:
    return [each["function"]["name"] for each in openai_tools(tools, long_calls=options)]


def asking(gate: Gate, approver: Callable[[Question], bool] | None = None) -> SkillManager:
    return SkillManager(
        *gate.manager.roots,
        workspace=gate.work,
        writes="direct",
        policy=ASKS,
        approver=approver,
    )


def test_a_call_whose_time_limit_is_within_the_soft_limit_is_no_job(gate: Gate) -> None:
    gate.open("a")

    patient = LongCallOptions(soft_limit_seconds=700)

    assert said("slow__gated", {"args": ["a"]}, gate.manager, patient) == "begun\nended"
    assert not jobs_folder().exists()


def test_without_a_soft_limit_no_call_is_left_and_no_tools_are_for_it(gate: Gate) -> None:
    off = LongCallOptions(soft_limit_seconds=0, keep_questions=False, list_tools=True)
    gate.open("a")

    assert said("slow__gated", {"args": ["a"]}, gate.manager, off) == "begun\nended"
    assert names(gate.manager, off) == ["slow__gated"]
    assert said("job_wait", {"id": "j1"}, gate.manager, off).startswith("Error: no tool named")
    assert not jobs_folder().exists()


def test_a_call_that_nobody_is_there_to_approve_waits_for_an_answer(
    gate: Gate, soon: LongCallOptions
) -> None:
    manager = asking(gate)
    gate.open("a")

    text = said("slow__gated", {"args": ["a"]}, manager, LongCallOptions(owner=soon.owner))
    (question,) = manager.approvals()
    listed = names(manager, soon)
    before = gate.ran
    manager.answer(question.id, True)
    result = said("job_wait", {"id": id_in(text)}, manager, LongCallOptions(owner=soon.owner))

    assert f"skillpouch approve {question.id}" in text
    assert (before, listed[1:]) == ([], JOB_TOOLS)
    assert (result, gate.ran) == ("begun\nended", ["a"])


def test_without_kept_questions_such_a_call_is_denied(gate: Gate, soon: LongCallOptions) -> None:
    options = LongCallOptions(soft_limit_seconds=0, keep_questions=False, owner=soon.owner)
    manager = asking(gate)

    text = said("slow__gated", {"args": ["a"]}, manager, options)

    assert text.startswith("Error: slow.gated may not run")
    assert (manager.jobs(), names(manager, options)) == ([], ["slow__gated"])


@pytest.mark.parametrize("is_allowed", [True, False])
def test_an_approver_is_asked_about_a_job_as_about_any_call(
    gate: Gate, soon: LongCallOptions, is_allowed: bool
) -> None:
    asked: list[str] = []

    def approver(question: Question) -> bool:
        asked.append(question.tool)
        return is_allowed

    manager = asking(gate, approver)
    patient = LongCallOptions(soft_limit_seconds=100, owner=soon.owner)
    gate.open("a")

    text = said("slow__gated", {"args": ["a"]}, manager, patient)

    assert asked == ["slow.gated"]
    assert (text == "begun\nended", gate.ran) == (is_allowed, ["a"] if is_allowed else [])
    assert [job.owner for job in manager.jobs()] == [soon.owner]


def test_a_function_that_belongs_to_no_manager_is_left_and_waited_for(
    soon: LongCallOptions,
) -> None:
    ends = threading.Event()

    @tool
    def wait_here() -> str:
        """Wait."""
        ends.wait(60)
        return "done here"

    left = said("wait_here", {}, [wait_here], soon)
    listed = names([wait_here], soon)
    ends.set()
    until(lambda: user_jobs().job(id_in(left)).is_final)

    assert listed == ["wait_here", *JOB_TOOLS]
    assert said("job_wait", {"id": id_in(left)}, [wait_here], soon) == "done here"


def test_a_tool_of_the_same_name_keeps_it(soon: LongCallOptions) -> None:
    @tool
    def job_wait(id: str) -> str:  # noqa: A002 - as ours has it
        """Wait for something else."""
        return f"mine: {id}"

    always = LongCallOptions(list_tools=True, owner=soon.owner)

    assert names([job_wait], always) == ["job_wait", "job_output", "job_cancel"]
    assert said("job_wait", {"id": "x"}, [job_wait], always) == "mine: x"


@pytest.mark.promise("leave-1")
async def test_tools_for_jobs_reach_those_of_their_own_session(
    gate: Gate, soon: LongCallOptions, tmp_path: Path
) -> None:
    sessions = SessionManager(gate.manager, workspaces=tmp_path / "sessions", writes="direct")
    one, two = [await sessions.create_session() for _ in range(2)]
    own, other = (list(sessions.session(each).source) for each in (one, two))

    async def ask(name: str, arguments: Any, tools: Any) -> str:
        (answer,) = await arun_openai_calls(message(name, arguments), tools, long_calls=soon)
        text: str = answer["content"]
        return text

    job_id = id_in(await ask("slow__gated", {"args": ["a"]}, own))
    refused = [await ask("job_output", {"id": job_id}, each) for each in (other, gate.manager)]
    cancelled = await ask("job_cancel", {"id": job_id}, own)

    assert (await sessions.job(one, job_id)).session == one
    assert [text.startswith(f"Error: no job '{job_id}'") for text in refused] == [True, True]
    assert (names(own, soon)[1:], names(other, soon)[1:]) == (JOB_TOOLS, [])
    assert cancelled == f"job {job_id} (slow.gated) is cancelled"
    await sessions.close()


@pytest.mark.promise("leave-1")
async def test_tools_of_several_sessions_find_the_session_of_a_job(
    gate: Gate, soon: LongCallOptions, tmp_path: Path
) -> None:
    @tool
    def hello() -> str:
        """Say hello."""
        return "hello"

    sessions = SessionManager(gate.manager, workspaces=tmp_path / "sessions", writes="direct")
    session = await sessions.create_session()
    own = list(sessions.session(session).source)
    tools = [*gate.manager.tools, *own, hello]
    job = await sessions.start(session, "slow.gated", {"args": ["a"]}, owner=soon.owner)

    found = await arun_openai_calls(message("job_cancel", {"id": job.id}), tools, long_calls=soon)

    assert found[0]["content"] == f"job {job.id} (slow.gated) is cancelled"
    await sessions.close()
