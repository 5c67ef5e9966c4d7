"""KeptApprover: keeps what jobs ask until somebody answers; and who may answer, and how.

A question is a row before anybody sees it, so it survives the process that asked it. Its job waits;
the first answer counts. A call whose host died is made again from its beginning once there is an
answer, and the answer is found by what was asked: if anything else would run now, it counts for
nothing, and somebody is asked again.
"""

import asyncio
import json
import logging
import os
import pwd
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from skillpouch.jobs.host_client import client_of
from skillpouch.jobs.job import (
    FINAL,
    AlreadyAnsweredError,
    JobError,
    JobRow,
    KeptQuestion,
    NoSuchQuestionError,
    QuestionExpiredError,
    running_job,
)
from skillpouch.jobs.job_spec import JobCall
from skillpouch.jobs.job_store import JobStore
from skillpouch.jobs.kept_json import question_to_json
from skillpouch.policy.approval import (
    Answer,
    Answerer,
    Approver,
    Question,
    WebhookSettings,
    ask,
)
from skillpouch.policy.loading import read_approval_settings

if TYPE_CHECKING:
    from skillpouch.jobs.webhook import WebhookSender

_log = logging.getLogger(__name__)
_Value = TypeVar("_Value")
_LOOK_SECONDS = 5.0  # two questions in a row may look like one that still waits
_DAY = 86_400.0
SENDING = "sending"  # of a webhook
_LASTING = ("tool", "digest", "needs", "reasons")  # what an approval for a session is for


class MayNotAnswerError(JobError):
    """The owner of the machine has not named this one among those who answer."""

    code = "may_not_answer"

    def __init__(self, question_id: str, by: str, who: tuple[Answerer, ...]) -> None:
        self.question_id = question_id
        self.by = by
        super().__init__(
            f"question {question_id} cannot be answered by {by or 'nobody'}: only by"
            f" {' or '.join(who)}",
            hint=f"at a terminal: `skillpouch approve {question_id}`, or change `answered_by` of"
            " `[approvals]` in policy.toml",
        )


class LastingAnswerError(JobError):
    """What has changed is approved once: the next call changes something else."""

    code = "lasting_answer"

    def __init__(self, question_id: str, remember: str) -> None:
        self.question_id = question_id
        super().__init__(
            f"question {question_id} is about changes that were made: an approval for"
            f" {remember!r} is not possible",
            hint="approve it once",
        )


class Waiting(Protocol):
    """Who runs jobs: one that waits for an answer gives its place to another."""

    async def do(self, change: Callable[[], _Value]) -> _Value: ...
    def leave(self, job_id: str) -> None: ...
    def come_back(self, job_id: str) -> Awaitable[None]: ...


class ThisProcess:
    """A process that runs jobs of its own: each has its place."""

    async def do(self, change: Callable[[], _Value]) -> _Value:
        return await asyncio.to_thread(change)

    def leave(self, job_id: str) -> None: ...

    async def come_back(self, job_id: str) -> None: ...


