import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest

from skillpouch import SessionManager, SkillManager, ToolExecutor, tool
from skillpouch.errors import CallDeniedError
from skillpouch.jobs.job import (
    AlreadyAnsweredError,
    Job,
    JobLostError,
    JobTimeoutError,
    KeptQuestion,
    NoSuchQuestionError,
    QuestionExpiredError,
)
from skillpouch.jobs.job_run import JobSecretsGoneError
from skillpouch.jobs.job_runner import user_jobs
from skillpouch.jobs.questions import (
    LastingAnswerError,
    MayNotAnswerError,
    answer_and_go_on,
    answer_question,
)
from skillpouch.policy.approval import Answer, Question
from skillpouch.policy.change_rules import ChangeConditions
from skillpouch.policy.policy import Policy
from skillpouch.policy.rules import Rule
from skillpouch.runtime.loop_thread import run_blocking
from tests.effort import few_or_many
from tests.jobs.hooks import SECRET, answering, arrived, receiver
from tests.jobs.hosts import end_host, host_pid, jobs_folder, kill_host, until

pytestmark = pytest.mark.slow
ASKING = Policy(rules=[Rule(verdict="ask", tools=["demo.*"], reason="look first")])


@pytest.fixture
def asking(manager: SkillManager) -> SkillManager:
    """A manager whose every call asks, and that has nobody to ask."""
    return SkillManager(
        *manager.roots, workspace=manager.executor.workspace, writes="direct", policy=ASKING
    )


def ran(work: Path) -> list[str]:
    try:
        return (work / "ran").read_text().split()
    except FileNotFoundError:
        return []


def question_of(job: Job) -> KeptQuestion:
    """Wait until a job asks, and return what."""
    until(lambda: job.question or job.is_final, "a question")
    kept = job.question
    assert kept is not None, job.state
    return kept


def user_answers(kept: KeptQuestion, answer: Answer) -> KeptQuestion:
    return run_blocking(answer_and_go_on(user_jobs(), kept.id, answer, by="user ada"))


YES, NO = Answer(yes=True), Answer(yes=False, reason="not today")


@pytest.mark.promise("ask-1")
def test_a_question_is_kept_with_all_that_somebody_needs_to_decide(
    asking: SkillManager, work: Path
) -> None:
    job = asking.start("demo.mark", ["one"])

    kept = question_of(job)

    assert (job.state, kept.job, kept.state) == ("waiting_for_approval", job.id, "pending")
    question = kept.question
    assert (question.tool, question.skill) == ("demo.mark", "demo")
    assert "scripts/mark.sh" in question.runs
    assert any("look first" in reason for reason in question.reasons)
    assert question.arguments
    assert question.digest == asking.get_skill("demo").digest
    assert kept.until is not None
    assert 6.9 < (kept.until - datetime.now(UTC)).total_seconds() / 86_400 <= 7
    assert kept.who == ("user", "caller", "webhook")
    assert [each.id for each in asking.approvals()] == [kept.id]
    assert ran(work) == []


def test_an_approval_lets_the_call_run_once(asking: SkillManager, work: Path) -> None:
    job = asking.start("demo.mark", ["one"])
    kept = question_of(job)

    answered = asking.answer(kept.id, True)

    assert job.result(60).outcome == "ok"
    assert (answered.state, answered.answered_by.split()[0]) == ("approved", "user")
    assert ran(work) == ["one"]
    assert asking.approvals() == []


def test_a_denial_fails_the_job_with_the_reason(asking: SkillManager, work: Path) -> None:
    job = asking.start("demo.mark", ["one"])

    asking.answer(question_of(job).id, NO)

    with pytest.raises(CallDeniedError, match="not today"):
        job.result(60)
    assert (job.state, ran(work)) == ("failed", [])


