import asyncio
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from skillpouch import Controls, SessionManager, SkillManager, ToolExecutor, tool
from skillpouch.errors import CallDeniedError, InvalidArgumentsError, UnknownToolError
from skillpouch.jobs.job import (
    Job,
    JobCancelledError,
    JobLostError,
    JobTimeoutError,
    NoSuchJobError,
    NotIdempotentError,
)
from skillpouch.jobs.job_runner import user_jobs
from skillpouch.policy.policy import Policy
from skillpouch.policy.rules import Rule
from skillpouch.results import Progress
from tests.jobs.hosts import host_pid, jobs_folder, kill_host, until

pytestmark = pytest.mark.slow


def ran(work: Path) -> list[str]:
    try:
        return (work / "ran").read_text().split()
    except FileNotFoundError:
        return []


def test_a_job_gives_what_a_direct_call_gives(manager: SkillManager) -> None:
    direct = manager.call("demo.hello")

    job = manager.start("demo.hello")
    result = job.result(60)

    assert (result.content, result.structured, result.outcome) == ("hello", "hello", "ok")
    assert result.protections == direct.protections
    assert job.state == "done"
    assert job.started_at is not None
    assert [each.id for each in manager.jobs()] == [job.id]


def test_a_tool_that_fails_is_a_failed_job_with_its_result(manager: SkillManager) -> None:
    job = manager.start("demo.fail")

    result = job.result(60)

    assert (job.state, result.outcome, result.exit_code) == ("failed", "failed", 3)
    assert result.stderr == "oh\n"
    assert job.output().data == b"oh\n"


def test_a_job_shows_the_progress_that_its_script_reports(
    manager: SkillManager, tmp_path: Path
) -> None:
    line = '{"done": 1, "total": 4, "message": "one"}'
    script = next(tmp_path.rglob("SKILL.md")).parent / "scripts" / "reports.sh"
    script.write_text(f"echo '{line}' >> $SKILLPOUCH_PROGRESS\n")
    manager.discover()

    job = manager.start("demo.reports")

    assert job.result(60).outcome == "ok"
    assert job.progress == Progress(1, 4, "one")


def test_a_wrong_caller_is_told_at_once(manager: SkillManager) -> None:
    with pytest.raises(UnknownToolError):
        manager.start("demo.nothing")
    with pytest.raises(InvalidArgumentsError):
        manager.start("demo.gated", {"args": 3})
    with pytest.raises(NoSuchJobError):
        manager.job("j0")
    with pytest.raises(NotIdempotentError):
        manager.start("demo.hello", retries=1)

    assert manager.jobs() == []


def test_a_denied_job_raises_what_a_direct_call_raises(manager: SkillManager) -> None:
    policy = Policy(rules=[Rule(verdict="deny", tools=["demo.*"], reason="not today")])
    strict = SkillManager(*manager.roots, workspace=manager.executor.workspace, policy=policy)
    with pytest.raises(CallDeniedError) as direct:
        strict.call("demo.hello")

    job = strict.start("demo.hello")
    with pytest.raises(CallDeniedError) as raised:
        job.result(60)

    assert job.state == "failed"
    assert type(raised.value) is type(direct.value)
    assert (str(raised.value), vars(raised.value)) == (str(direct.value), vars(direct.value))


def test_output_comes_while_the_job_runs(manager: SkillManager, work: Path) -> None:
    job = manager.start("demo.gated", "a")
    until(lambda: job.output().data, "output")
    before = job.output()

    (work / "go-a").touch()
    result = job.result(60)

    assert (before.data, before.is_final) == (b"begun\n", False)
    assert job.output(before.next_offset).data == b""
    assert job.output(before.next_offset).is_final
    assert result.stdout == "begun\n"


async def test_following_a_job_ends_with_it(manager: SkillManager, work: Path) -> None:
    job = await manager.astart("demo.gated", "a")
    updates = []

    async for update in job.follow():
        updates.append(update)
        if update.output:
            (work / "go-a").touch()

    assert b"".join(update.output for update in updates) == b"begun\n"
    assert updates[-1].state == "done"


def test_waiting_for_a_while_leaves_the_job_alone(manager: SkillManager, work: Path) -> None:
    job = manager.start("demo.gated", "a")

    with pytest.raises(JobTimeoutError) as raised:
        job.result(0.01)

    assert isinstance(raised.value, TimeoutError)
    (work / "go-a").touch()
    assert job.result(60).outcome == "ok"


