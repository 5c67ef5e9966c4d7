"""Calls that are left running after a while, and the tools with which a model goes on."""

import asyncio
from pathlib import Path

import pytest

from skillpouch import Policy, SkillManager, ToolExecutor, ToolResult, tool
from skillpouch.errors import CallDeniedError, InvalidArgumentsError, UnknownToolError
from skillpouch.jobs.job import Job, NoSuchJobError
from skillpouch.jobs.job_tools import job_tools
from skillpouch.jobs.soft_limit import SoftLimit, Wanted, call_or_job, call_or_start
from skillpouch.journal.journal import Journal
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.needs import Need
from skillpouch.policy.rules import Rule
from skillpouch.trust.grants import Grants
from tests.jobs.hosts import jobs_folder

pytestmark = pytest.mark.slow

SOON = SoftLimit(seconds=0.3, owner="ada")
PATIENT = SoftLimit(seconds=20, owner="ada")


def ran(work: Path) -> list[str]:
    path = work / "ran"
    return path.read_text().split() if path.exists() else []


def gated(word: str) -> Wanted:
    return Wanted(tool="demo.gated", arguments={"args": [word]})


def grant_time(manager: SkillManager) -> None:
    """Say that the skill takes long: its calls are jobs from their beginning."""
    Grants().grant(manager.get_skill("demo"), [Need(kind="time", value="2h")], by="user")


async def go_on(
    executor: ToolExecutor, name: str, owner: str = "ada", **arguments: object
) -> ToolResult:
    beside = executor.beside(job_tools(executor, owner))
    return await beside.execute(name, arguments)


async def test_a_call_whose_time_limit_is_within_the_soft_limit_is_made_directly(
    manager: SkillManager,
) -> None:
    limit = SoftLimit(seconds=45)

    result = await call_or_job(manager.executor, Wanted(tool="demo.hello"), limit)

    assert (result.content, result.job_id) == ("hello", "")
    assert not jobs_folder().exists()


async def test_a_call_that_was_granted_more_time_than_the_soft_limit_may_be_left(
    manager: SkillManager, work: Path
) -> None:
    limit = SoftLimit(seconds=45, owner="ada")
    grant_time(manager)
    (work / "go-a").touch()

    found = await call_or_start(manager.executor, gated("a"), limit)

    assert isinstance(found, Job)
    assert (await found.aresult(60)).content == "begun"


async def test_a_call_that_ends_before_the_soft_limit_gives_its_result(
    manager: SkillManager,
) -> None:
    result = await call_or_job(manager.executor, Wanted(tool="demo.hello"), PATIENT)

    assert (result.content, result.outcome, result.code) == ("hello", "ok", None)
    assert manager.jobs() == []


async def test_a_call_that_takes_longer_goes_on_and_runs_once(
    manager: SkillManager, work: Path
) -> None:
    left = await call_or_job(manager.executor, gated("a"), SOON)

    assert (left.outcome, left.code, left.tool) == ("ok", "still_running", "demo.gated")
    assert all(name in left.content for name in (left.job_id, "job_wait", "job_cancel"))

    (work / "go-a").touch()
    result = await go_on(manager.executor, "job_wait", id=left.job_id, seconds=40)

    assert (result.outcome, result.content, result.job_id) == ("ok", "begun", left.job_id)
    assert ran(work) == ["a"]


async def test_without_a_soft_limit_a_call_is_never_left(manager: SkillManager) -> None:
    found = await call_or_start(manager.executor, Wanted(tool="demo.hello"), SoftLimit(seconds=0))

    assert isinstance(found, ToolResult)
    assert manager.jobs() == []


async def test_a_function_goes_on_in_this_process(tmp_path: Path) -> None:
    ends = asyncio.Event()
    loop = asyncio.get_running_loop()

    @tool
    async def wait_here() -> str:
        """Wait."""
        await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(ends.wait(), loop))
        return "done here"

    executor = ToolExecutor([wait_here], workspace=tmp_path)
    left = await call_or_job(executor, Wanted(tool="wait_here"), SOON)
    ends.set()
    result = await go_on(executor, "job_wait", id=left.job_id, seconds=40)

    assert (left.code, result.content) == ("still_running", "done here")


