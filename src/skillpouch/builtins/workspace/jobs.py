"""Commands that run in the background: starts, shows and ends them, up to a maximum."""

import asyncio
import itertools
import os
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from skillpouch.calls import Settled
from skillpouch.errors import ToolFaultError
from skillpouch.execution.command import Ended
from skillpouch.runtime.loop_thread import run_on_thread

_MOST_KEPT = 64  # ended jobs whose results are kept
_KEEP_BYTES = 100_000

# New files since the last call that other programs may run later.
Made = Callable[[], tuple[str, ...]]
# Settles what it changed, once it has ended; given whether somebody may be asked.
SettleJob = Callable[[bool], Awaitable[Settled]]
Start = Callable[[Callable[[Literal["stdout", "stderr"], bytes], None]], Coroutine[Any, Any, Ended]]


@dataclass(slots=True)
class BackgroundJob:
    """One command; everything here happens on Skillpouch's own loop."""

    id: str
    command: str
    made: Made = tuple
    task: "asyncio.Task[Ended] | None" = None
    owner: int = field(default_factory=os.getpid)
    unread: bytearray = field(default_factory=bytearray)
    left_out: int = 0
    settled: Settled | None = None  # what became of its changes, until somebody was told

    async def run(self, run: Start, settle: SettleJob | None) -> Ended:
        """Run to the end, however that comes, and settle what was changed.

        If it is cancelled, with its session perhaps, nobody is asked: what a rule asks about is
        kept.
        """
        may_ask = True
        try:
            return await run(self.take)
        except asyncio.CancelledError:
            may_ask = False
            raise
        finally:
            if settle is not None:
                self.settled = await settle(may_ask)

    def take(self, _: Literal["stdout", "stderr"], piece: bytes) -> None:
        """Keep the end of the output that was not read yet."""
        self.unread += piece
        too_much = len(self.unread) - _KEEP_BYTES
        if too_much > 0:
            del self.unread[:too_much]
            self.left_out += too_much

    @property
    def is_running(self) -> bool:
        return self.task is not None and not self.task.done() and self.owner == os.getpid()


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A job at one moment: `text` is what it wrote since the last look."""

    id: str
    command: str
    is_running: bool
    text: str
    exit_code: int | None = None
    outcome: str = ""
    run_later: tuple[str, ...] = ()
    settled: Settled | None = None


class Jobs:
    """The jobs of one session. They end with it, however it ends."""

    def __init__(self, *, most: int, seconds: float) -> None:
        self.most = most
        self.seconds = seconds
        self._jobs: dict[str, BackgroundJob] = {}
        self._numbers = itertools.count(1)
        # A function, not a method: the finalizer must not keep this object alive.
        self._finalizer = weakref.finalize(self, _end_all, self._jobs)

    async def start(
        self, command: str, run: Start, made: Made = tuple, settle: SettleJob | None = None
    ) -> str:
        """Start a command and return the id of its job."""
        return await run_on_thread(self._start(command, run, made, settle))

    async def look(self, job_id: str, wait_seconds: float) -> Look:
        """Return the new output; wait for the end of the job, at most `wait_seconds`."""
        return await run_on_thread(self._look(job_id, wait_seconds))

    async def end(self, job_id: str) -> Look:
        """End a job and everything it started."""
        return await run_on_thread(self._end(job_id))

    def close(self) -> None:
        """End all of them."""
        _end_all(self._jobs)

    async def end_all(self) -> None:
        """End all of them, and return when nothing they started is alive."""
        await run_on_thread(self._end_each())

    async def _end_each(self) -> None:
        for job_id in [job.id for job in self._jobs.values() if job.is_running]:
            await self._end(job_id)

    async def _start(self, command: str, run: Start, made: Made, settle: SettleJob | None) -> str:
        running = [job.id for job in self._jobs.values() if job.is_running]
        if len(running) >= self.most:
            hint = f"end one of them: {', '.join(running)}"
            raise ToolFaultError("conflict", f"{self.most} jobs are running already", hint=hint)
        self._forget_old()
        job = BackgroundJob(f"job-{next(self._numbers)}", command, made)
        job.task = asyncio.get_running_loop().create_task(job.run(run, settle))
        job.task.add_done_callback(_notice)
        self._jobs[job.id] = job
        return job.id

    async def _look(self, job_id: str, wait_seconds: float) -> Look:
        job = self._get(job_id)
        if job.is_running and job.task is not None and wait_seconds:
            await asyncio.wait([job.task], timeout=wait_seconds)
        return _look_at(job)

    async def _end(self, job_id: str) -> Look:
        job = self._get(job_id)
        if job.is_running and job.task is not None:
            job.task.cancel()
            await asyncio.wait([job.task])
        return _look_at(job)

    def _get(self, job_id: str) -> BackgroundJob:
        job = self._jobs.get(job_id)
        if job is None or job.owner != os.getpid():
            known = ", ".join(self._jobs) or "none"
            raise ToolFaultError(
                "not_found", f"there is no job {job_id!r}", hint=f"there are: {known}"
            )
        return job

    def _forget_old(self) -> None:
        over = [job.id for job in self._jobs.values() if not job.is_running]
        for job_id in over[: max(0, len(over) - _MOST_KEPT)]:
            del self._jobs[job_id]


def _look_at(job: BackgroundJob) -> Look:
    text = job.unread.decode("utf-8", "replace")
    if job.left_out:
        text = f"[... {job.left_out:,} bytes left out ...]\n{text}"
    job.unread.clear()
    job.left_out = 0
    running = job.is_running or job.task is None
    look = Look(id=job.id, command=job.command, is_running=running, text=text, run_later=job.made())
    if running or job.task is None:
        return look
    exit_code, outcome = _ending(job.task)
    settled, job.settled = job.settled, None
    return replace(look, exit_code=exit_code, outcome=outcome, settled=settled)


def _ending(task: "asyncio.Task[Ended]") -> tuple[int | None, str]:
    if task.cancelled():
        return None, "cancelled"
    error = task.exception()
    if error is not None:
        return None, f"could not be run: {error}"
    ended = task.result()
    return ended.exit_code, ended.outcome


def _notice(task: "asyncio.Task[Ended]") -> None:
    """Retrieve the error, so that asyncio does not log it when nobody asks for it."""
    if not task.cancelled():
        task.exception()


def _end_all(jobs: dict[str, BackgroundJob]) -> None:
    for job in jobs.values():
        task = job.task
        if task is not None and job.is_running and not task.get_loop().is_closed():
            task.get_loop().call_soon_threadsafe(task.cancel)
