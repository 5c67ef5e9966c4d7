"""Calls of this process that become jobs while they run: once they take long, or ask somebody."""

import asyncio
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillpouch import Policy, SkillManager, ToolExecutor, ToolResult
from skillpouch.errors import CallDeniedError
from skillpouch.jobs import output_file
from skillpouch.jobs.job import Job, JobLostError
from skillpouch.jobs.job_runner import user_jobs
from skillpouch.jobs.output_file import HeldOutput, OutputWriter, read_output
from skillpouch.jobs.soft_limit import SoftLimit, Wanted, call_or_job, call_or_start
from skillpouch.journal.journal import Journal
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.policy.change_rules import ChangeConditions
from skillpouch.policy.rules import Rule
from skillpouch.results import Progress
from tests.jobs.hosts import host_pid, jobs_folder, until

pytestmark = pytest.mark.slow

SOON = SoftLimit(seconds=0.3, owner="ada")
PATIENT = SoftLimit(seconds=45, owner="ada")
KEPT = SoftLimit(seconds=45, owner="ada", keep_questions=True)
LIVE = Rule(verdict="ask", reason="it goes live", changes=ChangeConditions(paths=["*.live"]))
STEPS = """#!/bin/bash
# Report a step.
echo '{"done": 1, "total": 2, "message": "half"}' >> "$SKILLPOUCH_PROGRESS"
sleep 0.5
echo 1 > a.live
"""
GATED = 'echo "$0" >> ran; echo begun; until [ -e go ]; do sleep 0.01; done; echo ended'


@pytest.fixture
def builtins(work: Path) -> ToolExecutor:
    """An executor with `bash`, which writes as it runs: tests meet its files."""
    work.mkdir(exist_ok=True)
    return ToolExecutor(workspace=work, builtins=True, writes="direct")


def asking(work: Path, **options: object) -> ToolExecutor:
    """Return one whose policy asks about every command."""
    work.mkdir(exist_ok=True)
    policy = Policy(rules=[Rule(verdict="ask", tools=["bash"], reason="it runs commands")])
    return ToolExecutor(
        workspace=work,
        builtins=True,
        writes="direct",
        policy=policy,
        **options,  # type: ignore[arg-type]
    )


def changing(work: Path) -> ToolExecutor:
    """Return one whose policy asks about some changes."""
    work.mkdir(exist_ok=True)
    return ToolExecutor(
        workspace=work, builtins=True, writes="undoable", policy=Policy(rules=[LIVE])
    )


def bash(command: str = GATED) -> Wanted:
    return Wanted(tool="bash", arguments={"command": command})


def ran(work: Path) -> list[str]:
    path = work / "ran"
    return path.read_text().split() if path.exists() else []


async def test_a_command_that_ends_within_the_soft_limit_leaves_nothing_on_the_disk(
    builtins: ToolExecutor,
) -> None:
    result = await call_or_job(builtins, bash("echo hello"), PATIENT)

    assert (result.content, result.job_id) == ("hello", "")
    assert not jobs_folder().exists()


async def test_what_may_take_a_minute_because_nobody_says_otherwise_is_no_job_either(
    manager: SkillManager,
) -> None:
    limit = SoftLimit(seconds=20, keep_questions=True)  # less than a script may take

    result = await call_or_job(manager.executor, Wanted(tool="demo.hello"), limit)

    assert (result.content, result.job_id) == ("hello", "")
    assert not jobs_folder().exists()


async def test_a_script_that_says_that_it_takes_long_runs_in_the_job_host(
    tmp_path: Path, manager: SkillManager, work: Path
) -> None:
    text = "---\nname: demo\ndescription: Demo.\n{}---\nDo it.\n"
    times = "metadata: {skillpouch: {timeout_seconds: 600}}\n"
    (tmp_path / "skills/demo/SKILL.md").write_text(text.format(times))
    manager.discover()
    (work / "go-a").touch()

    found = await call_or_start(
        manager.executor, Wanted(tool="demo.gated", arguments={"args": ["a"]}), PATIENT
    )

    assert isinstance(found, Job)
    assert not found.runs_here
    assert (await found.aresult(60)).content == "begun"