class KeptApprover:
    """The approver of jobs: a question becomes a row, and its job waits for the answer."""

    def __init__(
        self, store: JobStore, process: int, waiting: Waiting, *, is_shared: bool = True
    ) -> None:
        self._store = store
        self._process = process
        self._waiting = waiting
        # Whether other callers have the same executor, as in a job host: what lasts for one of them
        # must not be remembered there.
        self._is_shared = is_shared
        self._open: dict[str, asyncio.Future[KeptQuestion]] = {}
        self._asked: set[str] = set()  # questions that this process has asked
        self._webhook: WebhookSender | None = None
        self.before_run: set[str] = set()  # jobs that wait, and of which nothing has run yet

    @property
    def is_waiting(self) -> bool:
        """Whether a question of a job in this process is open."""
        return bool(self._open)

    async def __call__(self, question: Question) -> Answer:
        """Return the answer that was given to this question, or wait for one."""
        job_id, question = running_job.get(), _plain(question)
        row = await self._waiting.do(lambda: self._store.get(job_id))
        # A call that a script of tools makes, or a question about changes: some of it has run.
        after_run = question.tool != row.tool or bool(question.changes)
        scope = await self._waiting.do(lambda: self._scope_of(row))
        find = partial(self._earlier, job_id, question, scope, after_run=after_run)
        kept = await self._waiting.do(find)
        if kept is None:
            kept = await self._kept(job_id, question, scope, after_run=after_run)
            kept = kept and await self._answered(job_id, kept)
        if kept is None:
            return _denied("its job has ended")
        answer = _answer_of(kept)
        is_theirs = self._is_shared and answer.remember == "session"
        return replace(answer, remember="once") if is_theirs else answer

    def _scope_of(self, row: JobRow) -> str:
        """Return for what an approval may last: a session, or else the jobs of one executor."""
        if row.session or row.own:
            return f"session {row.session}" if row.session else ""
        _, call = self._store.call_of(row.id)
        return f"caller {JobCall.from_json(call).caller}"

    async def _kept(
        self, job_id: str, question: Question, scope: str, *, after_run: bool
    ) -> KeptQuestion | None:
        # Read each time: the owner may have changed them since this process was started.
        settings = await asyncio.to_thread(read_approval_settings)
        ask_it = partial(
            self._store.questions.ask,
            job_id,
            self._process,
            question,
            seconds=settings.keep_days * _DAY,
            after_run=after_run,
            who=settings.answered_by,
            scope=scope,
        )
        if not after_run:
            # Before the row says so: a host that ends just then must leave the job waiting.
            self.before_run.add(job_id)
        kept: KeptQuestion | None = None
        try:
            kept = await self._waiting.do(ask_it)
        finally:
            if kept is None:
                self.before_run.discard(job_id)
        if kept is not None:
            self._asked.add(kept.id)
            self._send(settings.webhook, [kept])
        return kept

    async def _answered(self, job_id: str, kept: KeptQuestion) -> KeptQuestion | None:
        """Wait for the answer; None if the job has ended meanwhile."""
        told = self._open[kept.id] = asyncio.get_running_loop().create_future()
        if not kept.after_run:
            self.before_run.add(job_id)
        self._waiting.leave(job_id)
        try:
            kept = await told
        finally:
            del self._open[kept.id]
            self.before_run.discard(job_id)
        await self._waiting.come_back(job_id)
        resume = partial(self._store.questions.resume, job_id, self._process)
        return kept if await self._waiting.do(resume) else None

    def _earlier(
        self, job_id: str, question: Question, scope: str, *, after_run: bool
    ) -> KeptQuestion | None:
        """Return the answer to the same question, of a run of this job that had not begun.

        Or an approval for its scope. A question that asked about other content, or about something
        else that would run, is outdated from then on.
        """
        questions = self._store.questions
        kept = [] if after_run else [q for q in questions.all_of(job_id) if q.id not in self._asked]
        for each in reversed(kept):
            if each.after_run or each.state in ("pending", "outdated"):
                continue
            if question_to_json(each.question) == question_to_json(question):
                return each
            if each.question.digest != question.digest or each.question.runs == question.runs:
                questions.outdate(each.id)
        if not scope or question.changes:
            return None
        lasting = questions.lasting_of(scope)
        return next((each for each in lasting if _covers(each.question, question)), None)

    async def was_asked(self, job_id: str) -> bool:
        """Tell whether somebody was asked about a job before it ran."""
        kept = await self._waiting.do(lambda: self._store.questions.all_of(job_id))
        return any(not each.after_run for each in kept)

    async def outdate(self, job_id: str) -> bool:
        """Note that a skill changed after the last answer for a job, which counts for nothing.

        False if there was none: nobody was asked about the job before it ran.
        """

        def outdate() -> bool:
            kept = self._store.questions.last_of(job_id)
            if kept is None or kept.after_run or kept.state not in ("approved", "outdated"):
                return False
            self._store.questions.outdate(kept.id)
            return True

        return await self._waiting.do(outdate)

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

    async def send_unsent(self) -> None:
        """Send to the webhook what an earlier process has not sent to its end."""
        settings = await asyncio.to_thread(read_approval_settings)
        if settings.webhook is not None:
            pending = await self._waiting.do(self._store.questions.pending)
            unsent = [each for each in pending if not each.webhook or each.webhook == SENDING]
            self._send(settings.webhook, unsent)

    def _send(self, settings: WebhookSettings | None, questions: list[KeptQuestion]) -> None:
        if settings is None or not questions:
            return
        if self._webhook is None or self._webhook.settings != settings:
            # Imported here: most users have no webhook, and do without an http client.
            from skillpouch.jobs.webhook import WebhookSender

            self._webhook = WebhookSender(settings, self._waiting.do, self._store, self.look)
        for kept in questions:
            self._webhook.send(kept)

    async def aclose(self) -> None:
        """Stop sending; what was not sent is sent by the next process."""
        if self._webhook is not None:
            await self._webhook.aclose()


def _plain(question: Question) -> Question:
    """Return a question whose arguments are JSON; those of functions may be anything."""
    written = json.dumps(dict(question.arguments), default=repr)
    return replace(question, arguments=json.loads(written))


def _covers(approved: Question, question: Question) -> bool:
    """Tell whether an approval for a session holds for another question of it."""
    return all(getattr(approved, name) == getattr(question, name) for name in _LASTING)


def _answer_of(kept: KeptQuestion) -> Answer:
    if kept.answer is not None:
        reason = kept.answer.reason
        if not kept.answer.yes and not reason:
            reason = f"it was denied by {kept.answered_by}"
        return replace(kept.answer, reason=reason)
    if kept.state == "expired":
        when = "" if kept.until is None else f" before {_minute(kept.until)}"
        return Answer(yes=False, cause="no_answer", reason=f"nobody answered{when}")
    return _denied("nobody waits for an answer any more")


def _denied(reason: str) -> Answer:
    return Answer(yes=False, cause="no_answer", reason=reason)


