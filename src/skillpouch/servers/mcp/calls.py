"""A call over MCP: its progress, its result, and what becomes of it if it takes long or asks."""

import asyncio
import codecs
import logging
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Literal, Self

from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    ElicitRequest,
    ElicitResult,
    InputRequiredResult,
)

from skillpouch.calls import owner_here
from skillpouch.errors import SkillpouchError, UnknownToolError
from skillpouch.jobs.job import (
    Job,
    JobCancelledError,
    JobError,
    JobLostError,
    KeptQuestion,
)
from skillpouch.jobs.soft_limit import (
    WAITING,
    SoftLimit,
    Wanted,
    call_or_start,
    cancelled_with_us,
    is_left,
    left,
    wait_or_leave,
)
from skillpouch.policy.approval import Answer
from skillpouch.results import Progress, ToolResult
from skillpouch.servers.admission import Admission
from skillpouch.servers.faults import fault_of
from skillpouch.servers.lifecycle import run_to_its_end
from skillpouch.servers.mcp.results import Links, as_mcp, error_as_mcp
from skillpouch.servers.mcp.settings import Context, LongCalls, is_modern, owner_of
from skillpouch.servers.mcp.snapshot import ServedTools
from skillpouch.servers.mcp.tasks import (
    JobsOfClients,
    TaskMethods,
    answer_of,
    can_ask,
    form_of,
    may_ask,
    takes_tasks,
)
from skillpouch.servers.metrics import Metrics
from skillpouch.text import clean
from skillpouch.tools import Hosted, Tool

_log = logging.getLogger(__name__)

# A call that may take long and ends within this time is answered; others become tasks.
_AT_ONCE_SECONDS = 1.0


Report = Callable[[float, float | None, str | None], Awaitable[None]]

_PAUSE_SECONDS = 0.1
_SILENCE_SECONDS = 5.0  # some clients give up on a call that they do not hear of
_LONGEST_LINE = 500
_MOST_SCALED = 1e15  # below it, whole numbers are still exact


class GrowingNumbers:
    """Numbers for a client, each larger than the last one sent, as the protocol demands it.

    A tool may begin again, or report steps after its bytes were counted. Then `done` and `total`
    are both multiplied, so that their ratio stays right.
    """

    def __init__(self) -> None:
        self._sent = -1.0
        self._factor = 1.0
        self._total: float | None = None
        self._last: tuple[float, float | None] | None = None

    def next(self, done: float, total: float | None) -> tuple[float, float | None]:
        """Return what is sent for `done` of `total`."""
        factor, is_new = self._factor, (done, total) != self._last
        while is_new and 0 < done * factor <= self._sent and factor < _MOST_SCALED:
            factor *= 10
        if done * factor > self._sent:
            self._factor, self._sent = factor, done * factor
            self._total = None if total is None else total * factor
        else:
            self._sent = math.nextafter(self._sent, math.inf)
            self._total = None if is_new else self._total  # no ratio would be right
        self._last = (done, total)
        return self._sent, self._total