async def test_a_command_that_takes_longer_becomes_a_job_with_its_start_and_its_output(
    builtins: ToolExecutor, work: Path
) -> None:
    before = datetime.now(UTC)
    left = await call_or_job(builtins, bash(), SOON)
    after = datetime.now(UTC)
    job = builtins.job(left.job_id)
    until(lambda: job.output().data)

    assert (left.code, job.state, job.runs_here) == ("still_running", "running", True)
    assert (job.tool, job.owner) == ("bash", "ada")
    assert job.started_at is not None
    assert before <= job.started_at <= after - timedelta(seconds=SOON.seconds)

    (work / "go").touch()
    result = await job.aresult(60)

    assert (result.content, job.state) == ("begun\nended", "done")
    assert job.output().data == b"begun\nended\n"
    assert ran(work) == ["bash"]
    assert host_pid() is None


async def test_its_record_and_its_changes_are_those_of_the_one_call(tmp_path: Path) -> None:
    folder = tmp_path / "space"
    folder.mkdir()
    journal = Journal(tmp_path / "journal")
    executor = ToolExecutor(workspace=folder, builtins=True, journal=journal, writes="undoable")

    left = await call_or_job(executor, bash("echo made > made; sleep 1"), SOON)
    result = await executor.job(left.job_id).aresult(60)

    assert [change.path for change in result.changes] == ["made"]
    assert (folder / "made").read_text() == "made\n"
    with JournalReader(tmp_path / "journal") as reader:
        (entry,) = reader.newest(Query(), 10)
    assert (entry.tool, entry.outcome, str(entry.id)) == ("bash", "ok", result.call_id)
    executor.undo(result.call_id)
    assert not (folder / "made").exists()


@pytest.mark.parametrize("seconds", [0.3, 20])
async def test_its_progress_is_in_the_row(
    manager: SkillManager, tmp_path: Path, work: Path, seconds: float
) -> None:
    (tmp_path / "skills/demo/scripts/steps.sh").write_text(STEPS)
    live = SkillManager(tmp_path / "skills", workspace=work, policy=Policy(rules=[LIVE]))
    wanted = Wanted(tool="demo.steps")
    limit = SoftLimit(seconds=seconds, owner="ada", keep_questions=True)

    left = await call_or_job(live.executor, wanted, limit)
    job = manager.job(left.job_id)
    until(lambda: job.question)

    assert job.runs_here
    assert job.progress == Progress(1.0, 2.0, "half")
    await live.aanswer(live.approvals()[0].id, True)
    assert (await job.aresult(60)).outcome == "ok"


def test_it_goes_on_when_the_loop_of_its_caller_has_ended(
    builtins: ToolExecutor, work: Path
) -> None:
    left = asyncio.run(call_or_job(builtins, bash(), SOON))

    (work / "go").touch()

    assert builtins.job(left.job_id).result(60).content == "begun\nended"
    assert ran(work) == ["bash"]


def test_it_is_cancelled_from_another_process_with_all_that_it_started(
    builtins: ToolExecutor, work: Path
) -> None:
    left = asyncio.run(call_or_job(builtins, bash(), SOON))
    words = [sys.executable, "-m", "skillpouch", "jobs", "cancel", left.job_id]

    subprocess.run(words, check=True, capture_output=True)

    assert builtins.job(left.job_id).state == "cancelled"
    (work / "go").touch()
    with pytest.raises(Exception, match="cancelled"):
        builtins.job(left.job_id).result(60)


async def test_a_caller_that_leaves_before_ends_the_call_and_there_is_no_job(
    builtins: ToolExecutor, work: Path
) -> None:
    calling = asyncio.create_task(call_or_job(builtins, bash("echo $$ > ran; sleep 600"), PATIENT))
    while not ran(work):
        await asyncio.sleep(0.01)

    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling

    assert builtins.jobs() == []
    again = await call_or_job(builtins, bash("echo here"), PATIENT)
    assert again.content == "here"


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.003, 0.01, 0.03])
async def test_a_caller_that_leaves_while_it_becomes_a_job_leaves_nothing_running(
    builtins: ToolExecutor, delay: float
) -> None:
    calling = asyncio.create_task(call_or_job(builtins, bash(), SOON))
    while not user_jobs().exists:
        await asyncio.sleep(0)
    await asyncio.sleep(delay)

    calling.cancel()
    found = (await asyncio.gather(calling, return_exceptions=True))[0]

    jobs = builtins.jobs()
    if isinstance(found, ToolResult):  # it was told the id before
        assert [job.id for job in jobs] == [found.job_id]
        jobs[0].cancel()
    assert [job.state for job in builtins.jobs()] in (["cancelled"], [])


