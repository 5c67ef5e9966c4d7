"""The methods of the gRPC service for jobs, and for the questions that jobs wait with.

Jobs, like sessions, belong to whom they were started by: a client reaches those of its own token.
"""

import asyncio
import math
from typing import TYPE_CHECKING, Any, cast

from skillpouch.calls import owner_here
from skillpouch.errors import SkillpouchError
from skillpouch.jobs.job import FINAL, STATES, Job, JobState, NoSuchJobError
from skillpouch.manager import SkillManager
from skillpouch.policy.approval import Answer
from skillpouch.servers.grpc.messages import (
    approval_message,
    arguments_of,
    job_message,
    progress_message,
    result_message,
    timeout_of,
    writes_of,
)
from skillpouch.servers.grpc.settings import Context
from skillpouch.servers.grpc.statuses import AnswersRefusedError, MessageError, error_message
from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from skillpouch.sessions.manager import SessionManager

if TYPE_CHECKING:
    from skillpouch.jobs.job import KeptQuestion
    from skillpouch.results import Progress

_USUAL_JOBS, _MOST_JOBS = 100, 1_000
_LONGEST_CHUNK = 64 * 1024  # well below the 4 MiB that clients take in one message


class JobService:
    """Answers requests about jobs. Whoever calls it turns what it raises into a gRPC status."""

    def __init__(self, manager: SkillManager, sessions: SessionManager) -> None:
        self._manager = manager
        self._sessions = sessions
        self.answers = False  # whether clients may approve what their jobs ask

    async def start_tool(
        self, request: pb.StartToolRequest, _context: Context
    ) -> pb.StartToolResponse:
        said: dict[str, Any] = {
            "stdin": request.stdin if request.HasField("stdin") else None,
            "timeout": timeout_of(request.timeout_seconds, None),
            "writes": writes_of(request.writes),
            "retries": request.retries,
            "owner": owner_here.get(),
            "key": request.request_id,
        }
        arguments = arguments_of(request.args_json)
        if request.session_id:
            job = await self._sessions.start(request.session_id, request.tool, arguments, **said)
        else:
            job = await self._manager.astart(request.tool, arguments, **said)
        return pb.StartToolResponse(job=await _message(job))

    async def list_jobs(
        self, request: pb.ListJobsRequest, _context: Context
    ) -> pb.ListJobsResponse:
        for state in request.states:
            if state not in STATES:
                raise MessageError("states", f"{state!r:.80} is none of {', '.join(STATES)}")
        found = await self._manager.ajobs(
            state=cast("list[JobState]", list(request.states)) or None,
            session=request.session_id or None,
            owner=owner_here.get(),
            limit=min(request.limit or _USUAL_JOBS, _MOST_JOBS),
        )
        return pb.ListJobsResponse(jobs=[await _message(job) for job in found])

    async def get_job(self, request: pb.GetJobRequest, _context: Context) -> pb.GetJobResponse:
        job = await self._job(request.job_id)
        answer = pb.GetJobResponse(job=await _message(job))
        if answer.job.state in FINAL:
            try:
                answer.result.CopyFrom(result_message(await job.aresult(0)))
            except SkillpouchError as error:
                answer.error.CopyFrom(error_message(error))
        return answer

    async def wait_job(self, request: pb.WaitJobRequest, context: Context) -> None:
        """Write what a job prints and reports until it has ended, then its result."""
        if math.isnan(request.seconds) or request.seconds < 0:
            raise MessageError("seconds", "it is not a number of seconds, zero or more")
        job = await self._job(request.job_id)
        try:
            async with asyncio.timeout(request.seconds or None):
                await _follow(job, request.offset, context)
        except TimeoutError:
            return
        result = result_message(await job.aresult())
        await context.write(pb.WaitJobResponse(result=result))

    async def cancel_job(
        self, request: pb.CancelJobRequest, _context: Context
    ) -> pb.CancelJobResponse:
        job = await self._job(request.job_id)
        await job.acancel()
        return pb.CancelJobResponse(job=await _message(job))

    async def list_approvals(
        self, request: pb.ListApprovalsRequest, _context: Context
    ) -> pb.ListApprovalsResponse:
        found = await self._manager.aapprovals(owner=owner_here.get())
        if request.session_id:
            found = [each for each in found if each.question.session == request.session_id]
        return pb.ListApprovalsResponse(approvals=map(approval_message, found))

    async def answer(self, request: pb.AnswerRequest, _context: Context) -> pb.AnswerResponse:
        if not self.answers:
            raise AnswersRefusedError(request.approval_id)
        if request.remember not in ("", "once", "session"):
            reason = "use 'once' or 'session': what lasts longer is for the owner of the server"
            raise MessageError("remember", reason)
        lasts: Any = request.remember or "once"
        kept = await self._manager.aanswer(
            request.approval_id,
            Answer(yes=request.approve, remember=lasts, reason=request.reason),
            by=f"caller {owner_here.get()}",
        )
        return pb.AnswerResponse(approval=approval_message(kept))

    async def _job(self, job_id: str) -> Job:
        """Return a job of the client; of another's it learns as little as of one that never was."""
        if not job_id:
            raise MessageError("job_id", "which job?")
        job = await self._manager.ajob(job_id)
        if job.owner != owner_here.get():
            raise NoSuchJobError(job_id)
        return job


async def _message(job: Job) -> pb.Job:
    def read() -> pb.Job:
        asked: KeptQuestion | None = job.question if job.state == "waiting_for_approval" else None
        return job_message(job, asked)

    return await asyncio.to_thread(read)


async def _follow(job: Job, offset: int, context: Context) -> None:
    """Write what becomes of a job; that it has ended comes after the last of its output."""
    state: JobState | None = None
    step: Progress | None = None
    async for update in job.follow(offset):
        if update.state != state and update.state not in FINAL:
            state = update.state
            await context.write(pb.WaitJobResponse(job=await _message(job)))
        if update.output:
            begins = update.next_offset - len(update.output)
            await _write(context, update.output, begins, left_out=max(0, begins - offset))
            offset = update.next_offset
        if update.progress is not None and update.progress != step:
            step = update.progress
            await context.write(pb.WaitJobResponse(progress=progress_message(step)))
    await context.write(pb.WaitJobResponse(job=await _message(job)))


async def _write(context: Context, data: bytes, begins: int, *, left_out: int) -> None:
    for start in range(0, len(data), _LONGEST_CHUNK):
        chunk = data[start : start + _LONGEST_CHUNK]
        output = pb.JobOutput(
            data=chunk,
            next_offset=begins + start + len(chunk),
            left_out=0 if start else left_out,
        )
        await context.write(pb.WaitJobResponse(output=output))