@pytest.mark.promise("ask-2")
def test_only_the_first_of_many_answers_counts(asking: SkillManager, work: Path) -> None:
    job = asking.start("demo.mark", ["one"])
    kept, store = question_of(job), user_jobs()
    outcomes: list[object] = []

    def answer(number: int) -> None:
        try:
            answer_question(store, kept.id, Answer(yes=number % 2 == 0), by=f"user {number}")
            outcomes.append(number)
        except AlreadyAnsweredError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=answer, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    counted = [each for each in outcomes if isinstance(each, int)]
    refused = [each for each in outcomes if isinstance(each, AlreadyAnsweredError)]
    assert (len(counted), len(refused)) == (1, 7)
    assert all(each.by == f"user {counted[0]}" and each.hint for each in refused)
    until(lambda: job.is_final, "the end")  # nobody told the host: it looks by itself
    assert (job.state, len(ran(work))) == (("done", 1) if counted[0] % 2 == 0 else ("failed", 0))


def test_an_answer_to_nothing_says_how_to_find_the_questions() -> None:
    with pytest.raises(NoSuchQuestionError) as raised:
        answer_question(user_jobs(), "q" + "0" * 32, YES, by="user ada")

    assert "skillpouch approvals" in raised.value.hint


def settings(text: str) -> None:
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "skillpouch"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.toml").write_text(text)


@pytest.mark.promise("ask-3")
def test_whoever_is_not_named_cannot_answer(asking: SkillManager, work: Path) -> None:
    settings('[approvals]\nanswered_by = ["user"]\n')
    job = asking.start("demo.mark", ["one"], owner="token-1")
    kept = question_of(job)

    for by in ("caller token-1", "caller", "webhook example.com", "token-1", "", "users"):
        with pytest.raises(MayNotAnswerError, match="only by user"):
            answer_question(user_jobs(), kept.id, YES, by=by)

    assert (job.state, ran(work)) == ("waiting_for_approval", [])


@pytest.mark.promise("ask-3")
def test_a_caller_answers_for_its_own_jobs_only(asking: SkillManager) -> None:
    kept = question_of(asking.start("demo.mark", ["one"], owner="token-1"))

    for by in ("caller token-2", "caller"):
        with pytest.raises(MayNotAnswerError):
            answer_question(user_jobs(), kept.id, YES, by=by)

    answered = answer_question(user_jobs(), kept.id, NO, by="caller token-1")
    assert answered.answered_by == "caller token-1"


def test_an_answer_that_comes_too_late_counts_for_nothing(asking: SkillManager, work: Path) -> None:
    settings("[approvals]\nkeep_days = 0.000000001\n")
    job = asking.start("demo.mark", ["one"])
    until(lambda: user_jobs().questions.all_of(job.id), "a question")
    (kept,) = user_jobs().questions.all_of(job.id)

    with pytest.raises(QuestionExpiredError, match="counts for nothing") as raised:
        user_answers(kept, YES)
    with pytest.raises(CallDeniedError, match="nobody answered before"):
        job.result(60)

    assert "start the call again" in raised.value.hint
    assert ran(work) == []


@pytest.mark.promise("ask-4")
def test_a_killed_host_loses_no_question_and_the_call_runs_once(
    asking: SkillManager, work: Path
) -> None:
    job = asking.start("demo.mark", ["one"])
    kept = question_of(job)

    kill_host()
    assert job.state == "waiting_for_approval"
    assert [each.id for each in asking.approvals()] == [kept.id]
    user_answers(kept, YES)

    assert job.result(60).outcome == "ok"
    assert ran(work) == ["one"]
    assert len(user_jobs().questions.all_of(job.id)) == 1


@pytest.mark.promise("ask-4")
def test_a_killed_host_loses_no_answer(asking: SkillManager, work: Path) -> None:
    job = asking.start("demo.mark", ["one"])
    kept = question_of(job)
    stopped = host_pid()
    assert stopped is not None
    os.kill(stopped, signal.SIGSTOP)  # so that it cannot hear of the answer
    answer_question(user_jobs(), kept.id, YES, by="user ada")

    kill_host()

    assert job.state == "queued"
    assert job.result(60).outcome == "ok"
    assert ran(work) == ["one"]
    assert len(user_jobs().questions.all_of(job.id)) == 1


@pytest.mark.promise("ask-4")
def test_a_denial_that_a_host_did_not_hear_of_counts(asking: SkillManager, work: Path) -> None:
    job = asking.start("demo.mark", ["one"])
    kept = question_of(job)
    kill_host()

    answer_question(user_jobs(), kept.id, NO, by="user ada")

    with pytest.raises(CallDeniedError, match="not today"):
        job.result(60)
    assert ran(work) == []


