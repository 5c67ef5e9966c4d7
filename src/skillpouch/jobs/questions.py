"""KeptApprover: keeps the questions of jobs until somebody answers, in whatever process."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from skillpouch.jobs.job import KeptQuestion
from skillpouch.jobs.job_run import running_job
from skillpouch.jobs.job_store import JobStore
from skillpouch.jobs.kept_json import question_to_json
from skillpouch.policy.approval import Answer, Question

Value = TypeVar("Value")
QUESTION_SECONDS = 7 * 86_400.0  # until a question expires


class Waiting(Protocol):
    """Who runs jobs: one that waits for an answer gives its place to another."""

    async def do(self, change: Callable[[], Value]) -> Value: ...
    def leave(self, job_id: str) -> None: ...
    def come_back(self, job_id: str) -> Awaitable[None]: ...


class KeptApprover:
    """The approver of the job host: a question becomes a row, and its job waits for the answer."""

    def __init__(self, store: JobStore, process: int, waiting: Waiting) -> None:
        self._store = store
        self._process = process
        self._waiting = waiting
        self._open: dict[str, asyncio.Future[KeptQuestion]] = {}
        self.before_run: set[str] = set()  # jobs that wait, and of which nothing has run yet

    @property
    def is_waiting(self) -> bool:
        """Whether a question of a job in this process is open."""
        return bool(self._open)

    async def __call__(self, question: Question) -> Answer:
        """Return the answer that was given to this question, or wait for one."""
        job, questions = running_job.get(), self._store.questions
        kept = await self._waiting.do(lambda: self._answered(job, question))
        if kept is not None:
            return _answer_of(kept)
        after_run = bool(question.changes)
        kept = await self._waiting.do(
            lambda: questions.ask(
                job, self._process, question, seconds=QUESTION_SECONDS, after_run=after_run
            )
        )
        if kept is None:
            return Answer(yes=False, cause="no_answer", reason="its job has ended")
        return await self._wait(job, kept)

    async def _wait(self, job: str, kept: KeptQuestion) -> Answer:
        told = self._open[kept.id] = asyncio.get_running_loop().create_future()
        if not kept.after_run:
            self.before_run.add(job)
        self._waiting.leave(job)
        try:
            kept = await told
        finally:
            del self._open[kept.id]
            self.before_run.discard(job)
        await self._waiting.come_back(job)
        goes_on = await self._waiting.do(lambda: self._store.questions.resume(job, self._process))
        if not goes_on:
            return Answer(yes=False, cause="no_answer", reason="its job has ended")
        return _answer_of(kept)

    def _answered(self, job: str, question: Question) -> KeptQuestion | None:
        """Return the answered question of a job that is this one; outdate any other."""
        kept = self._store.questions.last_of(job)
        if kept is None or kept.state in ("pending", "outdated") or kept.after_run:
            return None
        if question_to_json(kept.question) == question_to_json(question):
            return kept
        self._store.questions.outdate(kept.id)
        return None

    async def look(self) -> None:
        """Look for answers in the store: somebody may have answered in another process."""
        if not self._open:
            return
        await self._waiting.do(self._store.questions.expire)
        names = list(self._open)
        found = await self._waiting.do(lambda: [self._store.questions.get(name) for name in names])
        for kept in found:
            told = self._open.get(kept.id)
            if told is not None and not told.done() and kept.state != "pending":
                told.set_result(kept)


def _answer_of(kept: KeptQuestion) -> Answer:
    if kept.answer is not None:
        return kept.answer
    return Answer(yes=False, cause="no_answer", reason=f"the question is {kept.state}")
