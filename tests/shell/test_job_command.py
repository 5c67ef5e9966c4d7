"""`job start`, `wait`, `output` and `cancel` in scripts, in both engines."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import Policy, ScriptedTool, SessionManager, SkillManager, ToolArgs, ToolDef
from skillpouch.calls import called_by
from skillpouch.policy.rules import Rule
from skillpouch.results import Progress
from skillpouch.shell.limits import ExecutionLimits
from tests.jobs.hosts import until

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]

GATED = """#!/bin/bash
# Wait until somebody opens.
echo "$1" >> ran
echo '{"done": 1, "total": 2, "message": "half"}' >> "${SKILLPOUCH_PROGRESS:-/dev/null}"
echo begun
until [ -e "go-$1" ]; do sleep 0.01; done
echo ended
"""
FAILS = '#!/bin/bash\n# Fail\necho "no such page" >&2\nexit 4\n'


@pytest.fixture
def manager(write_skill: WriteSkill, tmp_path: Path) -> SkillManager:
    files = {"scripts/gated.sh": GATED, "scripts/fails.sh": FAILS}
    root = write_skill("slow", files=files).parent
    (tmp_path / "work").mkdir()
    return SkillManager(root, workspace=tmp_path / "work", writes="direct")


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return tmp_path / "work"


@pytest.fixture(params=["worker", "inproc"])
def script(manager: SkillManager, request: pytest.FixtureRequest) -> ScriptedTool:
    return ScriptedTool.over(manager, engine=request.param)


def test_a_job_is_started_left_and_waited_for(
    script: ScriptedTool, manager: SkillManager, work: Path
) -> None:
    started = script.execute_sync("job start slow.gated a; echo left")

    job_id, left = started.stdout.split()
    assert (started.status, left) == ("ok", "left")
    assert [(call.tool, call.outcome) for call in started.calls] == [("slow.gated", "started")]

    early = script.execute_sync(f"job wait {job_id} 0.2")
    (work / "go-a").touch()
    waited = script.execute_sync(f"job wait {job_id}; job output {job_id} 6")

    assert (early.exit_code, early.stdout) == (124, "")
    assert early.stderr == f"job: {job_id} (slow.gated) has not ended after 0.2 s\n"
    assert (waited.exit_code, waited.stdout) == (0, "begun\nended\nended\n")
    assert (work / "ran").read_text() == "a\n"
    assert [job.state for job in manager.jobs()] == ["done"]


def test_one_script_starts_reads_and_ends_several(
    script: ScriptedTool, manager: SkillManager, work: Path
) -> None:
    (work / "go-a").touch()
    ran = script.execute_sync(
        """
        a=$(job start slow.gated a); b=$(job start slow.gated -- b)
        until [ "$(job output $b)" = begun ]; do sleep 0.01; done
        job cancel $b
        job wait $a | tail -1
        job wait $b || echo "b: $?"
        job wait $(job start slow.fails) || echo "fails: $?"
        """
    )

    assert ran.stdout == "cancelled\nended\nb: 1\nfails: 4\n"
    assert "was cancelled [job_cancelled]" in ran.stderr
    assert "no such page" in ran.stderr
    assert [job.state for job in manager.jobs()] == ["failed", "cancelled", "done"]


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("job", 2, "Usage: job start COMMAND"),
        ("job begin x", 2, "'begin x' is not understood"),
        ("job start", 2, "Usage: job start COMMAND"),
        ("job wait", 2, "Usage: job start COMMAND"),
        ("job wait j1 soon", 2, "'wait j1 soon' is not understood"),
        ("job wait j1 -1", 2, "is not understood"),
        ("job cancel j1 2", 2, "is not understood"),
        ("job wait j1", 1, "no job 'j1' [no_such_job]"),
        ("job output j1 7", 1, "no job 'j1' [no_such_job]"),
        ("job cancel j1", 1, "no job 'j1' [no_such_job]"),
        ("job start slow.gatd", 127, "command not found. Did you mean: slow.gated"),
        ("job start slow.fails --nonsense=1", 2, "slow.fails: "),
    ],
)
def test_wrong_words_end_with_the_codes_of_shells(
    manager: SkillManager, line: str, code: int, said: str
) -> None:
    ran = ScriptedTool.over(manager, engine="inproc").execute_sync(line)

    assert (ran.exit_code, said in ran.stderr) == (code, True), ran.stderr
    assert manager.jobs() == []


@pytest.mark.parametrize("line", ["job --help", "job help", "help job"])
def test_help_says_how_it_is_written(manager: SkillManager, line: str) -> None:
    ran = ScriptedTool.over(manager, engine="inproc").execute_sync(line)

    assert (ran.exit_code, ran.stderr) == (0, "")
    assert all(f"job {verb} " in ran.stdout for verb in ("start", "wait", "output", "cancel"))


def test_help_of_what_would_be_started_is_its_own(manager: SkillManager) -> None:
    ran = ScriptedTool.over(manager, engine="inproc").execute_sync("job start slow.gated --help")

    assert "Usage: slow.gated" in ran.stdout
    assert manager.jobs() == []


@pytest.mark.promise("leave-1")
async def test_scripts_reach_the_jobs_of_whoever_runs_them_only(
    script: ScriptedTool, manager: SkillManager, work: Path
) -> None:
    with called_by("ada"):
        started = await script.execute("job start slow.gated a")
    job_id = started.stdout.strip()

    with called_by("eve"):
        theirs = await script.execute(f"job cancel {job_id}")
    nobodys = await script.execute(f"job wait {job_id}")
    (work / "go-a").touch()
    with called_by("ada"):
        own = await script.execute(f"job wait {job_id}")

    assert manager.job(job_id).owner == "ada"
    assert [each.exit_code for each in (theirs, nobodys, own)] == [1, 1, 0]
    assert f"no job '{job_id}'" in theirs.stderr


@pytest.mark.promise("leave-1")
async def test_a_job_of_a_script_belongs_to_its_session_and_ends_with_it(
    manager: SkillManager, tmp_path: Path
) -> None:
    sessions = SessionManager(manager, workspaces=tmp_path / "sessions", writes="direct")
    one, two = [await sessions.create_session() for _ in range(2)]
    first, second = (ScriptedTool.over(sessions.session(each)) for each in (one, two))

    started = await first.execute("job start slow.gated a")
    job_id = started.stdout.strip()
    elsewhere = [await each.execute(f"job output {job_id}") for each in (second,)]
    outside = await ScriptedTool.over(manager).execute(f"job cancel {job_id}")
    state = (await sessions.job(one, job_id)).state
    await sessions.destroy_session(one)

    assert [each.exit_code for each in (*elsewhere, outside)] == [1, 1]
    assert state in ("queued", "running")
    assert manager.job(job_id).state == "cancelled"
    await sessions.close()


async def test_a_job_that_the_policy_asks_about_waits_and_one_that_it_denies_fails(
    manager: SkillManager, work: Path
) -> None:
    rules = [
        Rule(verdict="ask", tools=["slow.gated"], reason="it takes long"),
        Rule(verdict="deny", tools=["slow.fails"], reason="not today"),
    ]
    asking = SkillManager(
        *manager.roots, workspace=work, writes="direct", policy=Policy(rules=rules)
    )
    script = ScriptedTool.over(asking)
    (work / "go-a").touch()

    started = await script.execute("job start slow.gated a")
    job_id = started.stdout.strip()
    await asyncio.to_thread(until, asking.approvals, "the question")
    waits = await script.execute(f"job wait {job_id} 0.2")
    (question,) = asking.approvals()
    denied = await script.execute("job wait $(job start slow.fails)")
    await asking.aanswer(question.id, True)
    approved = await script.execute(f"job wait {job_id}")

    assert waits.stderr.endswith(f"until `skillpouch approve {question.id}`\n")
    assert (waits.exit_code, approved.stdout) == (124, "begun\nended\n")
    assert (denied.exit_code, denied.status, "not today" in denied.stderr) == (126, "denied", True)


def test_callbacks_and_budgets_hold_for_jobs_too(tmp_path: Path) -> None:
    del tmp_path

    def greet(args: ToolArgs) -> str:
        return f"hello {args.param_str('who')}"

    schema = {"type": "object", "properties": {"who": {"type": "string"}}}
    tool = (
        ScriptedTool.builder("demo", engine="inproc")
        .tool(ToolDef("greet", "Greet.").with_schema(schema), greet)
        .limits(ExecutionLimits(budgets={"greet": 1}))
        .build()
    )

    ran = tool.execute_sync("job wait $(job start greet --who Ada); job start greet --who Eve")

    assert ran.stdout == "hello Ada\n"
    assert "this script may call greet 1 times" in ran.stderr


def test_a_dry_run_starts_and_ends_nothing(manager: SkillManager, work: Path) -> None:
    job = manager.start("slow.gated", {"args": ["a"]})
    until((work / "ran").exists)
    lines = f"job start slow.gated b; job cancel {job.id}"

    ran = ScriptedTool.over(manager).execute_sync(lines, dry_run=True)

    assert "dry run: slow.gated was not called" in ran.stderr
    assert f"dry run: job {job.id} was not cancelled" in ran.stderr
    assert [each.id for each in manager.jobs(state="running")] == [job.id]
    job.cancel()


def test_a_tool_cannot_take_the_name(manager: SkillManager) -> None:
    del manager
    with pytest.raises(Exception, match="'job' cannot be a command"):
        ScriptedTool.builder("demo").tool(ToolDef("job", "Mine."), lambda _: "")


async def test_what_tools_of_a_script_report_reaches_whoever_asked_for_it(
    script: ScriptedTool, manager: SkillManager, work: Path
) -> None:
    heard: list[tuple[str, Progress]] = []

    def hear(word: str) -> Callable[[Progress], None]:
        def tell(progress: Progress) -> None:
            heard.append((word, progress))
            (work / f"go-{word}").touch()  # it goes on when somebody has heard of it

        return tell

    await script.execute("slow.gated a", on_step=hear("a"))
    await script.execute("job wait $(job start slow.gated b)", on_step=hear("b"))
    registered = manager.executor.beside([script.as_tool()])
    await registered.execute("script", {"commands": "slow.gated c"}, on_step=hear("c"))

    assert dict(heard) == dict.fromkeys("abc", Progress(1, 2, "half"))


async def test_a_script_that_is_cancelled_leaves_the_job_that_it_started(
    manager: SkillManager, work: Path
) -> None:
    script = ScriptedTool.over(manager)
    running = asyncio.ensure_future(script.execute("job wait $(job start slow.gated a)"))
    while not (work / "ran").exists():
        await asyncio.sleep(0.01)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    (job,) = manager.jobs()
    assert job.state == "running"
    (work / "go-a").touch()
    assert (await job.aresult(60)).content == "begun\nended"
