"""`skillpouch.v1.Skillpouch`: each method of the service, over sessions and the executor."""

import asyncio
import time
from typing import TYPE_CHECKING, Any

import grpc

from skillpouch.calls import OnOutput
from skillpouch.errors import SkillpouchError
from skillpouch.manager import SkillManager
from skillpouch.problems import Problem
from skillpouch.servers.faults import fault_of
from skillpouch.servers.grpc.errors import MessageError
from skillpouch.servers.grpc.messages import (
    arguments_of,
    problem_message,
    result_message,
    script_message,
    timeout_of,
    tool_message,
)
from skillpouch.servers.grpc.output import Output
from skillpouch.servers.grpc.places import Places
from skillpouch.servers.grpc.running import RunningCalls
from skillpouch.servers.grpc.scripts import run_script
from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from skillpouch.servers.metrics import Metrics

if TYPE_CHECKING:
    from skillpouch.results import ToolResult
    from skillpouch.sessions.manager import SessionManager

Context = grpc.aio.ServicerContext[Any, Any]
CallRequest = pb.ExecuteToolRequest | pb.StreamToolRequest

_USUAL_PAGE, _LARGEST_PAGE = 100, 1_000


class Service:
    """Answers requests. What it raises is told to the client by whoever calls it."""

    def __init__(
        self,
        manager: SkillManager,
        sessions: "SessionManager",
        places: Places,
        metrics: Metrics,
        most_unread_bytes: int,
    ) -> None:
        self._manager = manager
        self._sessions = sessions
        self._places = places
        self._metrics = metrics
        self._most_unread_bytes = most_unread_bytes
        self.running = RunningCalls()

    async def create_session(
        self, request: pb.CreateSessionRequest, _context: Context
    ) -> pb.CreateSessionResponse:
        environment = dict(request.environment)
        made = await self._sessions.create_session(request.session_id, environment=environment)
        return pb.CreateSessionResponse(session_id=made)

    async def destroy_session(
        self, request: pb.DestroySessionRequest, _context: Context
    ) -> pb.DestroySessionResponse:
        await self._sessions.destroy_session(request.session_id)
        return pb.DestroySessionResponse()

    async def use_skill(
        self, request: pb.UseSkillRequest, _context: Context
    ) -> pb.UseSkillResponse:
        names = await self._sessions.use_skill(
            request.session_id, request.skill_name, request.skill_content
        )
        noticed = await self._sessions.problems(request.session_id, request.skill_name)
        return pb.UseSkillResponse(tool_names=names, problems=self._messages_of(noticed))

    async def remove_skill(
        self, request: pb.RemoveSkillRequest, _context: Context
    ) -> pb.RemoveSkillResponse:
        removed = await self._sessions.remove_skill(request.session_id, request.skill_name)
        return pb.RemoveSkillResponse(removed_tools=removed)

    async def list_active_skills(
        self, request: pb.ListActiveSkillsRequest, _context: Context
    ) -> pb.ListActiveSkillsResponse:
        names = await self._sessions.list_active_skills(request.session_id)
        return pb.ListActiveSkillsResponse(skill_names=names)

    async def list_problems(
        self, request: pb.ListProblemsRequest, _context: Context
    ) -> pb.ListProblemsResponse:
        if request.session_id:
            noticed = await self._sessions.problems(request.session_id)
        else:
            noticed = await asyncio.to_thread(lambda: self._manager.problems)
        return pb.ListProblemsResponse(problems=self._messages_of(noticed))

    def _messages_of(self, problems: list[Problem]) -> list[pb.Problem]:
        return [problem_message(problem, self._manager.roots) for problem in problems]

    async def list_tools(
        self, request: pb.ListToolsRequest, _context: Context
    ) -> pb.ListToolsResponse:
        """List a page of tools by id; the last id of a page is where the next one begins."""
        if request.page_size < 0:
            raise MessageError("page_size", "a page has no less than nothing")
        size = min(request.page_size or _USUAL_PAGE, _LARGEST_PAGE)
        if request.session_id:
            tools = await self._sessions.tools(request.session_id)
        else:
            tools = await asyncio.to_thread(lambda: self._manager.tools)
        left = sorted((t for t in tools if t.id > request.page_token), key=lambda tool: tool.id)
        following = left[size - 1].id if len(left) > size else ""
        page = [tool_message(tool) for tool in left[:size]]
        return pb.ListToolsResponse(tools=page, next_page_token=following)

    async def execute_tool(
        self, request: pb.ExecuteToolRequest, context: Context
    ) -> pb.ExecuteToolResponse:
        result = await self._call(request, context, None)
        return pb.ExecuteToolResponse(result=result_message(result))

    async def stream_tool(self, request: pb.StreamToolRequest, context: Context) -> None:
        """Write what a tool prints while it runs, then its result."""
        output = Output(self._most_unread_bytes)
        writing = asyncio.create_task(_write(output, context))
        try:
            result = await self._call(request, context, output.heard)
            output.close()
            await writing
        finally:
            writing.cancel()
        await context.write(pb.StreamToolResponse(result=result_message(result)))

    async def run_script(
        self, request: pb.RunScriptRequest, context: Context
    ) -> pb.RunScriptResponse:
        timeout = timeout_of(request.timeout_seconds, context.time_remaining())

        async def run() -> pb.RunScriptResponse:
            async with self._places.taken(request.session_id):
                started = time.monotonic()
                response = await run_script(self._manager, self._sessions, request, timeout)
            self._metrics.ended(f"script_{response.status}", time.monotonic() - started)
            return script_message(response)

        answer: pb.RunScriptResponse = await self._counted(request, run())
        return answer

    async def cancel(self, request: pb.CancelRequest, _context: Context) -> pb.CancelResponse:
        if not request.call_id:
            raise MessageError("call_id", "which call?")
        ended = await self.running.cancel(request.session_id, request.call_id)
        return pb.CancelResponse(cancelled=ended)

    async def _call(
        self, request: CallRequest, context: Context, on_output: OnOutput | None
    ) -> "ToolResult":
        timeout = timeout_of(request.timeout_seconds, context.time_remaining())
        arguments = arguments_of(request.args_json)
        options: dict[str, Any] = {
            "stdin": request.stdin if request.HasField("stdin") else None,
            "timeout": timeout,
            "on_output": on_output,
        }

        async def run() -> "ToolResult":
            async with self._places.taken(request.session_id):
                started = time.monotonic()
                result = await self._execute(request, arguments, options)
            self._metrics.ended(result.outcome, time.monotonic() - started)
            return result

        result: ToolResult = await self._counted(request, run())
        return result

    async def _execute(
        self, request: CallRequest, arguments: Any, options: dict[str, Any]
    ) -> "ToolResult":
        if request.session_id:
            return await self._sessions.execute(
                request.session_id, request.tool, arguments, **options
            )
        return await self._manager.acall(request.tool, arguments, **options)

    async def _counted(self, request: CallRequest | pb.RunScriptRequest, call: Any) -> Any:
        try:
            return await self.running.run(request.session_id, request.call_id, call)
        except SkillpouchError as error:
            self._metrics.refused(fault_of(error))
            raise


async def _write(output: Output, context: Context) -> None:
    while (chunk := await output.next()) is not None:
        await context.write(pb.StreamToolResponse(output=chunk))