class ProgressReports:
    """Sends how far a call is and the last line, while inside.

    How far that is says the tool; otherwise it is how many bytes were printed. Of a silent call it
    sends now and then how long it has run. `heard` and `stepped` never wait: what comes faster
    than it is sent is told of by the next report.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._started = time.monotonic()
        self._numbers = GrowingNumbers()
        self._step: Progress | None = None
        self._bytes = 0
        self._decoders = {
            stream: codecs.getincrementaldecoder("utf-8")("replace")
            for stream in ("stdout", "stderr")
        }
        self._line = ""
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def heard(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Take a piece of output."""
        self._bytes += len(data)
        lines = self._decoders[stream].decode(data)[-4 * _LONGEST_LINE :].split("\n")
        said = [line.strip() for line in lines if line.strip()]
        if said:
            self._line = clean(said[-1])[-_LONGEST_LINE:]
        self._news.set()

    def stepped(self, progress: Progress) -> None:
        """Take what the tool reports itself."""
        self._step = progress
        self._line = progress.message or self._line
        self._news.set()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._send())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _send(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(_SILENCE_SECONDS):
                    await self._news.wait()
            is_silent = not self._news.is_set()
            self._news.clear()
            step = self._step or Progress(float(self._bytes))
            numbers = self._numbers.next(step.done, step.total)
            ran = f"runs for {time.monotonic() - self._started:.0f} s"
            await self._report(*numbers, ran if is_silent else self._line or None)
            await asyncio.sleep(_PAUSE_SECONDS)


# What a model cannot correct by writing its call differently is an error of the protocol.
_CODES = {"not_found": INVALID_PARAMS, "busy": INTERNAL_ERROR, "stopping": INTERNAL_ERROR}

# Whether the person at the client of the call that runs here is asked.
asks_here: ContextVar[bool] = ContextVar("asks_here", default=False)

Answered = CallToolResult | InputRequiredResult | dict[str, Any]


class ToolCallHandler:
    """Answers `tools/call` from what is offered; `changed` is called when a call changed that."""

    def __init__(
        self,
        offer: ServedTools,
        admission: Admission,
        links: Links,
        metrics: Metrics,
        long_calls: LongCalls,
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        self._offer = offer
        self._changed = changed
        self._admission = admission
        self._links = links
        self._metrics = metrics
        self._long_calls = long_calls
        self._asks_client = long_calls.asks_client(is_elsewhere=links.is_elsewhere)
        jobs = JobsOfClients(offer.executor.ajob, self._answer, self._result_of, self._asks_client)
        self.tasks = TaskMethods(jobs)

    async def answer(self, context: Context, params: CallToolRequestParams) -> Answered:
        """Run a tool. What it did wrong is a result; a tool that there is not, an error."""
        started = time.monotonic()
        tool = None
        owner_here.set(owner_of(context))  # each request has a context of its own
        asks_here.set(self._asks(context))
        try:
            tool = self._tool(params.name)
            async with self._admission.admitted():
                result = await self._run(context, tool, params)
        except SkillpouchError as error:
            self._metrics.refused(fault_of(error))
            return self._refusal(error, tool)
        if not isinstance(result, ToolResult):
            return result
        self._metrics.ended(result.outcome, time.monotonic() - started)
        is_news = is_left(result) and self._offer.offer_jobs()
        if is_news or self._offer.is_stale:  # it made a tool, or took one away
            await self._changed()
        return as_mcp(tool, result, self._links, modern=is_modern(context))

    def _refusal(self, error: SkillpouchError, tool: Tool | None) -> CallToolResult:
        fault = fault_of(error)
        is_about_job = tool is not None and isinstance(error, JobError)
        if fault in _CODES and not is_about_job:
            words = self._links.error_words(error, tool)
            raise MCPError(_CODES[fault], words, {"code": error.code}) from None
        return error_as_mcp(error, self._links, tool)

    def _tool(self, name: str) -> Tool:
        tool = self._offer.find(name)
        if tool is None:
            tools = self._offer.now.tools
            raise UnknownToolError(name, known=tools, count=len(tools))
        return tool

    async def _run(
        self, context: Context, tool: Tool, params: CallToolRequestParams
    ) -> ToolResult | InputRequiredResult | dict[str, Any]:
        wanted = Wanted(tool=tool.id, arguments=params.arguments or {})
        async with AsyncExitStack() as stack:
            if progress_token_from_params(context.params) is not None:
                reports = ProgressReports(context.session.report_progress)
                await stack.enter_async_context(reports)
                wanted = replace(wanted, on_output=reports.heard, on_step=reports.stepped)
            return await run_to_its_end(self._called(context, tool, params, wanted))

    async def _called(
        self, context: Context, tool: Tool, params: CallToolRequestParams, wanted: Wanted
    ) -> ToolResult | InputRequiredResult | dict[str, Any]:
        limit = SoftLimit(
            seconds=self._long_calls.soft_limit_seconds,
            keep_questions=self._long_calls.keeps_questions,
            owner=owner_of(context),
            at_once=takes_tasks(context),
        )
        until = None if limit.wait_seconds is None else time.monotonic() + limit.wait_seconds
        if params.request_state is not None:
            resumed = await self._resumed(context, tool, params)
            if isinstance(resumed, ToolResult):
                return resumed
            return await self._waited(context, resumed, wanted, until)
        found = await call_or_start(self._offer.executor_of(tool), wanted, limit)
        if isinstance(found, ToolResult):
            if found.code != WAITING or not found.job_id or not asks_here.get():
                return found
            # The model waits for a job, and the person at the client can be asked about it.
            job = await self._offer.executor.ajob(found.job_id)
            return await self._waited(context, job, wanted, until)
        async with cancelled_with_us(found):
            if not takes_tasks(context):
                return await self._waited(context, found, wanted, until)
            result = await wait_or_leave(found, _AT_ONCE_SECONDS, wanted)
            return await self.tasks.created(context, found) if is_left(result) else result

    async def _waited(
        self, context: Context, job: Job, wanted: Wanted, until: float | None
    ) -> ToolResult | InputRequiredResult:
        """Wait for a job until the soft limit; ask the person at the client what it asks."""
        while True:
            rest = None if until is None else max(0.0, until - time.monotonic())
            result = await wait_or_leave(job, rest, wanted)
            if result.code != WAITING or not is_left(result) or not self._asks(context):
                return result
            kept = await asyncio.to_thread(lambda: job.question)
            if kept is None:
                continue
            if not may_ask(kept):
                return result
            if is_modern(context):
                form = ElicitRequest(params=form_of(kept))
                return InputRequiredResult(input_requests={kept.id: form}, request_state=job.id)
            if not await self._asked(context, job, kept, rest):
                return await asyncio.to_thread(left, job)

    def _asks(self, context: Context) -> bool:
        return self._asks_client and can_ask(context)

    async def _resumed(
        self, context: Context, tool: Tool, params: CallToolRequestParams
    ) -> Job | ToolResult:
        """Return the job of a call that is made again with what it asked for."""
        try:
            job = await self._offer.executor.ajob(params.request_state or "")
        except JobError:
            job = None
        if job is None or job.owner != owner_of(context) or job.tool != tool.id:
            raise MCPError(INVALID_PARAMS, "no call waits for these answers")
        kept = await asyncio.to_thread(lambda: job.question)
        told = None if kept is None else (params.input_responses or {}).get(kept.id)
        if kept is None or not isinstance(told, ElicitResult):
            return job
        answer = answer_of(told) if self._asks(context) and may_ask(kept) else None
        if answer is None:
            return await asyncio.to_thread(left, job)
        await self._answer(kept.id, answer, job.owner)
        return job

    async def _answer(self, question_id: str, answer: Answer, owner: str) -> None:
        """Answer a question for the person at a client; if somebody was first, theirs counts."""
        try:
            await self._offer.executor.aanswer(question_id, answer, by=f"caller {owner}")
        except JobError as error:
            _log.info("an answer of a client counts for nothing: %s", error)

    async def _asked(
        self, context: Context, job: Job, kept: KeptQuestion, seconds: float | None
    ) -> bool:
        """Show a form, until somebody answers here or elsewhere; False if nobody does."""
        form = form_of(kept)
        asking = asyncio.ensure_future(
            context.session.elicit_form(
                form.message, form.requested_schema, related_request_id=context.request_id
            )
        )
        elsewhere = asyncio.ensure_future(_answered_elsewhere(job))
        try:
            await asyncio.wait(
                [asking, elsewhere], timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if not asking.done():
                return elsewhere.done()
            answer = answer_of(asking.result())
        except MCPError as error:
            _log.info("the client could not be asked: %s", error.error.message)
            return False
        finally:
            for task in (asking, elsewhere):
                task.cancel()
            await asyncio.gather(asking, elsewhere, return_exceptions=True)
        if answer is None:
            return False
        await self._answer(kept.id, answer, job.owner)
        return True

    async def _result_of(self, context: Context, job: Job) -> dict[str, Any]:
        """Return what a job ended with as a direct call would have been answered."""
        tool = self._offer.find(job.tool) or _gone(job.tool)
        try:
            result = await job.aresult()
        except (JobLostError, JobCancelledError):
            raise
        except SkillpouchError as error:
            wire = self._refusal(error, tool)
        else:
            wire = as_mcp(tool, result, self._links, modern=is_modern(context))
        return wire.model_dump(by_alias=True, mode="json", exclude_none=True)


async def _answered_elsewhere(job: Job) -> None:
    async for update in job.follow():
        if update.state != "waiting_for_approval":
            return


async def _nothing(_: object) -> ToolResult:
    raise UnknownToolError("", known=())


def _gone(tool_id: str) -> Tool:
    """Return a stand-in for the tool of a job that is no longer offered."""
    runs = Hosted(what=tool_id, run=_nothing)
    return Tool(id=tool_id, name=tool_id, skill="", description="", input_schema={}, runs=runs)
