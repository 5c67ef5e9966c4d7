"""Job: the handle of a call that was started and left, its states, and the errors of jobs."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Literal, get_args

from skillpouch.errors import SkillpouchError
from skillpouch.policy.approval import ANSWERERS, Answer, Answerer, Question
from skillpouch.results import Progress, ToolResult

if TYPE_CHECKING:
    from skillpouch.jobs.job_store import JobStore

JobState = Literal[
    "queued", "waiting_for_approval", "running", "done", "failed", "cancelled", "lost"
]
STATES: tuple[JobState, ...] = get_args(JobState)
FINAL: tuple[JobState, ...] = ("done", "failed", "cancelled", "lost")
OUTPUT_BYTES = 65_536


class JobError(SkillpouchError):
    """The base class of the errors of jobs."""

    code = "job"


class NoSuchJobError(JobError):
    code = "no_such_job"

    def __init__(self, job_id: str) -> None:
        self.job_id = job_id
        super().__init__(
            f"no job {job_id!r:.80}",
            hint="`skillpouch jobs` lists those that are kept: results are removed after a while",
        )


class JobLostError(JobError):
    """Nobody knows how far the call came: its process died, and it is never run again."""

    code = "job_lost"

    def __init__(self, job_id: str, tool: str, reason: str = "") -> None:
        self.job_id = job_id
        self.tool = tool
        why = reason or "the process that ran it has ended"
        super().__init__(
            f"job {job_id} ({tool}) is lost: {why}",
            hint=f"see what it did first: `skillpouch jobs output {job_id}`; it may have done part "
            "of its work",
        )


class JobCancelledError(JobError):
    code = "job_cancelled"

    def __init__(self, job_id: str, tool: str) -> None:
        self.job_id = job_id
        self.tool = tool
        super().__init__(f"job {job_id} ({tool}) was cancelled")


class JobTimeoutError(JobError, TimeoutError):
    """The job has not ended yet; it goes on."""

    code = "job_timeout"

    def __init__(self, job_id: str, seconds: float, state: str) -> None:
        self.job_id = job_id
        self.seconds = seconds
        self.state = state
        super().__init__(
            f"job {job_id} is {state} after {seconds:g} s of waiting",
            hint=f"wait again: `skillpouch jobs wait {job_id}`",
        )


class JobQueueFullError(JobError):
    """Too many jobs wait; `retry_after` are the seconds after which to try again."""

    code = "queue_full"

    def __init__(self, most: int, retry_after: float) -> None:
        self.most = most
        self.retry_after = retry_after
        super().__init__(
            f"{most:,} jobs wait already",
            hint=f"try again after {retry_after:g} s, or raise `queued` of `[jobs]` in policy.toml",
        )


class JobStoreError(JobError):
    """The file that jobs are kept in cannot be used."""

    code = "job_store"

    def __init__(self, path: Path | None, reason: str, *, hint: str = "") -> None:
        self.path = path
        where = path or "the file of jobs"
        super().__init__(f"{where} cannot be used: {reason}", hint=hint)


class JobHostError(JobError):
    """The process that runs jobs cannot be reached or started."""

    code = "job_host"

    def __init__(self, reason: str, *, hint: str = "") -> None:
        self.reason = reason
        super().__init__(f"the job host cannot be used: {reason}", hint=hint)


class NotIdempotentError(JobError):
    """Retries were asked for of a tool that may only run once."""

    code = "not_idempotent"

    def __init__(self, tool: str) -> None:
        self.tool = tool
        super().__init__(
            f"{tool} cannot be retried: its skill does not declare that it only reads",
            hint='start it without retries, or declare `effects: ["read"]` for it if that is true',
        )


class JobFailedError(JobError):
    """An error of a job whose class does not exist here; it has the code of the original."""

    code = "job_failed"

    def __init__(self, code: str, message: str, *, hint: str = "") -> None:
        self.code = code  # type: ignore[misc]  # of one error, not of the class
        super().__init__(message, hint=hint)


class NoSuchQuestionError(JobError):
    code = "no_such_question"

    def __init__(self, question_id: str) -> None:
        self.question_id = question_id
        super().__init__(
            f"no question {question_id!r:.80}", hint="`skillpouch approvals` lists open ones"
        )


class AmbiguousIdError(JobError):
    """More than one id begins so."""

    code = "ambiguous_id"

    def __init__(self, beginning: str, found: Sequence[str]) -> None:
        self.beginning = beginning
        super().__init__(
            f"more than one id begins with {beginning!r:.80}", hint=f"say more: {', '.join(found)}"
        )


class AlreadyAnsweredError(JobError):
    """The first answer counts."""

    code = "already_answered"

    def __init__(self, question_id: str, state: str, by: str) -> None:
        self.question_id = question_id
        self.state = state
        self.by = by
        super().__init__(
            f"question {question_id} is already {state}{f', by {by}' if by else ''}",
            hint=f"the first answer counts: `skillpouch approvals show {question_id}`",
        )


class QuestionExpiredError(JobError):
    """It was answered too late, or what it asked about is no longer what would run."""

    code = "question_expired"

    def __init__(self, question_id: str, state: str) -> None:
        self.question_id = question_id
        self.state = state
        steps = {
            "expired": "start the call again, which asks again",
            "outdated": "something else would run now, or its job has ended: `skillpouch approvals`"
            " lists what waits",
        }
        super().__init__(
            f"question {question_id} is {state}: an answer to it counts for nothing",
            hint=steps.get(state, ""),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOutput:
    """Bytes that a call wrote to stdout and stderr, as they came, without secrets.

    `data` begins at `offset`: later than asked for if `left_out` bytes before it are not kept.
    Ask for `next_offset` next; with `is_final` and no data there is no more.
    """

    data: bytes
    offset: int
    next_offset: int
    left_out: int = 0
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobUpdate:
    """What changed while a job is followed: its state, new output, and its progress."""

    state: JobState
    output: bytes = b""
    next_offset: int = 0
    progress: Progress | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnding:
    """How a job ended: with a result or an error, as JSON; with neither, if it was cancelled."""

    state: JobState
    result: str | None = None
    error: str | None = None
    code: str = ""  # of the error


QuestionState = Literal["pending", "approved", "denied", "expired", "outdated"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptQuestion:
    """A question that waits for an answer, or had one; `until` is when it expires.

    With `after_run`, some of the call has run: the question is whether its changes may arrive, or
    a call that a script of tools makes. `who` may answer it; `webhook` is what became of sending
    it, "" without a webhook.
    """

    id: str
    job: str
    question: Question
    asked_at: datetime
    until: datetime | None
    state: QuestionState
    answered_by: str = ""
    reason: str = ""
    answer: Answer | None = None
    after_run: bool = False
    who: tuple[Answerer, ...] = ANSWERERS
    webhook: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job before it has a row. `setup` and `call` are what a job host makes the call from.

    A `process` runs it itself: no job host takes it, and it begins at once. Without `started_ns`
    that is now; a call that becomes a job while it runs has begun before.
    """

    id: str
    tool: str
    setup: str = ""
    setup_hash: str = ""
    call: str = ""
    session: str = ""
    owner: str = ""
    retries: int = 0
    process: int | None = None
    started_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """A job as it is on disk. `process` runs it, or None; `cancelling`: somebody wants its end.

    With `own`, the process that started it runs it itself, and no job host.
    """

    id: str
    tool: str
    session: str
    owner: str
    state: JobState
    created_ns: int
    started_ns: int | None = None
    ended_ns: int | None = None
    process: int | None = None
    own: bool = False
    attempts: int = 0
    retries: int = 0
    cancelling: bool = False
    progress: Progress | None = None


