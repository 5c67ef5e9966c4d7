import os
import signal
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.errors import CallDeniedError
from skillpouch.jobs.host_client import client_of
from skillpouch.jobs.job import Job, KeptQuestion
from skillpouch.jobs.job_runner import user_jobs
from skillpouch.policy.approval import Answer
from skillpouch.policy.change_rules import ChangeConditions
from skillpouch.policy.policy import Policy
from skillpouch.policy.rules import Rule
from skillpouch.runtime.loop_thread import run_blocking
from tests.jobs.hosts import host_pid, is_alive, kill_host, until
from tests.jobs.test_jobs import bounds, ran

pytestmark = pytest.mark.slow

ASKING = Policy(rules=[Rule(verdict="ask", tools=["demo.mark", "demo.gated"], reason="look")])


@pytest.fixture
def asking(manager: SkillManager, work: Path) -> SkillManager:
    return SkillManager(*manager.roots, workspace=work, writes="direct", policy=ASKING)


def asked(job: Job) -> KeptQuestion:
    until(lambda: job.state == "waiting_for_approval", "the question")
    question = job.question
    assert question is not None
    return question


def answer(question: KeptQuestion, *, yes: bool) -> None:
    """Answer as another process would: in the store, then tell the host."""
    store = user_jobs()
    store.questions.answer(question.id, Answer(yes=yes, reason="" if yes else "no"), by="ada")
    run_blocking(client_of(store).look())


def test_a_question_waits_and_the_approval_runs_the_call_once(
    asking: SkillManager, work: Path
) -> None:
    job = asking.start("demo.mark", "a")
    question = asked(job)
    before = ran(work)

    answer(question, yes=True)

    assert job.result(60).outcome == "ok"
    assert (before, ran(work)) == ([], ["a"])
    assert question.question.tool == "demo.mark"
    assert "look" in " ".join(question.question.reasons)


def test_a_denied_question_fails_its_job(asking: SkillManager, work: Path) -> None:
    job = asking.start("demo.mark", "a")

    answer(asked(job), yes=False)

    with pytest.raises(CallDeniedError):
        job.result(60)
    assert (job.state, ran(work)) == ("failed", [])


@pytest.mark.parametrize("before_the_answer", [False, True])
def test_a_question_survives_the_death_of_its_host(
    asking: SkillManager, work: Path, *, before_the_answer: bool
) -> None:
    job = asking.start("demo.mark", "a")
    question = asked(job)

    if before_the_answer:
        kill_host()
        assert job.state == "waiting_for_approval"
        answer(question, yes=True)
    else:
        user_jobs().questions.answer(question.id, Answer(yes=True), by="ada")
        if host_pid() is not None:
            kill_host()

    assert job.result(60).outcome == "ok"
    assert ran(work) == ["a"]
    assert len(user_jobs().questions.all_of(job.id)) == 1


def test_an_idle_host_goes_although_a_job_waits(asking: SkillManager, work: Path) -> None:
    bounds("idle_seconds = 1")
    job = asking.start("demo.mark", "a")
    question = asked(job)
    pid = host_pid()
    assert pid is not None

    until(lambda: not is_alive(pid), "the end of the host")
    assert job.question == question
    answer(question, yes=True)

    assert job.result(60).outcome == "ok"
    assert ran(work) == ["a"]


def test_a_host_that_is_ended_leaves_questions_as_they_are(
    asking: SkillManager, work: Path
) -> None:
    job = asking.start("demo.mark", "a")
    question = asked(job)
    pid = host_pid()
    assert pid is not None

    os.kill(pid, signal.SIGTERM)
    until(lambda: not is_alive(pid), "the end of the host")

    assert job.question == question
    answer(question, yes=True)
    assert job.result(60).outcome == "ok"
    assert ran(work) == ["a"]


def test_a_waiting_job_leaves_its_place_to_others(asking: SkillManager, work: Path) -> None:
    bounds("running = 1")
    waiting = asking.start("demo.mark", "a")
    question = asked(waiting)

    assert asking.start("demo.hello").result(60).content == "hello"
    answer(question, yes=True)

    assert waiting.result(60).outcome == "ok"
    assert ran(work) == ["a"]


def test_a_waiting_job_can_be_cancelled(asking: SkillManager, work: Path) -> None:
    job = asking.start("demo.mark", "a")
    question = asked(job)

    assert job.cancel() == "cancelled"

    assert user_jobs().questions.get(question.id).state == "outdated"
    assert ran(work) == []


def test_a_question_about_changes_is_lost_with_its_host(manager: SkillManager, work: Path) -> None:
    rule = Rule(verdict="ask", changes=ChangeConditions(paths=["**"]), reason="look")
    one = SkillManager(*manager.roots, workspace=work, policy=Policy(rules=[rule]))
    job = one.start("demo.mark", "a")
    question = asked(job)
    assert question.after_run
    assert [change.path for change in question.question.changes] == ["ran"]

    kill_host()

    assert job.state == "lost"
    assert ran(work) == []
    assert user_jobs().questions.get(question.id).state == "outdated"
