"""A call over MCP: its progress, its result, its output schema."""

import asyncio
import codecs
import math
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, suppress
from typing import Any, Literal, Self

from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolRequestParams, CallToolResult

from skillpouch.errors import SkillpouchError, UnknownToolError
from skillpouch.results import Progress, ToolResult
from skillpouch.servers.admission import Admission
from skillpouch.servers.faults import fault_of
from skillpouch.servers.lifecycle import run_to_its_end
from skillpouch.servers.mcp.results import Links, as_mcp, error_as_mcp
from skillpouch.servers.mcp.settings import Context, is_modern
from skillpouch.servers.mcp.snapshot import ServedTools
from skillpouch.servers.metrics import Metrics
from skillpouch.text import clean
from skillpouch.tools import Tool

Report = Callable[[float, float | None, str | None], Awaitable[None]]

_PAUSE_SECONDS = 0.1
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

    How far that is says the tool; otherwise it is how many bytes were printed. `heard` and
    `stepped` never wait: what comes faster than it is sent is told of by the next report.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
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
            await self._news.wait()
            self._news.clear()
            step = self._step or Progress(float(self._bytes))
            numbers = self._numbers.next(step.done, step.total)
            await self._report(*numbers, self._line or None)
            await asyncio.sleep(_PAUSE_SECONDS)


# What a model cannot correct by writing its call differently is an error of the protocol.
_CODES = {"not_found": INVALID_PARAMS, "busy": INTERNAL_ERROR, "stopping": INTERNAL_ERROR}


class ToolCallHandler:
    """Answers `tools/call` from what is offered; `changed` is called when a call changed that."""

    def __init__(
        self,
        offer: ServedTools,
        admission: Admission,
        links: Links,
        metrics: Metrics,
        changed: Callable[[], Awaitable[None]],
    ) -> None:
        self._offer = offer
        self._changed = changed
        self._admission = admission
        self._links = links
        self._metrics = metrics

    async def answer(self, context: Context, params: CallToolRequestParams) -> CallToolResult:
        """Run a tool. What it did wrong is a result; a tool that there is not, an error."""
        started = time.monotonic()
        tool = None
        try:
            tool = self._tool(params.name)
            async with self._admission.admitted():
                result = await self._run(context, tool, params.arguments or {})
        except SkillpouchError as error:
            fault = fault_of(error)
            self._metrics.refused(fault)
            if fault in _CODES:
                words = self._links.error_words(error, tool)
                raise MCPError(_CODES[fault], words, {"code": error.code}) from None
            return error_as_mcp(error, self._links, tool)
        self._metrics.ended(result.outcome, time.monotonic() - started)
        if self._offer.is_stale:  # it made a tool, or took one away
            await self._changed()
        return as_mcp(tool, result, self._links, modern=is_modern(context))

    def _tool(self, name: str) -> Tool:
        tool = self._offer.find(name)
        if tool is None:
            tools = self._offer.now.tools
            raise UnknownToolError(name, known=tools, count=len(tools))
        return tool

    async def _run(self, context: Context, tool: Tool, arguments: dict[str, Any]) -> ToolResult:
        async with AsyncExitStack() as stack:
            heard = stepped = None
            if progress_token_from_params(context.params) is not None:
                progress = ProgressReports(context.session.report_progress)
                await stack.enter_async_context(progress)
                heard, stepped = progress.heard, progress.stepped
            return await run_to_its_end(self._offer.call(tool, arguments, heard, stepped))
