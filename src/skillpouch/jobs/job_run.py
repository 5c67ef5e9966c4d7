"""One run of a job: makes the call, keeps its output, and tells how it ended.

Or of a call that becomes a job while it runs: AdoptableCall.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import nullcontext, suppress
from contextvars import Context, copy_context
from dataclasses import replace
from typing import Any, Literal, Protocol

from skillpouch.calls import OnOutput, OnStep
from skillpouch.errors import CallDeniedError, SkillpouchError
from skillpouch.jobs.host_client import client_of
from skillpouch.jobs.job import Job, JobEnding, JobError, JobFailedError, JobState, NewJob, as_job
from skillpouch.jobs.job_spec import JobCall
from skillpouch.jobs.job_store import JobStore
from skillpouch.jobs.kept_json import error_to_json, result_to_json
from skillpouch.jobs.output_file import HeldOutput, OutputWriter
from skillpouch.jobs.questions import KeptApprover, ThisProcess, begin_answering
from skillpouch.limits import Writes
from skillpouch.policy.approval import Answer, Approver, Question, asking
from skillpouch.results import Progress, ToolResult
from skillpouch.runtime.loop_thread import is_loop_thread, run_on_thread

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


def _nobody_told() -> None:
    """Do nothing: nobody waits for news of this job."""


class ProgressRow:
    """Keeps what a call reports in its row: one write at a time, of the last report."""

    def __init__(self, store: JobStore, job_id: str) -> None:
        self._store = store
        self._job_id = job_id
        self._next: Progress | None = None
        self._writing: asyncio.Task[None] | None = None

    def report(self, progress: Progress, on_change: Callable[[], None] = _nobody_told) -> None:
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
    on_change: Callable[[], None] = _nobody_told,
) -> JobEnding:
    """Make the call of a job, and return how it ended, also if it was cancelled."""

    def keep(_: Literal["stdout", "stderr"], data: bytes) -> None:
        output.write(data)
        on_change()

    made = executor.execute(
        call.tool,
        call.arguments,
        call.stdin,
        timeout=call.timeout,
        on_output=keep,
        on_step=lambda step: progress.report(step, on_change),
        writes=call.writes,  # type: ignore[arg-type]  # checked when the job was started
    )
    return await ending_of(made, call.tool, output, progress)


async def ending_of(
    made: Awaitable[ToolResult],
    tool: str,
    output: OutputWriter | HeldOutput,
    progress: ProgressRow,
) -> JobEnding:
    """Wait for a call, and return how it ended, also if it was cancelled."""
    try:
        result = await made
    except SkillpouchError as error:
        return JobEnding(state="failed", error=error_to_json(error), code=error.code)
    except asyncio.CancelledError:
        return JobEnding(state="cancelled")
    except Exception as error:  # noqa: BLE001 - a job must end, whatever its tool raises
        _log.exception("job %s failed", tool)
        told = JobFailedError("internal", f"{tool} failed: {type(error).__name__}: {error}")
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
    return await watch(store, process, job_id, running, approver)


async def watch(
    store: JobStore,
    process: int,
    job_id: str,
    running: "asyncio.Future[JobEnding]",
    approver: Asking,
) -> JobState:
    """Wait for a job that this process runs, end it if somebody wants that, and keep its end."""
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


Make = Callable[[OnOutput, OnStep], Coroutine[Any, Any, ToolResult]]


class AdoptableCall:
    """A call that runs in this process, and becomes a job once it takes long or asks somebody.

    Until then it is a call like any other, and nothing of it is on the disk. It is made once: to
    become a job is to write a row for what runs already, with its real start, the output so far
    and the last progress. It runs on the loop thread, which outlives the loops of callers.

    With `stays`, no other process could run it. What it asks is denied without `keeps_questions`,
    and left to the job of the same call that `find_waiting` finds.
    """

    def __init__(  # noqa: PLR0913 - most are said by name
        self,
        open_store: Callable[[], JobStore],
        job: NewJob,
        describe: Callable[[], NewJob],
        *,
        stays: bool,
        keeps_questions: bool,
        approver: Approver | None,
        find_waiting: Callable[[], Job | None] | None,
    ) -> None:
        self._open_store = open_store
        self._job = job
        self._describe = describe
        self._stays = stays
        self._keeps_questions = keeps_questions
        self._approver = approver
        self._find_waiting = find_waiting
        self._output = HeldOutput()
        self._last: Progress | None = None
        self._row: ProgressRow | None = None
        self._on_output: OnOutput | None = None
        self._on_step: OnStep | None = None
        self._heard_bytes = 0
        self._asked: asyncio.Future[None] | None = None
        self._context: Context | None = None
        self._call: asyncio.Task[ToolResult] | None = None
        self._adopting: asyncio.Task[KeptApprover] | None = None
        self._watching: asyncio.Task[JobState] | None = None
        self._is_unwanted = False
        self._is_put_off = False

    async def run(
        self, make: Make, on_output: OnOutput | None, on_step: OnStep | None, seconds: float
    ) -> ToolResult | Job | None:
        """Make the call, and return its result or, after so many seconds, the job it has become.

        None if nothing ran, because somebody has to be asked first: the same call waits for that
        already, or a job host can wait longer for it than this process. Whoever is cancelled ends
        the call.
        """
        self._on_output, self._on_step = _relayed(on_output), _relayed(on_step)
        running = asyncio.ensure_future(run_on_thread(self._run(make, seconds)))
        try:
            return await asyncio.shield(running)
        except CallDeniedError as error:
            if not self._is_put_off or error.tool != self._job.tool:
                raise
            return None
        except asyncio.CancelledError:
            ending = asyncio.ensure_future(run_on_thread(self._end()))
            while not (running.done() and ending.done()):
                with suppress(asyncio.CancelledError):  # once is enough
                    await asyncio.wait([running, ending])
            if not running.cancelled():
                running.exception()  # it came too late
            raise

    async def _run(self, make: Make, seconds: float) -> ToolResult | Job:
        if self._is_unwanted:
            raise asyncio.CancelledError
        self._job = replace(self._job, started_ns=time.time_ns())
        self._context = copy_context()  # without the approver of the call
        self._asked = asyncio.get_running_loop().create_future()
        asks = asking(self._ask, seconds=QUESTION_SECONDS)
        with asks if self._keeps_questions else nullcontext():
            call = self._call = asyncio.ensure_future(make(self._hear, self._step))
        either: list[asyncio.Future[Any]] = [call, self._asked]
        await asyncio.wait(either, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if call.done():
            return await call
        try:
            await self._adopted()
        except SkillpouchError as error:  # nobody would find it: its caller waits for its end
            _log.warning("a call of %s cannot go on as a job: %s", self._job.tool, error)
            return await call
        if call.done() and not call.cancelled():
            return replace(await call, job_id=self._job.id)
        store = self._open_store()
        job = Job(await asyncio.to_thread(store.get, self._job.id), store)
        job.heard_bytes = self._heard_bytes
        return job

    async def _end(self) -> None:
        """End the call, with all that it started, and the job that it may have become."""
        self._is_unwanted = True
        if self._call is not None:
            self._call.cancel()
            await asyncio.wait([self._call])
        if self._adopting is not None:
            await asyncio.wait([self._adopting])
        if self._watching is not None:
            await asyncio.wait([self._watching])

    async def _adopted(self) -> KeptApprover:
        """Make a job of it, once; return who keeps what it asks."""
        if self._adopting is None:
            self._adopting = asyncio.create_task(self._adopt(), context=self._context)
        return await asyncio.shield(self._adopting)

    async def _adopt(self) -> KeptApprover:
        store, call = self._open_store(), self._call
        assert call is not None
        client = client_of(store)
        process = await asyncio.to_thread(store.this_process)
        job = replace(self._job, process=process)
        await asyncio.to_thread(store.add, job)
        # Whoever goes on waiting follows the job.
        self._on_output, self._on_step, self._heard_bytes = None, None, self._output.total
        self._output.keep_in(store.output_path(job.id))
        progress = self._row = ProgressRow(store, job.id)
        if self._last is not None:
            progress.report(self._last)
        keeper = KeptApprover(store, process, ThisProcess(), is_shared=False)
        ending = asyncio.ensure_future(ending_of(call, job.tool, self._output, progress))
        client.run_here(job.id, watch(store, process, job.id, ending, keeper))
        self._watching = client.here[job.id]
        if self._approver is not None:
            await begin_answering(store, job.id, self._approver, job.owner)
        return keeper

    async def _ask(self, question: Question) -> Answer:
        """Keep a question; what has not run yet is left to a job host, or to the same call."""
        if question.tool == self._job.tool and not question.changes:
            same = None
            if self._stays and self._find_waiting is not None:
                same = await asyncio.to_thread(self._find_waiting)
            if not self._stays or same is not None:
                self._is_put_off = True
                return Answer(yes=False, cause="no_approver", reason="there is nobody to ask")
            if self._adopting is None:
                described = await asyncio.to_thread(self._describe)
                self._job = replace(self._job, call=described.call)
        if self._asked is not None and not self._asked.done():
            self._asked.set_result(None)
        keeper = await self._adopted()
        with as_job(self._job.id):
            return await keeper(question)

    def _hear(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        self._output.write(data)
        if self._on_output is not None:
            self._on_output(stream, data)

    def _step(self, progress: Progress) -> None:
        self._last = progress
        if self._row is not None:
            self._row.report(progress)
        if self._on_step is not None:
            self._on_step(progress)


def _relayed(listener: Callable[..., None] | None) -> Callable[..., None] | None:
    """Return what the loop thread calls, so that the loop of a caller calls its listener."""
    if listener is None or is_loop_thread():
        return listener
    loop = asyncio.get_running_loop()

    def tell(*heard: Any) -> None:
        with suppress(RuntimeError):  # the loop was closed: nobody listens any more
            loop.call_soon_threadsafe(listener, *heard)

    return tell