LEFT = """
import asyncio, sys
from skillpouch import ToolExecutor
from skillpouch.jobs.soft_limit import SoftLimit, Wanted, call_or_job
executor = ToolExecutor(workspace=sys.argv[1], builtins=True, writes="direct")
wanted = Wanted(tool="bash", arguments={{"command": "echo x >> ran; echo begun; sleep 600"}})
async def main():
    left = await call_or_job(executor, wanted, SoftLimit(seconds={seconds}))
    print(left.job_id, flush=True)
    await asyncio.sleep(600)
asyncio.run(main())
"""


@pytest.mark.promise("job-1")
def test_a_process_that_is_killed_leaves_it_lost_with_the_output_so_far(work: Path) -> None:
    work.mkdir(exist_ok=True)
    words = [sys.executable, "-c", LEFT.format(seconds=0.3), str(work)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        job = user_jobs().job(process.stdout.readline().strip())
        until(lambda: job.output().data)
        states = [job.state]
        process.send_signal(signal.SIGKILL)

    assert [*states, job.state] == ["running", "lost"]
    assert job.output().data == b"begun\n"
    assert ran(work) == ["x"]
    with pytest.raises(JobLostError):
        job.result(60)


def test_a_process_that_is_killed_before_the_soft_limit_has_promised_nothing(work: Path) -> None:
    work.mkdir(exist_ok=True)
    words = [sys.executable, "-c", LEFT.format(seconds=600), str(work)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        until(lambda: ran(work))
        process.send_signal(signal.SIGKILL)

    assert user_jobs().jobs() == []


LEAVES = """
import sys
from skillpouch import ToolExecutor
from skillpouch.integrations.long_calls import LongCallOptions, call_tool_sync
executor = ToolExecutor(workspace=sys.argv[1], builtins=True, writes="undoable")
command = {"command": "echo 1 > made; echo begun; sleep 600"}
left = call_tool_sync(executor, "bash", command, LongCallOptions(soft_limit_seconds=2))
print(left.job_id, flush=True)
"""


def test_a_process_that_exits_ends_it_and_says_nothing_of_it(work: Path) -> None:
    work.mkdir(exist_ok=True)

    told = subprocess.run(
        [sys.executable, "-c", LEAVES, str(work)], capture_output=True, check=True, text=True
    )

    assert told.stderr == ""
    assert user_jobs().job(told.stdout.strip()).state == "cancelled"


# Kills the process before or after one of its commits to the file of jobs.
KILLED = """
import os, signal, sqlite3
connect, seen = sqlite3.connect, [0]
class Connection(sqlite3.Connection):
    def execute(self, query, *values):
        if query != "COMMIT":
            return super().execute(query, *values)
        seen[0] += 1
        if (seen[0], {before}) == ({number}, True):
            os.kill(os.getpid(), signal.SIGKILL)
        done = super().execute(query, *values)
        if seen[0] == {number}:
            os.kill(os.getpid(), signal.SIGKILL)
        return done
def connected(path, *words, **named):
    if str(path).endswith("jobs.sqlite3"):
        named["factory"] = Connection
    return connect(path, *words, **named)
sqlite3.connect = connected
"""


# Wait for the end of the job.
TOLD = """async def told(left):
    await executor.job(left.job_id).aresult(60)
"""


@pytest.mark.promise("job-1")
@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("number", range(1, 5))
def test_a_process_killed_at_any_commit_gives_no_id_away_that_is_not_on_the_disk(
    work: Path, number: int, before: bool
) -> None:
    work.mkdir(exist_ok=True)
    program = KILLED.format(number=number, before=before) + LEFT.format(seconds=0.3)
    program = program.replace("sleep 600", "sleep 0.6").replace("asyncio.sleep(600)", "told(left)")
    program = program.replace("async def main", TOLD + "async def main")

    words = [sys.executable, "-c", program, str(work)]
    told = subprocess.run(words, capture_output=True, check=False)

    given = told.stdout.decode().split()
    rows = {job.id: job.state for job in user_jobs().jobs()}
    assert set(given) <= rows.keys()
    assert set(rows.values()) <= {"lost", "done"}
    assert ran(work) in ([], ["x"])
    for job_id, state in rows.items():
        if state == "done":
            assert ran(work) == ["x"]
            assert user_jobs().result(job_id).content == "begun"


async def test_if_no_row_can_be_written_the_caller_waits_for_the_end(
    builtins: ToolExecutor, work: Path, caplog: pytest.LogCaptureFixture
) -> None:
    jobs_folder().mkdir(parents=True, mode=0o700)
    (jobs_folder() / "jobs.sqlite3").write_bytes(b"no database" * 1000)

    heard = asyncio.create_task(call_or_job(builtins, bash(), SOON))
    while "cannot go on as a job" not in caplog.text:
        await asyncio.sleep(0.01)
    (work / "go").touch()

    assert (await heard).content == "begun\nended"
    assert ran(work) == ["bash"]


async def test_a_question_makes_it_a_job_and_an_approval_runs_it_once(work: Path) -> None:
    executor = asking(work)
    (work / "go").touch()

    left = await call_or_job(executor, bash(), KEPT)
    job = executor.job(left.job_id)
    question = job.question

    assert question is not None
    assert (left.code, job.state, ran(work)) == ("waiting_for_approval", job.state, [])
    assert (job.runs_here, question.after_run) == (True, False)
    await executor.aanswer(question.id, True)
    assert (await job.aresult(60)).content == "begun\nended"
    assert ran(work) == ["bash"]


async def test_a_denial_ends_it_and_nothing_ran(work: Path) -> None:
    executor = asking(work)
    left = await call_or_job(executor, bash(), KEPT)
    (question,) = executor.approvals()

    await executor.aanswer(question.id, False)

    with pytest.raises(CallDeniedError):
        await executor.job(left.job_id).aresult(60)
    assert ran(work) == []


async def test_the_approver_of_the_executor_answers_its_question(work: Path) -> None:
    asked: list[str] = []

    def approver(question: object) -> bool:
        asked.append(getattr(question, "tool", ""))
        return True

    executor = asking(work, approver=approver)
    (work / "go").touch()

    result = await call_or_job(executor, bash(), KEPT)

    assert (result.content, asked, ran(work)) == ("begun\nended", ["bash"], ["bash"])
    assert [job.state for job in executor.jobs()] == ["done"]


async def test_what_it_changed_is_asked_about_when_it_has_run(work: Path) -> None:
    executor = changing(work)
    heard: list[tuple[bytes, int]] = []

    def hear(_: object, data: bytes) -> None:
        heard.append((data, threading.get_ident()))

    wanted = replace(bash("echo 1 > a.live; echo printed"), on_output=hear)
    left = await call_or_job(executor, wanted, KEPT)
    job = executor.job(left.job_id)
    question = job.question

    assert question is not None
    assert (question.after_run, job.output().data) == (True, b"printed\n")
    assert heard == [(b"printed\n", threading.get_ident())]  # once, and on the caller's loop
    await executor.aanswer(question.id, True)
    assert (await job.aresult(60)).content.startswith("printed")
    assert (work / "a.live").read_text() == "1\n"


WAYS = ("stays", "travels", "travels long")


def asks(
    way: str, tmp_path: Path, work: Path, folder: Path | None = None
) -> tuple[ToolExecutor, Wanted]:
    """Return an executor whose policy asks, and a call of a tool: built-in, script, long script."""
    if way == "stays":
        return asking(folder or work), bash()
    times = "metadata: {skillpouch: {timeout_seconds: 600}}\n" if way == "travels long" else ""
    text = f"---\nname: demo\ndescription: Demo.\n{times}---\nDo it.\n"
    (tmp_path / "skills/demo/SKILL.md").write_text(text)
    strict = SkillManager(
        tmp_path / "skills", workspace=folder or work, writes="direct", policy=Policy.strict()
    )
    return strict.executor, Wanted(tool="demo.mark", arguments={"args": ["once"]})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.usefixtures("manager")
async def test_where_no_question_is_kept_a_call_is_denied_at_once(
    way: str, at_once: bool, tmp_path: Path, work: Path
) -> None:
    executor, wanted = asks(way, tmp_path, work)

    with pytest.raises(CallDeniedError, match="there is nobody to ask"):
        await call_or_job(executor, wanted, replace(PATIENT, at_once=at_once))

    assert (executor.jobs(), ran(work)) == ([], [])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("manager")
async def test_the_same_call_made_again_while_its_question_is_open_is_the_same_job(
    way: str, tmp_path: Path, work: Path
) -> None:
    executor, wanted = asks(way, tmp_path, work)
    (work / "go").touch()

    left = [await call_or_job(executor, wanted, KEPT) for _ in range(3)]
    (question,) = executor.approvals()

    assert {(each.job_id, each.code) for each in left} == {(question.job, "waiting_for_approval")}
    assert all(question.id in each.content for each in left)
    await executor.aanswer(question.id, True)
    await executor.job(question.job).aresult(60)
    assert len(ran(work)) == 1
    again = await call_or_job(executor, wanted, KEPT)
    assert again.job_id not in ("", question.job)  # the answer was for one call
    executor.job(again.job_id).cancel()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("manager")
async def test_another_call_asks_a_question_of_its_own(
    way: str, tmp_path: Path, work: Path
) -> None:
    executor, wanted = asks(way, tmp_path, work)
    (tmp_path / "other").mkdir()
    elsewhere, _ = asks(way, tmp_path, work, tmp_path / "other")
    key = next(iter(wanted.arguments))
    others = [
        (executor, replace(wanted, arguments={key: wanted.arguments[key] * 2}), KEPT),
        (executor, replace(wanted, timeout=5), KEPT),
        (executor, replace(wanted, key="step"), KEPT),
        (executor, wanted, replace(KEPT, owner="bob")),
        (elsewhere, wanted, KEPT),
    ]

    left = [await call_or_job(*each) for each in [(executor, wanted, KEPT), *others]]
    jobs = {each.job_id for each in left}
    questions = executor.approvals()
    for each in jobs:
        executor.job(each).cancel()

    assert len(jobs) == len(questions) == len(others) + 1


@pytest.mark.usefixtures("manager")
async def test_a_caller_that_leaves_does_not_end_the_job_of_the_one_before(
    tmp_path: Path, work: Path
) -> None:
    executor, wanted = asks("stays", tmp_path, work)
    left = await call_or_job(executor, wanted, KEPT)

    for _ in range(3):
        calling = asyncio.create_task(call_or_job(executor, wanted, KEPT))
        await asyncio.sleep(0)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)

    assert [job.id for job in executor.jobs(state="waiting_for_approval")] == [left.job_id]
    executor.job(left.job_id).cancel()


async def test_what_has_run_already_and_is_asked_about_is_no_same_call(work: Path) -> None:
    executor = changing(work)

    left = [await call_or_job(executor, bash("echo 1 > a.live"), KEPT) for _ in range(2)]
    jobs = {each.job_id for each in left}
    for each in jobs:
        executor.job(each).cancel()

    assert len(jobs) == 2


async def test_a_call_that_may_be_made_again_with_its_key_is_a_job_from_its_beginning(
    builtins: ToolExecutor, work: Path
) -> None:
    (work / "go").touch()
    wanted = Wanted(tool="bash", arguments={"command": GATED}, key="step 1")

    results = [await call_or_job(builtins, wanted, PATIENT) for _ in range(2)]

    assert {result.content for result in results} == {"begun\nended"}
    assert results[0].job_id == results[1].job_id != ""
    assert ran(work) == ["bash"]


async def test_whoever_asks_for_a_job_has_its_row_at_once(
    builtins: ToolExecutor, work: Path
) -> None:
    limit = SoftLimit(seconds=45, owner="ada", at_once=True)

    found = await call_or_start(builtins, bash(), limit)
    (work / "go").touch()

    assert isinstance(found, Job)
    assert (await found.aresult(60)).content == "begun\nended"


@given(
    before=st.lists(st.binary(max_size=40), max_size=8),
    after=st.lists(st.binary(max_size=40), max_size=4),
)
def test_output_that_was_held_is_read_as_if_it_had_been_written_at_once(
    tmp_path_factory: pytest.TempPathFactory, before: list[bytes], after: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("held")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("HEAD_BYTES", "TAIL_BYTES"):
            patch.setattr(output_file, name, 32)
        held, plain = HeldOutput(), OutputWriter(folder / "plain")
        for data in before:
            held.write(data)
            plain.write(data)
        held.keep_in(folder / "held")
        for data in after:
            held.write(data)
            plain.write(data)
        held.close()
        plain.close()

        for offset in range(0, sum(map(len, [*before, *after])) + 2, 7):
            assert read_output(folder / "held", offset) == read_output(folder / "plain", offset)
