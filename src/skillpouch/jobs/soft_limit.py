"""Waits for a call for a while, then leaves it running as a job: one that it was, or becomes."""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from skillpouch.calls import OnOutput, OnStep
from skillpouch.errors import CallDeniedError, SkillpouchError
from skillpouch.jobs.job import (
    FINAL,
    AlreadyAnsweredError,
    Job,
    KeptQuestion,
    NewJob,
    NoSuchJobError,
    NoSuchQuestionError,
    QuestionExpiredError,
)
from skillpouch.jobs.job_runner import JobRunner, user_jobs
from skillpouch.jobs.questions import answer_and_go_on
from skillpouch.limits import UsualSeconds, Writes
from skillpouch.policy.approval import Answer, Question, ask, asking, is_asked_here
from skillpouch.registry.registry import ToolOverlay, ToolSource
from skillpouch.results import ToolResult, milliseconds
from skillpouch.text import clean
from skillpouch.tools import BuiltIn, Hosted, Tool

_log = logging.getLogger(__name__)

Value = TypeVar("Value")

SOFT_LIMIT_SECONDS = 45.0  # hosts of agents give up on a call after a minute
STILL_RUNNING, WAITING = "still_running", "waiting_for_approval"
JOB_WAIT, JOB_OUTPUT, JOB_CANCEL = "job_wait", "job_output", "job_cancel"

_DAY = 86_400.0
_LONGEST_LINE = 300


class CallsAndJobs(Protocol):
    """The part of a ToolExecutor that calls and jobs need; a session has it, too."""

    @property
    def source(self) -> ToolOverlay: ...
    def job_runner(self) -> JobRunner: ...
    def execute(  # noqa: PLR0913 - as it is
        self,
        name: str,
        args: Any = None,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        on_output: OnOutput | None = None,
        on_step: OnStep | None = None,
        writes: Writes | None = None,
    ) -> Coroutine[Any, Any, ToolResult]: ...
    def astart(  # noqa: PLR0913 - as it is
        self,
        tool: str,
        arguments: Any = None,
        stdin: str | bytes | None = None,
        *,
        timeout: float | None = None,
        writes: Writes | None = None,
        owner: str = "",
        key: str = "",
    ) -> Coroutine[Any, Any, Job]: ...
    def ajob(self, job_id: str) -> Coroutine[Any, Any, Job]: ...
    def beside(self, tools: Iterable[Tool] | ToolSource) -> "CallsAndJobs": ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SoftLimit:
    """How long somebody waits for a call before it is left running as a job.

    After 0 seconds it never is. With `keep_questions`, a call that the policy asks about becomes a
    job that waits for an answer, if there is nobody to ask. `owner` is who makes the call: only
    jobs of the same owner are reached. With `at_once`, a call that may take longer is a job from
    its beginning.
    """

    seconds: float = SOFT_LIMIT_SECONDS
    keep_questions: bool = False
    owner: str = ""
    at_once: bool = False

    @property
    def wait_seconds(self) -> float | None:
        """How long to wait for a job, None for as long as it takes."""
        return self.seconds if self.seconds > 0 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """One call, as `ToolExecutor.execute` takes it, and who hears of it while it runs.

    With a `key`, a call that is made again is the job that it was before.
    """

    tool: str
    arguments: Any = None
    stdin: str | bytes | None = None
    timeout: float | None = None
    writes: Writes | None = None
    on_output: OnOutput | None = None
    on_step: OnStep | None = None
    key: str = ""


async def call_or_job(executor: CallsAndJobs, wanted: Wanted, limit: SoftLimit) -> ToolResult:
    """Make a call; if it takes longer than the soft limit, say so and leave it running.

    The result then has the id of the job, and `code` tells what it waits for. Who is asked about
    calls is asked about this one, too, until the soft limit.
    """
    until = None if limit.wait_seconds is None else time.monotonic() + limit.wait_seconds
    found = await call_or_start(executor, wanted, limit)
    if isinstance(found, ToolResult):
        return found
    async with cancelled_with_us(found):
        is_asked = executor.job_runner().has_approver
        return await wait_or_ask(found, until, wanted, for_answer=is_asked)


async def wait_or_ask(
    job: Job, until: float | None, heard: Wanted, *, for_answer: bool
) -> ToolResult:
    """Wait for a job; let the approver of this block, if there is one, answer what it asks."""
    is_asked = is_asked_here()
    while True:
        rest = None if until is None else max(0.0, until - time.monotonic())
        result = await wait_or_leave(job, rest, heard, for_answer=for_answer and not is_asked)
        if result.code != WAITING or not is_asked or not await _answered_here(job, rest):
            return result


async def _answered_here(job: Job, seconds: float | None) -> bool:
    """Ask the approver of this block what a job asks; False if it has no answer for now."""
    kept = await asyncio.to_thread(lambda: job.question)
    if kept is None:
        return True
    if "caller" not in kept.who:
        return False
    answer = await ask(None, kept.question, _DAY if seconds is None else seconds)
    if answer.cause != "answered":
        return False
    with suppress(AlreadyAnsweredError, QuestionExpiredError, NoSuchQuestionError):
        by = f"caller {job.owner}".strip()
        await answer_and_go_on(user_jobs(), kept.id, answer, by=by)
    return True