async def test_a_caller_that_leaves_before_it_knows_the_id_ends_the_job(
    manager: SkillManager, work: Path
) -> None:
    grant_time(manager)
    calling = asyncio.create_task(call_or_job(manager.executor, gated("a"), PATIENT))
    while not ran(work):
        await asyncio.sleep(0.01)

    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    assert [job.state for job in manager.jobs()] == ["cancelled"]


async def test_a_wrong_caller_is_told_as_by_a_direct_call(manager: SkillManager) -> None:
    with pytest.raises(UnknownToolError):
        await call_or_job(manager.executor, Wanted(tool="demo.nothing"), SOON)
    with pytest.raises(InvalidArgumentsError):
        await call_or_job(manager.executor, Wanted(tool="demo.gated", arguments={"args": 3}), SOON)

    assert manager.jobs() == []


@pytest.fixture
def strict(manager: SkillManager) -> SkillManager:
    """The same manager, whose policy asks about every skill that is new."""
    workspace = manager.executor.workspace
    return SkillManager(
        *manager.roots, workspace=workspace, writes="direct", policy=Policy.strict()
    )


KEPT = SoftLimit(seconds=45, keep_questions=True, owner="ada")


@pytest.mark.parametrize("limit", [KEPT, SoftLimit(seconds=25, keep_questions=True, owner="ada")])
async def test_a_call_that_the_policy_asks_about_waits_for_the_answer(
    strict: SkillManager, work: Path, limit: SoftLimit
) -> None:
    wanted = Wanted(tool="demo.mark", arguments={"args": ["once"]})
    left = await call_or_job(strict.executor, wanted, limit)
    question = strict.job(left.job_id).question

    assert question is not None
    assert (left.code, ran(work)) == ("waiting_for_approval", [])
    assert f"skillpouch approve {question.id}" in left.content

    await strict.aanswer(question.id, True)
    result = await go_on(strict.executor, "job_wait", id=left.job_id, seconds=40)

    assert (result.outcome, ran(work)) == ("ok", ["once"])


async def test_who_keeps_no_questions_is_denied_as_before(strict: SkillManager) -> None:
    with pytest.raises(CallDeniedError, match="there is nobody to ask"):
        await call_or_job(strict.executor, Wanted(tool="demo.mark"), SoftLimit())

    assert strict.jobs() == []


async def test_what_a_rule_denies_is_no_question(manager: SkillManager) -> None:
    policy = Policy(rules=[Rule(verdict="deny", tools=["demo.*"], reason="not today")])
    workspace = manager.executor.workspace
    denying = SkillManager(*manager.roots, workspace=workspace, policy=policy)

    with pytest.raises(CallDeniedError, match="not today"):
        await call_or_job(denying.executor, Wanted(tool="demo.mark"), KEPT)

    assert denying.jobs() == []


async def test_an_approver_that_there_is_is_asked_and_nothing_is_kept(
    manager: SkillManager, work: Path
) -> None:
    workspace = manager.executor.workspace
    asked = []

    def approver(question: object) -> bool:
        asked.append(question)
        return True

    asking = SkillManager(
        *manager.roots, workspace=workspace, policy=Policy.strict(), approver=approver
    )
    wanted = Wanted(tool="demo.mark", arguments={"args": ["x"]})
    result = await call_or_job(asking.executor, wanted, KEPT)

    assert (result.outcome, len(asked), ran(work)) == ("ok", 1, ["x"])
    assert asking.jobs() == []


@pytest.mark.promise("leave-1")
@pytest.mark.parametrize("name", ["job_wait", "job_output", "job_cancel"])
async def test_the_tools_reach_no_job_of_another_owner_or_session(
    manager: SkillManager, work: Path, name: str
) -> None:
    left = await call_or_job(manager.executor, gated("a"), SOON)
    executor = manager.executor
    others = executor.beside(job_tools(executor, "bob"))
    elsewhere = executor.beside(job_tools(executor, "ada", session="another"))

    for beside in (others, elsewhere):
        with pytest.raises(NoSuchJobError) as raised:
            await beside.execute(name, {"id": left.job_id})
        assert str(raised.value) == f"no job '{left.job_id}'"

    assert manager.job(left.job_id).state == "running"
    (work / "go-a").touch()


