"""`tools/call`: one call through the spine, with progress, until it ends or is cancelled."""

import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import progress_token_from_params
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS, CallToolRequestParams, CallToolResult

from skillpouch.errors import SkillpouchError, UnknownToolError
from skillpouch.results import ToolResult
from skillpouch.servers.admission import Admission
from skillpouch.servers.cancelling import run_to_its_end
from skillpouch.servers.faults import fault_of
from skillpouch.servers.mcp.eras import Context, is_modern
from skillpouch.servers.mcp.links import Links
from skillpouch.servers.mcp.offer import Offer
from skillpouch.servers.mcp.progress import Progress
from skillpouch.servers.mcp.results import as_mcp, error_as_mcp
from skillpouch.servers.metrics import Metrics
from skillpouch.tools import Tool

# What a model cannot mend by writing its call differently is an error of the protocol.
_CODES = {"not_found": INVALID_PARAMS, "busy": INTERNAL_ERROR, "stopping": INTERNAL_ERROR}


class Calls:
    """Answers `tools/call` from what is offered; `changed` is called when a call changed that."""

    def __init__(
        self,
        offer: Offer,
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
            heard = None
            if progress_token_from_params(context.params) is not None:
                progress = Progress(context.session.report_progress)
                heard = (await stack.enter_async_context(progress)).heard
            return await run_to_its_end(self._offer.call(tool, arguments, heard))