@asynccontextmanager
async def cancelled_with_us(job: Job) -> AsyncIterator[None]:
    """Cancel a job whose caller is cancelled before it was told the id: it would be nobody's."""
    try:
        yield
    except asyncio.CancelledError:
        await _cancelled(job)
        raise


async def call_or_start(
    executor: CallsAndJobs, wanted: Wanted, limit: SoftLimit
) -> ToolResult | Job:
    """Return the result of a call that ends within the soft limit, or the job of any other.

    What may take longer is a job from its beginning if its skill or the user says so, since it then
    outlives this process, or if it may be made again with its key. Anything else becomes a job when
    it does take longer, or asks somebody. The same call that waits for approval already is that
    job, and the result says so.
    """
    runner = executor.job_runner()
    is_early = bool(wanted.key) or limit.at_once
    has_approver = runner.has_approver
    joins = limit.keep_questions and not has_approver and not is_early
    long = _may_outlast(executor.source, runner, wanted, limit.seconds)
    describe = partial(_described, runner, wanted, limit.owner)
    found: ToolResult | Job | None = None
    if long is None:
        found = await _called(executor, wanted, limit)
    elif not is_early and (runner.stays_here(long.tool) or long.is_usual):
        keeps = limit.keep_questions or has_approver
        call = runner.adoptable(
            long.tool, limit.owner, describe, keeps_questions=keeps, joins=joins
        )
        make = partial(_made, executor, wanted)
        found = await call.run(make, wanted.on_output, wanted.on_step, limit.seconds)
    elif not limit.keep_questions and not has_approver and not await _is_allowed(runner, wanted):
        found = await _made(executor, wanted)  # it is denied, or says what is wrong with it
    if found is None and joins:
        find = partial(runner.find_waiting, wanted.tool, limit.owner, describe)
        same = await asyncio.to_thread(find)
        found = same and await asyncio.to_thread(left, same)
    return found or await start_job(executor, wanted, limit.owner)


async def _called(executor: CallsAndJobs, wanted: Wanted, limit: SoftLimit) -> ToolResult | None:
    """Make a call; None if it was denied before anything ran, only because nobody is there."""
    if not limit.keep_questions or executor.job_runner().has_approver:
        return await _made(executor, wanted)
    nobody = _Nobody()
    try:
        with asking(nobody):
            return await _made(executor, wanted)
    except CallDeniedError as error:
        if not nobody.stopped(error):
            raise
    return None


def _described(runner: JobRunner, wanted: Wanted, owner: str) -> NewJob:
    return runner.described(*_said(wanted), owner)


async def _is_allowed(runner: JobRunner, wanted: Wanted) -> bool:
    return await runner.is_allowed(*_said(wanted))


def _said(wanted: Wanted) -> tuple[str, Any, str | bytes | None, float | None, Writes | None]:
    return wanted.tool, wanted.arguments, wanted.stdin, wanted.timeout, wanted.writes


class _Long(NamedTuple):
    """A tool whose call may take long; `is_usual`: nobody says that it does."""

    tool: Tool
    is_usual: bool


def _may_outlast(
    source: ToolOverlay, runner: JobRunner, wanted: Wanted, seconds: float
) -> _Long | None:
    """Return the tool of a call that may take longer than some seconds."""
    if seconds <= 0:
        return None
    try:
        tool = source.get(wanted.tool)
        most = runner.time_limit(tool, wanted.arguments, wanted.timeout)
    except SkillpouchError:
        return None  # a wrong caller: the call itself says what is wrong
    if most <= seconds or ends_soon(tool, wanted.arguments):
        return None
    return _Long(tool, isinstance(most, UsualSeconds) and not most.declared)


async def _made(
    executor: CallsAndJobs,
    wanted: Wanted,
    on_output: OnOutput | None = None,
    on_step: OnStep | None = None,
) -> ToolResult:
    return await executor.execute(
        wanted.tool,
        wanted.arguments,
        wanted.stdin,
        timeout=wanted.timeout,
        on_output=on_output or wanted.on_output,
        on_step=on_step or wanted.on_step,
        writes=wanted.writes,
    )


async def start_job(executor: CallsAndJobs, wanted: Wanted, owner: str) -> Job:
    """Start a call as a job; if whoever wants it is cancelled meanwhile, so is the job."""
    # The approver of a block is asked by those who wait inside it, and not after it has ended.
    with asking(_Nobody()) if is_asked_here() else nullcontext():
        starting = asyncio.ensure_future(
            executor.astart(
                wanted.tool,
                wanted.arguments,
                wanted.stdin,
                timeout=wanted.timeout,
                writes=wanted.writes,
                owner=owner,
                key=wanted.key,
            )
        )
    try:
        return await asyncio.shield(starting)
    except asyncio.CancelledError:
        # It may be on the disk already: a caller that has left wants nothing to run.
        with suppress(SkillpouchError):
            await _cancelled(await _to_its_end(starting))
        raise