def test_a_cancelled_job_ends_with_everything_it_started(manager: SkillManager, work: Path) -> None:
    job = manager.start("demo.gated", "a")
    until(lambda: ran(work), "the run")

    assert job.cancel() == "cancelled"

    assert job.state == "cancelled"
    with pytest.raises(JobCancelledError):
        job.result(60)
    assert job.output().data == b"begun\n"
    assert job.cancel() == "cancelled"


def test_a_caller_may_be_killed(manager: SkillManager, work: Path) -> None:
    program = (
        "import sys; from skillpouch import SkillManager\n"
        "m = SkillManager(sys.argv[1], workspace=sys.argv[2], writes='direct')\n"
        "print(m.start('demo.gated', 'a').id, flush=True); sys.stdin.read()"
    )
    words = [sys.executable, "-c", program, str(manager.roots[0]), str(work)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as caller:
        assert caller.stdout
        job_id = caller.stdout.readline().decode().strip()
        caller.send_signal(signal.SIGKILL)

    (work / "go-a").touch()

    assert manager.job(job_id).result(60).outcome == "ok"
    assert ran(work) == ["a"]


def test_what_a_killed_host_ran_is_lost_and_never_runs_again(
    manager: SkillManager, work: Path
) -> None:
    job = manager.start("demo.gated", "a")
    until(lambda: job.output().data, "the run")

    kill_host()
    with pytest.raises(JobLostError):
        job.result(60)
    (work / "go-a").touch()
    other = manager.start("demo.hello").result(60)

    assert other.content == "hello"
    assert job.state == "lost"
    assert job.output().data == b"begun\n"
    assert ran(work) == ["a"]


def test_whoever_waits_is_told_that_the_host_was_killed(manager: SkillManager, work: Path) -> None:
    job = manager.start("demo.gated", "a")
    until(lambda: ran(work), "the run")
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            job.result(60)
        except JobLostError as error:
            raised.append(error)

    waiter = threading.Thread(target=wait)
    waiter.start()
    kill_host()
    waiter.join(60)

    assert len(raised) == 1


def bounds(text: str) -> None:
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "skillpouch"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.toml").write_text(f"[jobs]\n{text}\n")


def test_what_was_queued_when_the_host_was_killed_runs_once(
    manager: SkillManager, work: Path
) -> None:
    bounds("running = 1")
    first = manager.start("demo.gated", "a")
    second = manager.start("demo.mark", "b")
    until(lambda: ran(work), "the run")
    assert second.state == "queued"

    kill_host()
    result = second.result(60)

    assert result.outcome == "ok"
    assert first.state == "lost"
    assert ran(work) == ["a", "b"]


def test_a_host_that_is_ended_says_so_and_leaves_the_queue(
    manager: SkillManager, work: Path
) -> None:
    bounds("running = 1")
    first = manager.start("demo.gated", "a")
    second = manager.start("demo.mark", "b")
    until(lambda: ran(work), "the run")
    pid = host_pid()
    assert pid is not None

    os.kill(pid, signal.SIGTERM)
    with pytest.raises(JobLostError, match="the job host was ended"):
        first.result(60)

    assert second.result(60).outcome == "ok"
    assert ran(work) == ["a", "b"]


def test_an_idle_host_goes_and_the_next_job_starts_another(manager: SkillManager) -> None:
    bounds("idle_seconds = 1")
    assert manager.start("demo.hello").result(60).content == "hello"
    first = host_pid()

    until(lambda: host_pid() is None, "the end of the idle host")

    assert manager.start("demo.hello").result(60).content == "hello"
    assert first is not None
    assert host_pid() not in (None, first)


def test_no_more_jobs_run_at_once_than_the_bound(manager: SkillManager, work: Path) -> None:
    bounds("running = 2")
    jobs = [manager.start("demo.gated", str(number)) for number in range(4)]
    until(lambda: len(ran(work)) == 2, "the first two")
    assert [job.state for job in jobs] == ["running", "running", "queued", "queued"]

    (work / "go-0").touch()
    until(lambda: len(ran(work)) == 3, "the third")
    states = [job.state for job in jobs]
    for number in range(4):
        (work / f"go-{number}").touch()

    assert states == ["done", "running", "running", "queued"]
    assert [job.result(60).outcome for job in jobs] == ["ok"] * 4
    assert ran(work)[2:] == ["2", "3"]


def test_a_session_or_tool_with_many_jobs_leaves_places_for_others(
    manager: SkillManager, work: Path
) -> None:
    bounds("running = 4\nper_session = 1\nper_tool = 2")
    controls = Controls(workspace=work, writes="direct", session="one")
    one = ToolExecutor(manager.source, controls=controls)

    of_one = [one.start("demo.gated", f"s{number}") for number in range(2)]
    of_tool = [manager.start("demo.gated", f"t{number}") for number in range(2)]
    other = manager.start("demo.mark", "x")

    assert other.result(60).outcome == "ok"
    assert [job.state for job in (*of_one, *of_tool)] == ["running", "queued", "running", "queued"]
    for name in ("s0", "s1", "t0", "t1"):
        (work / f"go-{name}").touch()
    assert [job.result(60).outcome for job in (*of_one, *of_tool)] == ["ok"] * 4


def test_a_function_runs_in_this_process_with_a_row_like_any_other() -> None:
    here: list[int] = []

    @tool
    def where(word: str) -> str:
        """Tell."""
        here.append(os.getpid())
        return word

    executor = ToolExecutor([where])

    job = executor.start("where", {"word": "x"})

    assert job.result(60).content == "x"
    assert here == [os.getpid()]
    assert executor.job(job.id).state == "done"
    assert host_pid() is None


def test_a_function_that_raises_is_a_failed_job() -> None:
    @tool
    def broken() -> str:
        """Fail."""
        raise RuntimeError("oh")

    job = ToolExecutor([broken]).start("broken")

    assert job.result(60).outcome == "failed"
    assert job.state == "failed"


def test_a_job_of_this_process_can_be_cancelled_from_another() -> None:
    waiting = threading.Event()

    @tool
    async def forever() -> str:
        """Wait."""
        waiting.set()
        await asyncio.sleep(3600)
        return ""

    job = ToolExecutor([forever]).start("forever")
    assert waiting.wait(60)
    program = (
        "import sys; from skillpouch.jobs.job_runner import user_jobs\n"
        "print(user_jobs().job(sys.argv[1]).cancel())"
    )

    told = subprocess.run([sys.executable, "-c", program, job.id], capture_output=True, check=True)

    assert told.stdout == b"cancelled\n"
    assert job.state == "cancelled"


def test_a_job_of_a_process_that_ended_is_lost() -> None:
    program = (
        "import time; from skillpouch import ToolExecutor, tool\n"
        "@tool\n"
        "def forever() -> str:\n"
        "    '''Wait.'''\n"
        "    time.sleep(3600)\n"
        "print(ToolExecutor([forever]).start('forever').id, flush=True)\n"
        "time.sleep(3600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout
        job = user_jobs().job(process.stdout.readline().decode().strip())
        states = [job.state]
        process.send_signal(signal.SIGKILL)

    assert [*states, job.state] == ["running", "lost"]


TEXT = """---
name: words
description: Counts words.
tools:
  - name: count
    description: Count.
    backend:
      type: script
      interpreter: bash
      script: |
        wc -w
    parameters: {}
---
Count.
"""


async def test_a_session_starts_jobs_with_its_skills_and_workspace(
    manager: SkillManager, tmp_path: Path
) -> None:
    sessions = SessionManager(manager, workspaces=tmp_path / "spaces", writes="direct")
    name = await sessions.create_session()
    await sessions.use_skill(name, "words", TEXT)

    counted = await sessions.start(name, "words.count", None, "a b c")
    marked = await sessions.start(name, "demo.mark", "x")

    assert (await counted.aresult(60)).stdout.strip() == "3"
    assert (await marked.aresult(60)).outcome == "ok"
    assert ran(await sessions.workspace(name)) == ["x"]
    assert {job.id for job in await sessions.jobs(name)} == {counted.id, marked.id}
    assert (await sessions.job(name, marked.id)).session == name
    other = await sessions.create_session()
    with pytest.raises(NoSuchJobError):
        await sessions.job(other, marked.id)
    await sessions.close()


async def test_the_jobs_of_a_session_end_with_it(manager: SkillManager, tmp_path: Path) -> None:
    sessions = SessionManager(manager, workspaces=tmp_path / "spaces", writes="direct")
    name = await sessions.create_session()
    job = await sessions.start(name, "demo.gated", "a")
    workspace = await sessions.workspace(name)
    await asyncio.to_thread(until, lambda: ran(workspace), "the run")

    await sessions.destroy_session(name)

    assert job.state == "cancelled"
    assert not workspace.exists()
    await sessions.close()


def test_a_skill_that_changes_while_its_job_is_queued_is_not_run(
    manager: SkillManager, work: Path
) -> None:
    bounds("running = 1")
    gate = manager.start("demo.gated", "a")
    until(lambda: ran(work) == ["a"], "the first job")
    job = manager.start("demo.mark", "b")
    script = manager.roots[0] / "demo/scripts/mark.sh"
    script.write_text(script.read_text() + "echo more >> ran\n")

    (work / "go-a").touch()
    gate.result(60)
    with pytest.raises(Exception, match="changed after job") as raised:
        job.result(60)

    assert getattr(raised.value, "code", "") == "job_skill_changed"
    assert job.state == "failed"
    assert ran(work) == ["a"]
    assert manager.start("demo.mark", "c").result(60).outcome == "ok"
    assert ran(work) == ["a", "c", "more"]


def test_two_hosts_started_at_once_are_one(manager: SkillManager, work: Path) -> None:
    program = (
        "import sys; from skillpouch import SkillManager\n"
        "m = SkillManager(sys.argv[1], workspace=sys.argv[2], writes='direct')\n"
        "sys.stdin.read()\n"
        "print(m.start('demo.mark', sys.argv[3]).result(60).outcome)"
    )
    callers = [
        subprocess.Popen(
            [sys.executable, "-c", program, str(manager.roots[0]), str(work), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(4)
    ]

    told = [caller.communicate()[0] for caller in callers]  # closes their input, one by one

    assert told == [b"ok\n"] * 4
    assert sorted(ran(work)) == ["0", "1", "2", "3"]
    processes = user_jobs()._read(  # the hosts that ever took a job
        lambda c: c.execute("SELECT count(DISTINCT process) FROM jobs").fetchone()
    )
    assert processes == (1,)


@pytest.mark.promise("job-3")
def test_secrets_reach_the_host_but_not_the_disk(manager: SkillManager, work: Path) -> None:
    front = "metadata:\n  skillpouch:\n    secrets: [DEMO_TOKEN]\n"
    text = f"---\nname: demo\ndescription: Demo.\n{front}---\nDo it.\n"
    (manager.roots[0] / "demo/SKILL.md").write_text(text)
    given = {"DEMO_TOKEN": "tok-5f3a9c1e77"}
    one = SkillManager(
        *manager.roots,
        workspace=work,
        writes="direct",
        policy=Policy.trusting(),
        secrets=lambda _, name: given.get(name),
    )
    direct = one.call("demo.secret")

    job = one.start("demo.secret")
    result = job.result(60)

    assert result.stdout == direct.stdout
    assert "tok-5f3a9c1e77" not in result.stdout
    assert result.stdout not in ("", "it is \n")  # it had a value, which is redacted
    for path in jobs_folder().rglob("*"):
        if path.is_file():
            assert b"tok-5f3a9c1e77" not in path.read_bytes(), path


def test_a_job_can_be_waited_for_from_many_threads_and_loops(
    manager: SkillManager, work: Path
) -> None:
    job = manager.start("demo.gated", "a")
    outcomes: list[str] = []

    def wait(number: int) -> None:
        found = asyncio.run(job.aresult(60)) if number % 2 else job.result(60)
        outcomes.append(found.outcome)

    threads = [threading.Thread(target=wait, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    (work / "go-a").touch()
    for thread in threads:
        thread.join(60)

    assert outcomes == ["ok"] * 6


def test_a_forked_child_waits_for_the_same_job(manager: SkillManager, work: Path) -> None:
    job: Job = manager.start("demo.gated", "a")
    child = os.fork()
    if not child:
        os._exit(0 if job.result(60).outcome == "ok" else 1)

    (work / "go-a").touch()

    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert job.result(60).outcome == "ok"