CALLER = """
import sys, time
from skillpouch import SkillManager
from skillpouch.policy.policy import Policy
from skillpouch.policy.rules import Rule
root, work = sys.argv[1:]
policy = Policy(rules=[Rule(verdict="ask", tools=["demo.*"], reason="look first")])
manager = SkillManager(root, workspace=work, writes="direct", policy=policy)
print(manager.start("demo.mark", ["one"]).id, flush=True)
time.sleep(600)
"""


@contextmanager
def caller(root: Path, work: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Start a process that starts a job; yield it with the id of the job."""
    command = [sys.executable, "-c", CALLER, str(root), str(work)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.promise("ask-4")
@pytest.mark.parametrize("host_too", [False, True])
def test_an_approval_asked_for_a_caller_that_was_killed_is_answered_and_the_call_runs_once(
    manager: SkillManager, work: Path, *, host_too: bool
) -> None:
    with caller(manager.roots[0], work) as (process, job_id):
        job = user_jobs().job(job_id)
        kept = question_of(job)
        process.kill()
        process.wait()
    if host_too:
        kill_host()

    words = ["-m", "skillpouch", "approve", kept.id[:9]]
    subprocess.run([sys.executable, *words], check=True, capture_output=True)

    assert job.result(60).outcome == "ok"
    assert ran(work) == ["one"]


@pytest.mark.promise("ask-5")
@pytest.mark.parametrize("host_dies", [False, True])
def test_an_answer_to_a_changed_skill_counts_for_nothing_and_a_new_question_is_asked(
    asking: SkillManager, work: Path, *, host_dies: bool
) -> None:
    job = asking.start("demo.mark", ["one"])
    first = question_of(job)
    if host_dies:
        kill_host()
    script = asking.get_skill("demo").home / "scripts/mark.sh"
    script.write_text('#!/bin/bash\n# Append another word.\necho "other-$1" >> ran\n')

    user_answers(first, YES)

    until(lambda: job.question is not None and job.question.id != first.id, "a new question")
    second = question_of(job)
    assert user_jobs().questions.get(first.id).state == "outdated"
    assert second.question.digest != first.question.digest
    assert ran(work) == []
    user_answers(second, YES)
    assert job.result(60).outcome == "ok"
    assert ran(work) == ["other-one"]


def test_once_means_that_the_next_job_asks_again(asking: SkillManager, work: Path) -> None:
    first = asking.start("demo.mark", ["one"])
    user_answers(question_of(first), YES)
    first.result(60)

    second = asking.start("demo.mark", ["one"])

    assert question_of(second).id != question_of(second).job
    assert ran(work) == ["one"]


def test_always_is_a_grant_that_direct_calls_have_too(asking: SkillManager, work: Path) -> None:
    first = asking.start("demo.mark", ["one"])
    user_answers(question_of(first), Answer(yes=True, remember="always"))
    first.result(60)

    asking.call("demo.mark", ["two"])
    asking.start("demo.mark", ["three"]).result(60)

    assert ran(work) == ["one", "two", "three"]


@pytest.mark.parametrize("host_dies", [False, True])
async def test_an_approval_for_a_session_holds_for_its_jobs_and_no_others(
    manager: SkillManager, tmp_path: Path, *, host_dies: bool
) -> None:
    sessions = SessionManager(
        skills=manager, directory=tmp_path / "sessions", policy=ASKING, writes="direct"
    )
    one, other = await sessions.create_session(), await sessions.create_session()
    first = await sessions.start(one, "demo.mark", ["one"])
    kept = await asyncio.to_thread(question_of, first)
    await answer_and_go_on(
        user_jobs(), kept.id, Answer(yes=True, remember="session"), by="user ada"
    )
    await first.aresult(60)
    if host_dies:
        kill_host()

    again = await sessions.start(one, "demo.mark", ["two"])
    elsewhere = await sessions.start(other, "demo.mark", ["three"])

    assert (await again.aresult(60)).outcome == "ok"
    assert (await asyncio.to_thread(question_of, elsewhere)).state == "pending"
    await elsewhere.acancel()
    await sessions.destroy_session(one)
    await sessions.destroy_session(other)


@pytest.mark.parametrize("host_dies", [False, True])
def test_without_sessions_an_approval_for_the_session_is_for_the_jobs_of_one_manager(
    asking: SkillManager, work: Path, *, host_dies: bool
) -> None:
    first = asking.start("demo.mark", ["one"])
    user_answers(question_of(first), Answer(yes=True, remember="session"))
    first.result(60)
    if host_dies:
        kill_host()
    other = SkillManager(*asking.roots, workspace=work, writes="direct", policy=ASKING)

    again, elsewhere = asking.start("demo.mark", ["two"]), other.start("demo.mark", ["three"])

    assert again.result(60).outcome == "ok"
    assert question_of(elsewhere).state == "pending"
    assert ran(work) == ["one", "two"]


def test_a_secret_that_only_the_killed_host_knew_is_missed_by_its_name(
    manager: SkillManager, work: Path
) -> None:
    front = "metadata:\n  skillpouch:\n    secrets: [DEMO_TOKEN]\n"
    text = f"---\nname: demo\ndescription: Demo.\n{front}---\nDo it.\n"
    (manager.roots[0] / "demo/SKILL.md").write_text(text)
    asks = SkillManager(*manager.roots, workspace=work, secrets=lambda *_: "tok-5f3a9c1e77")
    heard, missed = asks.start("demo.secret"), asks.start("demo.secret")
    user_answers(question_of(heard), YES)
    assert heard.result(60).stdout == "it is [redacted DEMO_TOKEN]\n"
    kept = question_of(missed)

    kill_host()
    user_answers(kept, YES)

    with pytest.raises(JobSecretsGoneError, match="was given DEMO_TOKEN has ended"):
        missed.result(60)


def with_approver(manager: SkillManager, approver: object) -> SkillManager:
    return SkillManager(
        *manager.roots,
        workspace=manager.executor.workspace,
        writes="direct",
        policy=ASKING,
        approver=approver,  # type: ignore[arg-type]
    )


def test_the_approver_of_a_caller_that_lives_answers(manager: SkillManager, work: Path) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    job = with_approver(manager, approve).start("demo.mark", ["one"])

    assert job.result(60).outcome == "ok"
    assert [each.tool for each in asked] == ["demo.mark"]
    (kept,) = user_jobs().questions.all_of(job.id)
    assert (kept.state, kept.answered_by, ran(work)) == ("approved", "caller", ["one"])


def test_an_approver_is_withdrawn_when_somebody_else_answers_first(
    manager: SkillManager, work: Path
) -> None:
    asked, withdrawn = threading.Event(), threading.Event()

    async def approve(_: Question) -> bool:
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            withdrawn.set()
        return False

    job = with_approver(manager, approve).start("demo.mark", ["one"])
    assert asked.wait(60)

    user_answers(question_of(job), YES)

    assert job.result(60).outcome == "ok"
    assert withdrawn.wait(60)
    assert ran(work) == ["one"]


def test_an_approver_that_fails_leaves_the_question_to_others(
    manager: SkillManager, work: Path
) -> None:
    failed = threading.Event()

    def approve(_: Question) -> bool:
        failed.set()
        raise RuntimeError("no terminal")

    job = with_approver(manager, approve).start("demo.mark", ["one"])
    assert failed.wait(60)

    user_answers(question_of(job), YES)

    assert job.result(60).outcome == "ok"
    assert ran(work) == ["one"]


CHANGING = Policy(
    rules=[Rule(verdict="ask", tools=["demo.*"], changes=ChangeConditions(paths=["**"]))]
)


def changing(manager: SkillManager) -> SkillManager:
    workspace = manager.executor.workspace
    return SkillManager(*manager.roots, workspace=workspace, policy=CHANGING, writes="undoable")


def test_a_question_about_changes_shows_the_diff_and_its_answer_lets_them_arrive(
    manager: SkillManager, work: Path
) -> None:
    job = changing(manager).start("demo.mark", ["one"])
    kept = question_of(job)

    with pytest.raises(LastingAnswerError):
        user_answers(kept, Answer(yes=True, remember="always"))
    before = ran(work)
    user_answers(kept, YES)

    assert job.result(60).outcome == "ok"
    assert kept.after_run
    assert [each.path for each in kept.question.changes] == ["ran"]
    assert "+one" in kept.question.diff
    assert (before, ran(work)) == ([], ["one"])


@pytest.mark.promise("ask-6")
def test_if_the_host_dies_while_changes_are_asked_about_they_stay_kept_and_the_job_is_lost(
    manager: SkillManager, work: Path
) -> None:
    manager = changing(manager)
    job = manager.start("demo.mark", ["one"])
    kept = question_of(job)

    kill_host()

    with pytest.raises(JobLostError, match="skillpouch changes"):
        job.result(60)
    with pytest.raises(QuestionExpiredError):
        user_answers(kept, YES)
    assert ran(work) == []
    (changes,) = manager.changes()
    manager.apply(changes.id)
    assert ran(work) == ["one"]


def test_a_function_of_this_process_asks_like_any_other_job() -> None:
    calls: list[str] = []

    @tool
    def shout(word: str) -> str:
        """Say a word."""
        calls.append(word)
        return word.upper()

    policy = Policy(rules=[Rule(verdict="ask", tools=["shout"], reason="look first")])
    executor = ToolExecutor([shout], policy=policy)
    job = executor.start("shout", {"word": "hi"})
    kept = question_of(job)

    words = ["-m", "skillpouch", "approve", kept.id]
    subprocess.run([sys.executable, *words], check=True, capture_output=True)

    assert job.result(60).content == "HI"
    assert calls == ["hi"]
    assert host_pid() is None
    assert jobs_folder().is_dir()


def hooked(url: str) -> None:
    settings(f'[approvals.webhook]\nurl = "{url}"\nsecret = "HOOK_SECRET"\ninternal = true\n')


def test_a_webhook_hears_of_the_question_and_may_answer_it(
    asking: SkillManager, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)

    with receiver(answering({"answer": "approve"})) as (url, seen):
        hooked(url)
        job = asking.start("demo.mark", ["one"])
        result = job.result(60)

    assert (result.outcome, ran(work), len(seen)) == ("ok", ["one"], 1)
    (kept,) = user_jobs().questions.all_of(job.id)
    assert kept.answered_by.startswith("webhook 127.0.0.1:")


def test_a_question_that_a_killed_host_had_not_sent_is_sent_by_the_next(
    asking: SkillManager, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOOK_SECRET", SECRET)
    with receiver(arrived) as (url, _):
        pass
    hooked(url)  # where nobody listens any more
    job = asking.start("demo.mark", ["one"])
    kept = question_of(job)
    until(lambda: user_jobs().questions.get(kept.id).webhook == "sending", "a try")
    kill_host()

    with receiver(answering({"answer": "approve"}), int(url.split(":")[2].split("/")[0])):
        result = job.result(60)  # whoever waits starts a host

    assert (result.outcome, ran(work)) == ("ok", ["one"])


@few_or_many("count", 2, 30)
def test_whenever_the_host_is_killed_the_call_runs_once_or_is_lost(
    asking: SkillManager, work: Path, count: int
) -> None:
    """Each job is asked about, approved, and has its host killed at some moment of its life."""
    random = Random(count)
    for number in range(count):
        job = asking.start("demo.mark", [f"w{number}"])
        killer = threading.Timer(random.uniform(0, 0.6), end_host)
        killer.start()
        try:
            while not job.is_final:
                for kept in asking.approvals():
                    with contextlib.suppress(AlreadyAnsweredError, QuestionExpiredError):
                        user_answers(kept, YES)
                with contextlib.suppress(JobTimeoutError, JobLostError):
                    job.result(0.05)
        finally:
            killer.join()
        times = ran(work).count(f"w{number}")
        asked = [each.state for each in user_jobs().questions.all_of(job.id)]
        assert (job.state, times) in (("done", 1), ("lost", 0), ("lost", 1))
        assert asked in ([], ["approved"], ["outdated"]), asked
        assert asked == ["approved"] or times == 0