async def _cancelled(job: Job) -> None:
    try:
        await _to_its_end(asyncio.ensure_future(job.acancel()))
    except SkillpouchError:
        _log.warning("job %s could not be cancelled", job.id, exc_info=True)


async def _to_its_end(task: "asyncio.Future[Value]") -> Value:
    """Wait for a task; whoever waits is cancelled already, and once is enough."""
    while not task.done():
        with suppress(asyncio.CancelledError):
            await asyncio.wait([task])
    return task.result()


class _Nobody:
    """Is asked where there is nobody to ask, and remembers the questions."""

    def __init__(self) -> None:
        self._questions: list[Question] = []

    async def __call__(self, question: Question) -> Answer:
        self._questions.append(question)
        return Answer(yes=False, cause="no_approver", reason="there is nobody to ask")

    def stopped(self, error: CallDeniedError) -> bool:
        """Tell whether a call was denied before anything ran, only because nobody was there."""
        asked = self._questions[-1] if self._questions else None
        return asked is not None and asked.tool == error.tool and not asked.changes


async def wait_or_leave(
    job: Job, seconds: float | None, heard: Wanted | None = None, *, for_answer: bool = False
) -> ToolResult:
    """Return what a job ended with, or after some seconds, that it goes on.

    One that waits for approval is left at once, unless it is waited `for_answer`. If the waiter is
    cancelled, the job goes on. Raises what the call raised.
    """
    try:
        async with asyncio.timeout(seconds):
            async for update in job.follow(job.heard_bytes):
                if update.state in FINAL:
                    break
                job.heard_bytes = update.next_offset
                if heard is not None and heard.on_output is not None and update.output:
                    heard.on_output("stdout", update.output)
                if heard is not None and heard.on_step is not None and update.progress:
                    heard.on_step(update.progress)
                if update.state == "waiting_for_approval" and not for_answer:
                    waiting = await asyncio.to_thread(left, job)
                    if waiting.code == WAITING:  # otherwise it was answered just now
                        return waiting
    except TimeoutError:
        return await asyncio.to_thread(left, job)
    return replace(await job.aresult(), job_id=job.id)


def is_left(result: ToolResult) -> bool:
    """Tell whether a result only says that its call goes on as a job."""
    return bool(result.job_id) and result.code in (STILL_RUNNING, WAITING)


def left(job: Job) -> ToolResult:
    """Return the answer that a call goes on, with the id of its job and what to do next."""
    question = job.question
    waits = question is not None and question.state == "pending"
    words = _waits(job, question) if question and waits else _runs(job)
    return ToolResult(
        tool=job.tool,
        outcome="ok",
        content=words,
        stdout=f"{words}\n",
        code=WAITING if waits else STILL_RUNNING,
        job_id=job.id,
        duration_ms=milliseconds(time.time() - job.created_at.timestamp()),
    )


def _runs(job: Job) -> str:
    progress = job.progress
    far = "" if progress is None else f" ({progress})"
    return (
        f"{job.tool} has not ended yet; it goes on as job {job.id}{far}.\n"
        f"Use {JOB_WAIT} with this id to wait for its result, {JOB_OUTPUT} to read what it has "
        f"printed so far, {JOB_CANCEL} to end it. Do not call {job.tool} again for the same: it "
        "would run twice."
    )


def _waits(job: Job, kept: KeptQuestion) -> str:
    reasons = "; ".join(kept.question.reasons) or "the policy asks for approval"
    return (
        f"{job.tool} waits for the user's approval, as job {job.id}: {clean(reasons)}\n"
        f"It would run: {clean(kept.question.runs)[:_LONGEST_LINE]}\n"
        f"Only the user can allow it: tell them to run `skillpouch approve {kept.id}`, or "
        f"`skillpouch deny {kept.id}`. Then use {JOB_WAIT} with the id of the job to wait for its "
        f"result, or {JOB_CANCEL} to do without it."
    )


def is_job_tool(tool: Tool) -> bool:
    """Tell whether a tool is one of these three: they never become jobs themselves."""
    return isinstance(tool.runs, Hosted) and tool.id in _IDS


_IDS = frozenset(f"skillpouch.{name}" for name in (JOB_WAIT, JOB_OUTPUT, JOB_CANCEL))


def ends_soon(tool: Tool, arguments: Any) -> bool:
    """Tell whether a call ends at once whatever its limit: it only starts or asks for something."""
    if is_job_tool(tool):
        return True
    in_background = isinstance(arguments, dict) and arguments.get("background") is True
    return isinstance(tool.runs, BuiltIn) and in_background


async def own_job(
    executor: CallsAndJobs, job_id: str, owner: str, session: str | None = None
) -> Job:
    """Return a job; raise NoSuchJobError for one of another owner, or of another session."""
    job = await executor.ajob(job_id)
    if job.owner != owner or (session is not None and job.session != session):
        raise NoSuchJobError(job_id)
    return job
