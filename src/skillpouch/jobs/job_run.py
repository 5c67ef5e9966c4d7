"""One run of a job: makes the call, keeps its output, and tells how it ended."""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, Protocol

from skillpouch.calls import OnOutput, OnStep
from skillpouch.errors import SkillpouchError
from skillpouch.jobs.job import JobEnding, JobError, JobFailedError, JobState
from skillpouch.jobs.job_spec import JobCall
from skillpouch.jobs.job_store import JobStore
from skillpouch.jobs.kept_json import error_to_json, result_to_json
from skillpouch.jobs.output_file import OutputWriter
from skillpouch.limits import Writes
from skillpouch.policy.approval import Answer, Question, asking
from skillpouch.results import Progress, ToolResult

_log = logging.getLogger(__name__)
_LOOK_SECONDS = 0.5
QUESTION_SECONDS = 1_000 * 86_400.0  # longer than any question is kept


class JobSkillChangedError(JobError):
    """The files of a skill are not those for which the job was started; nothing ran."""

    code = "job_skill_changed"

    def __init__(self, job_id: str, tool: str) -> None:
        self.job_id = job_id
        self.tool = tool
        super().__init__(
            f"{tool} changed after job {job_id} was started, so it was not run",
            hint="look at the change, and start it again",
        )


class JobSecretsGoneError(JobError):
    """What the caller sent of secrets is in the memory of one job host only; nothing ran."""

    code = "job_secrets_gone"

    def __init__(self, job_id: str, tool: str, names: Sequence[str]) -> None:
        self.job_id = job_id
        self.tool = tool
        self.names = tuple(names)
        super().__init__(
            f"job {job_id} ({tool}) was not run: the job host that was given {', '.join(names)} has"
            " ended, and the next one does not have it",
            hint="start the call again, where the secret is known",
        )


class Executing(Protocol):
    """What makes calls: a ToolExecutor."""

    def execute(  # noqa: PLR0913 - as an executor takes them
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


class ProgressRow:
    """Keeps what a call reports in its row: one write at a time, of the last report."""

    def __init__(self, store: JobStore, job_id: str) -> None:
        self._store = store
        self._job_id = job_id
        self._next: Progress | None = None
        self._writing: asyncio.Task[None] | None = None

    def report(self, progress: Progress, on_change: Callable[[], None]) -> None:
        """Take a report; never waits."""
        self._next = progress
        if self._writing is None or self._writing.done():
            self._writing = asyncio.ensure_future(self._write(on_change))

    async def _write(self, on_change: Callable[[], None]) -> None:
        while (progress := self._next) is not None:
            self._next = None
            try:
                await asyncio.to_thread(self._store.report, self._job_id, progress)
            except SkillpouchError as error:  # the call matters more than what it says of itself
                _log.warning("the progress of job %s is lost: %s", self._job_id, error)
            on_change()

    async def close(self) -> None:
        """Wait until the last report is written."""
        if self._writing is not None:
            await self._writing


async def run_call(
    executor: Executing,
    call: JobCall,
    output: OutputWriter,
    progress: ProgressRow,
    on_change: Callable[[], None] = lambda: None,
) -> JobEnding:
    """Make the call of a job, and return how it ended, also if it was cancelled."""

    def keep(_: Literal["stdout", "stderr"], data: bytes) -> None:
        output.write(data)
        on_change()

    try:
        result = await executor.execute(
            call.tool,
            call.arguments,
            call.stdin,
            timeout=call.timeout,
            on_output=keep,
            on_step=lambda step: progress.report(step, on_change),
            writes=call.writes,  # type: ignore[arg-type]  # checked when the job was started
        )
    except SkillpouchError as error:
        return JobEnding(state="failed", error=error_to_json(error), code=error.code)
    except asyncio.CancelledError:
        return JobEnding(state="cancelled")
    except Exception as error:  # noqa: BLE001 - a job must end, whatever its tool raises
        _log.exception("job %s failed", call.tool)
        told = JobFailedError("internal", f"{call.tool} failed: {type(error).__name__}: {error}")
        return JobEnding(state="failed", error=error_to_json(told))
    finally:
        output.close()
        await progress.close()
    state: JobState = "done" if result.outcome == "ok" else "failed"
    return JobEnding(state=state, result=result_to_json(result))


class Asking(Protocol):
    """Who is asked about the calls of a job, and looks for answers now and then."""

    async def __call__(self, question: Question, /) -> Answer: ...
    async def look(self) -> None: ...


async def run_here(
    store: JobStore,
    process: int,
    job_id: str,
    executor: Executing,
    call: JobCall,
    approver: Asking,
) -> JobState:
    """Run a job in this process, with a row like any other; it ends with the process."""
    output = OutputWriter(store.output_path(job_id))
    with as_job(job_id), asking(approver, seconds=QUESTION_SECONDS):
        running = asyncio.ensure_future(
            run_call(executor, call, output, ProgressRow(store, job_id))
        )
    try:
        while not running.done():
            await asyncio.wait([running], timeout=_LOOK_SECONDS)
            # Another process may want its end, or has answered: it has no other way to say so.
            await approver.look()
            if not running.done() and (await asyncio.to_thread(store.get, job_id)).cancelling:
                running.cancel()
    except asyncio.CancelledError:
        running.cancel()
    ending = await running
    await asyncio.to_thread(
        store.finish, job_id, process, ending.state, result=ending.result, error=ending.error
    )
    return ending.state