def new_job_id() -> str:
    """Return an id that nobody can guess."""
    return f"j{token_hex(16)}"


def queued_row(job: NewJob, created_ns: int) -> JobRow:
    """Return the row that a new job has until a host takes it."""
    return JobRow(
        id=job.id,
        tool=job.tool,
        session=job.session,
        owner=job.owner,
        state="queued",
        created_ns=created_ns,
        retries=job.retries,
    )


# The job that this code runs for: the approver keeps its question with it.
running_job: ContextVar[str] = ContextVar("skillpouch_running_job", default="")


@contextmanager
def as_job(job_id: str) -> Iterator[None]:
    """Let calls inside this block belong to a job."""
    token = running_job.set(job_id)
    try:
        yield
    finally:
        running_job.reset(token)


def time_of(nanoseconds: int | None) -> datetime | None:
    """Return a time of the store, None if it is not set."""
    return None if nanoseconds is None else datetime.fromtimestamp(nanoseconds / 1e9, UTC)


class Job:
    """A call that was started and left. It goes on when the process that started it ends.

    `id` cannot be guessed: whoever has it can wait for the job, read it and cancel it. `owner` is
    who made it, if an entry point says so; "" is the user.
    """

    def __init__(self, row: JobRow, store: "JobStore") -> None:
        self._row = row
        self._store = store
        # How many bytes of its output whoever waits with this handle has heard already.
        self.heard_bytes = 0

    @property
    def id(self) -> str:
        return self._row.id

    @property
    def tool(self) -> str:
        """The id of the tool."""
        return self._row.tool

    @property
    def session(self) -> str:
        """The session that the call belongs to, "" without one."""
        return self._row.session

    @property
    def owner(self) -> str:
        return self._row.owner

    @property
    def created_at(self) -> datetime:
        return datetime.fromtimestamp(self._row.created_ns / 1e9, UTC)

    @property
    def started_at(self) -> datetime | None:
        """When it began to run, None if it has not."""
        return time_of(self._now().started_ns)

    @property
    def ended_at(self) -> datetime | None:
        """When it ended, None if it has not."""
        return time_of(self._now().ended_ns)

    @property
    def state(self) -> JobState:
        """Its state now."""
        return self._now().state

    @property
    def is_final(self) -> bool:
        """Whether it has ended: `done`, `failed`, `cancelled` or `lost`."""
        return self.state in FINAL

    @property
    def progress(self) -> Progress | None:
        """What the tool last reported, None if it reported nothing."""
        return self._now().progress

    @property
    def question(self) -> KeptQuestion | None:
        """What it waits for an answer to, None if it does not."""
        return self._store.questions.pending_of(self.id)

    @property
    def runs_here(self) -> bool:
        """Whether it runs in the process that started it, and ends with it."""
        return self._row.own

    def _now(self) -> JobRow:
        if self._row.state not in FINAL:  # what has ended does not change
            self._row = self._store.get(self.id)
        return self._row

    def result(self, timeout: float | None = None) -> ToolResult:
        """Wait until it has ended, for `timeout` seconds at most, and return its result.

        Raises:
            JobTimeoutError: it has not ended yet, and goes on.
            JobLostError: its process died; nobody knows how far it came.
            JobCancelledError: it was cancelled.
            SkillpouchError: what the call raised, as a direct call would have.
        """
        from skillpouch.runtime.loop_thread import run_blocking

        return run_blocking(self.aresult(timeout))

    async def aresult(self, timeout: float | None = None) -> ToolResult:
        """Do what `result` does, without blocking the event loop."""
        from asyncio import to_thread

        from skillpouch.jobs.host_client import client_of

        ending = await client_of(self._store).wait(self.id, timeout)
        if ending.result is None:
            return await to_thread(self._store.result, self.id)
        from skillpouch.jobs.kept_json import result_from_json

        return result_from_json(ending.result)

    def output(self, offset: int = 0, *, most_bytes: int = OUTPUT_BYTES) -> JobOutput:
        """Return what it has written so far, from an offset; the next one is in the answer."""
        return self._store.output(self.id, offset, most_bytes=most_bytes)

    async def follow(self, offset: int = 0) -> AsyncIterator[JobUpdate]:
        """Yield what it writes and reports, and its states, until it has ended."""
        from skillpouch.jobs.host_client import client_of

        async for update in client_of(self._store).follow(self.id, offset):
            yield update

    def cancel(self) -> JobState:
        """Have it ended, with everything that it started; return its state after that."""
        from skillpouch.runtime.loop_thread import run_blocking

        return run_blocking(self.acancel())

    async def acancel(self) -> JobState:
        """Do what `cancel` does, without blocking the event loop."""
        from skillpouch.jobs.host_client import client_of

        return await client_of(self._store).cancel(self.id)

    def __repr__(self) -> str:
        return f"Job(id={self.id!r}, tool={self.tool!r}, state={self._row.state!r})"