def _minute(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def answer_question(store: JobStore, question_id: str, answer: Answer, *, by: str) -> KeptQuestion:
    """Answer a question; it counts if it is the first, in time, and of somebody who may.

    `by` begins with who it is: "user", "caller" or "webhook"; a name may follow. The caller of a
    job that has an owner is that owner.

    Raises:
        NoSuchQuestionError: there is none of this id.
        MayNotAnswerError: the settings do not name this one, or the job is of another owner.
        AlreadyAnsweredError: somebody was first.
        QuestionExpiredError: it is too late, or something else would run now.
    """
    kept = store.questions.get(question_id)
    word, _, name = by.partition(" ")
    is_other = word == "caller" and name != store.get(kept.job).owner
    if word not in kept.who or is_other:
        raise MayNotAnswerError(kept.id, by, kept.who)
    if kept.question.changes and answer.yes and answer.remember != "once":
        raise LastingAnswerError(kept.id, answer.remember)
    return store.questions.answer(kept.id, answer, by=by)


def open_questions(store: JobStore, owner: str | None = None) -> list[KeptQuestion]:
    """Return the questions that somebody can still answer, the oldest first."""
    if not store.exists:
        return []
    store.settle_dead()
    store.questions.expire()
    pending = store.questions.pending()
    return [kept for kept in pending if owner is None or store.get(kept.job).owner == owner]


def this_user() -> str:
    """Return who answers if nobody else is named: the user who runs this process."""
    user = os.geteuid()
    try:
        return f"user {pwd.getpwuid(user).pw_name}"
    except KeyError:
        return f"user {user}"


async def answer_and_go_on(
    store: JobStore, question_id: str, answer: Answer, *, by: str
) -> KeptQuestion:
    """Answer a question, and have its job go on: a job host is started if there is none."""
    kept = await asyncio.to_thread(answer_question, store, question_id, answer, by=by)
    row = await asyncio.to_thread(store.get, kept.job)
    if not row.own and row.state not in FINAL:
        await client_of(store).look()
    return kept


async def begin_answering(
    store: JobStore, job_id: str, approver: Approver, owner: str = ""
) -> None:
    """Let `answer_for` go on in the background, on this loop."""
    client = client_of(store)
    task = asyncio.ensure_future(answer_for(store, job_id, approver, owner=owner))
    client.answering.add(task)
    task.add_done_callback(partial(_forget, client.answering))


def _forget(tasks: "set[asyncio.Task[None]]", task: "asyncio.Task[None]") -> None:
    tasks.discard(task)
    if not task.cancelled() and task.exception() is not None:
        _log.warning("the approver of a caller is asked no more", exc_info=task.exception())


async def answer_for(store: JobStore, job_id: str, approver: Approver, *, owner: str = "") -> None:
    """Let the caller's own approver answer what its job asks, until the job has ended.

    If somebody else answers first, the approver is cancelled. An approver that has nobody to ask,
    or that fails, leaves the question to others.
    """
    by = f"caller {owner}".strip()
    asked: str | None = None
    task: asyncio.Task[None] | None = None
    try:
        while True:
            row = await asyncio.to_thread(store.get, job_id)
            kept = await asyncio.to_thread(store.questions.pending_of, job_id)
            if task is not None and (kept is None or kept.id != asked):
                task.cancel()
                task = None
            if row.state in FINAL:
                return
            if kept is not None and kept.id != asked and "caller" in kept.who:
                asked = kept.id
                task = asyncio.ensure_future(_ask_caller(store, kept, approver, by))
            await client_of(store).changed(row, seconds=_LOOK_SECONDS)
    finally:
        if task is not None:
            task.cancel()


async def _ask_caller(store: JobStore, kept: KeptQuestion, approver: Approver, by: str) -> None:
    left = 365 * _DAY if kept.until is None else kept.until.timestamp() - time.time()
    answer = await ask(approver, kept.question, max(left, 0.0))
    if answer.cause != "answered":
        return
    with suppress(AlreadyAnsweredError, QuestionExpiredError, NoSuchQuestionError):
        await answer_and_go_on(store, kept.id, answer, by=by)


def question_as_dict(kept: KeptQuestion) -> dict[str, Any]:
    """Return everything that somebody needs to decide, as JSON has it."""
    asked = kept.question
    return {
        "id": kept.id,
        "job": kept.job,
        "state": kept.state,
        "tool": asked.tool,
        "skill": asked.skill,
        "runs": asked.runs,
        "arguments": dict(asked.arguments),
        "needs": [{"kind": need.kind, "value": need.value} for need in asked.needs],
        "reasons": list(asked.reasons),
        "digest": asked.digest,
        "session": asked.session,
        "asked_at": kept.asked_at.isoformat(),
        "expires_at": None if kept.until is None else kept.until.isoformat(),
        "answered_by": kept.answered_by,
        "reason": kept.reason,
        "who": list(kept.who),
        "webhook": kept.webhook,
        **({"after_run": True} if kept.after_run else {}),
        **({"changes": [each.facts for each in asked.changes]} if asked.changes else {}),
        **({"diff": asked.diff} if asked.diff else {}),
    }