async def test_output_is_read_from_where_it_was_left(manager: SkillManager, work: Path) -> None:
    left = await call_or_job(manager.executor, gated("a"), SOON)
    job = manager.job(left.job_id)
    while not job.output().data:
        await asyncio.sleep(0.01)

    first = await go_on(manager.executor, "job_output", id=job.id)
    then = await go_on(manager.executor, "job_output", id=job.id, offset=6)
    (work / "go-a").touch()
    await job.aresult(60)
    last = await go_on(manager.executor, "job_output", id=job.id, offset=6)

    assert first.structured == {"output": "begun\n", "next_offset": 6, "state": "running"}
    assert then.structured == {"output": "", "next_offset": 6, "state": "running"}
    assert last.content.endswith(f"[job {job.id} is done; that is all]")


async def test_a_cancelled_job_has_ended_when_the_tool_answers(manager: SkillManager) -> None:
    left = await call_or_job(manager.executor, gated("a"), SOON)

    result = await go_on(manager.executor, "job_cancel", id=left.job_id)

    assert result.structured == {"id": left.job_id, "state": "cancelled"}
    assert manager.job(left.job_id).state == "cancelled"


async def test_the_tools_are_calls_like_others_recorded_and_judged(
    manager: SkillManager, tmp_path: Path, work: Path
) -> None:
    journal = Journal(tmp_path / "journal")
    policy = Policy(rules=[Rule(verdict="deny", tools=["skillpouch.job_cancel"], reason="never")])
    workspace = manager.executor.workspace
    executor = SkillManager(
        *manager.roots, workspace=workspace, policy=policy, journal=journal
    ).executor
    left = await call_or_job(executor, gated("a"), SOON)

    await go_on(executor, "job_output", id=left.job_id)
    with pytest.raises(CallDeniedError, match="never"):
        await go_on(executor, "job_cancel", id=left.job_id)
    (work / "go-a").touch()

    with JournalReader(tmp_path / "journal") as reader:
        recorded = {entry.tool: entry.outcome for entry in reader.newest(Query(), 10)}
    assert recorded["skillpouch.job_output"] == "ok"
    assert recorded["skillpouch.job_cancel"] == "denied"


async def test_the_tools_never_become_jobs_themselves(manager: SkillManager, work: Path) -> None:
    left = await call_or_job(manager.executor, gated("a"), SOON)
    beside = manager.executor.beside(job_tools(manager.executor, "ada"))

    wanted = Wanted(tool="job_wait", arguments={"id": left.job_id, "seconds": 0})
    found = await call_or_start(beside, wanted, SOON)

    assert isinstance(found, ToolResult)
    assert (found.code, found.job_id) == ("still_running", left.job_id)
    assert len(manager.jobs()) == 1
    (work / "go-a").touch()


async def test_who_waits_hears_what_the_job_prints(manager: SkillManager, work: Path) -> None:
    heard: list[bytes] = []

    def hear(_: object, data: bytes) -> None:
        heard.append(data)
        (work / "go-a").touch()

    wanted = Wanted(tool="demo.gated", arguments={"args": ["a"]}, on_output=hear)
    result = await call_or_job(manager.executor, wanted, PATIENT)

    assert (result.outcome, heard[0]) == ("ok", b"begun\n")


async def test_a_job_left_by_one_process_is_waited_for_by_another(
    manager: SkillManager, work: Path
) -> None:
    left = await call_or_job(manager.executor, gated("a"), SOON)
    other = SkillManager(*manager.roots, workspace=work)
    (work / "go-a").touch()

    result = await go_on(other.executor, "job_wait", id=left.job_id, seconds=40)

    assert isinstance(other.job(left.job_id), Job)
    assert result.content == "begun"
