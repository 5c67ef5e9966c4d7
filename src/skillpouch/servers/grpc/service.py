"""The methods of the gRPC service, over sessions and the executor."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from skillpouch.calls import owner_here
from skillpouch.errors import SkillpouchError
from skillpouch.manager import SkillManager
from skillpouch.problems import Problem
from skillpouch.results import Progress
from skillpouch.servers.admission import Admission
from skillpouch.servers.faults import fault_of
from skillpouch.servers.grpc.messages import (
    arguments_of,
    kept_message,
    problem_message,
    progress_message,
    result_message,
    script_message,
    text_of,
    timeout_of,
    tool_message,
    writes_of,
)
from skillpouch.servers.grpc.settings import Context, GrpcLimits
from skillpouch.servers.grpc.statuses import CallCancelledError, CallIdInUseError, MessageError
from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from skillpouch.servers.grpc.v1.skillpouch_pb2 import OutputChunk
from skillpouch.servers.metrics import Metrics
from skillpouch.sessions.manager import SessionManager
from skillpouch.shell.responses import ToolResponse

if TYPE_CHECKING:
    from skillpouch.results import ToolResult


# Well below the 4 MiB that clients take in one message; small pieces are put together.
_LONGEST_CHUNK = 64 * 1024
_STREAMS = {"stdout": OutputChunk.STREAM_STDOUT, "stderr": OutputChunk.STREAM_STDERR}


class Output:
    """Keeps up to `most_bytes` for a client that reads slowly; what is dropped is counted.

    The tool never waits for its reader: a client that stops reading would keep it alive.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._chunks: deque[OutputChunk] = deque()
        self._bytes = 0
        self._dropped = 0
        self._step: Progress | None = None
        self._news = asyncio.Event()
        self._closed = False

    def stepped(self, progress: Progress) -> None:
        """Take what the tool reports; one that is not sent yet is replaced."""
        self._step = progress
        self._news.set()

    def heard(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Take a piece of output; never waits."""
        for start in range(0, len(data), _LONGEST_CHUNK):
            self._add(_STREAMS[stream], data[start : start + _LONGEST_CHUNK])
        self._news.set()

    def close(self) -> None:
        """Say that nothing more comes."""
        self._closed = True
        self._news.set()

    async def next(self) -> OutputChunk | Progress | None:
        """Return the next chunk or report; None when there are no more."""
        while not self._chunks and self._step is None and not self._closed:
            self._news.clear()
            await self._news.wait()
        if self._step is not None:
            step, self._step = self._step, None
            return step
        if self._chunks:
            chunk = self._chunks.popleft()
            self._bytes -= len(chunk.data)
            return chunk
        dropped, self._dropped = self._dropped, 0
        return OutputChunk(dropped_bytes=dropped) if dropped else None

    def _add(self, stream: "OutputChunk.Stream", data: bytes) -> None:
        if self._bytes + len(data) > self._most_bytes:
            self._dropped += len(data)
            return
        self._bytes += len(data)
        last = self._chunks[-1] if self._chunks else None
        fits = last is not None and len(last.data) + len(data) <= _LONGEST_CHUNK
        if last is not None and fits and last.stream == stream and not self._dropped:
            last.data += data
            return
        self._chunks.append(OutputChunk(stream=stream, data=data, dropped_bytes=self._dropped))
        self._dropped = 0


class Places:
    """Admits calls. A session that has none running or waiting is forgotten."""

    def __init__(self, admission: Admission, limits: GrpcLimits) -> None:
        self._admission = admission
        self._limits = limits
        self._sessions: dict[str, Admission] = {}

    @asynccontextmanager
    async def taken(self, session: str) -> AsyncIterator[None]:
        """Wait for a place of the session, then for one of the server, and hold both.

        Raises what `Admission.admitted` raises. Calls without a session share one allowance.
        """
        own = self._sessions.get(session) or self._sessions.setdefault(session, self._new())
        try:
            async with own.admitted(), self._admission.admitted():
                yield
        finally:
            if not own.running and not own.waiting and self._sessions.get(session) is own:
                del self._sessions[session]

    def _new(self) -> Admission:
        return Admission(
            most_running=self._limits.most_running_per_session,
            most_waiting=self._limits.most_waiting_per_session,
        )


Value = TypeVar("Value")


class RunningCalls:
    """Runs calls. Belongs to the event loop of its server. A client can name its own only."""

    def __init__(self) -> None:
        self._named: dict[tuple[str, str, str], asyncio.Task[Any]] = {}
        self._all: set[asyncio.Task[Any]] = set()

    async def run(self, session: str, call_id: str, coroutine: Coroutine[Any, Any, Value]) -> Value:
        """Run a call to its end. A client that goes away ends it; nothing of it is left then.

        Raises:
            CallIdInUseError: one of that name runs in the session.
            CallCancelledError: `cancel` was asked for it.
        """
        key = owner_here.get(), session, call_id
        if key in self._named:
            coroutine.close()
            raise CallIdInUseError(call_id)
        task = asyncio.ensure_future(coroutine)
        self._all.add(task)
        if call_id:
            self._named[key] = task
        try:
            return await _ended(task)
        finally:
            self._all.discard(task)
            if call_id:
                del self._named[key]

    async def cancel(self, session: str, call_id: str) -> bool:
        """End a call, and return when it has ended; False when there is none of that name."""
        task = self._named.get((owner_here.get(), session, call_id))
        if task is None:
            return False
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    async def cancel_all(self) -> None:
        """End every call, and return when they have ended."""
        for task in self._all:
            task.cancel()
        if self._all:
            await asyncio.wait(self._all)


async def _ended(task: "asyncio.Task[Value]") -> Value:
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is None or not current.cancelling():
            raise CallCancelledError from None
        task.cancel()
        while not task.done():
            # Whoever cancels again would leave a call behind whose processes are being ended.
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        raise


async def run_script(
    manager: SkillManager,
    sessions: SessionManager,
    request: pb.RunScriptRequest,
    timeout: float | None,
) -> ToolResponse:
    """Run a script; it ends when its session does."""
    # Here: the engine of scripts is another extra.
    from skillpouch.shell.scripted_tool import ScriptedTool

    # One for each script: a worker that served one session never serves another.
    tool = ScriptedTool.over(
        sessions.session(request.session_id) if request.session_id else manager
    )
    try:
        return await tool.execute(
            request.script,
            files=dict(request.files),
            timeout=timeout,
            dry_run=request.dry_run,
        )
    finally:
        await asyncio.to_thread(tool.close)


CallRequest = pb.ExecuteToolRequest | pb.StreamToolRequest

_USUAL_PAGE, _LARGEST_PAGE = 100, 1_000


class Service:
    """Answers requests. Whoever calls it turns what it raises into a gRPC status."""

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
        made = await self._sessions.create_session(
            request.session_id, environment=dict(request.environment), owner=owner_here.get()
        )
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
            raise MessageError("page_size", "it cannot be negative")
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
            result = await self._call(request, context, output)
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

    async def list_changes(
        self, request: pb.ListChangesRequest, _context: Context
    ) -> pb.ListChangesResponse:
        if request.session_id:
            kept = await self._sessions.changes(request.session_id)
        else:
            kept = await self._manager.achanges()
        return pb.ListChangesResponse(calls=map(kept_message, kept))

    async def diff_call(
        self, request: pb.DiffCallRequest, _context: Context
    ) -> pb.DiffCallResponse:
        call, path = _named(request), request.path or None
        if request.session_id:
            text = await self._sessions.diff(request.session_id, call, path=path)
        else:
            text = await self._manager.adiff(call, path=path)
        return pb.DiffCallResponse(diff=text_of(text))

    async def apply_call(
        self, request: pb.ApplyCallRequest, _context: Context
    ) -> pb.ApplyCallResponse:
        call, session = _named_or_all(request), request.session_id
        paths, earlier = request.paths, request.earlier
        async with self._places.taken(session):
            if session:
                result = await self._sessions.apply(session, call, paths, earlier=earlier)
            else:
                result = await self._manager.aapply(call, paths, earlier=earlier)
        return pb.ApplyCallResponse(result=result_message(result))

    async def discard_call(
        self, request: pb.DiscardCallRequest, _context: Context
    ) -> pb.DiscardCallResponse:
        call, session = _named_or_all(request), request.session_id
        if session:
            result = await self._sessions.discard(session, call)
        else:
            result = await self._manager.adiscard(call)
        return pb.DiscardCallResponse(result=result_message(result))

    async def undo_calls(
        self, request: pb.UndoCallsRequest, _context: Context
    ) -> pb.UndoCallsResponse:
        session, call = request.session_id, request.kept_id or None
        if call and (request.calls or request.whole_session):
            raise MessageError("kept_id", "it cannot be given with calls or whole_session")
        if request.whole_session and not session:
            raise MessageError("session_id", "which session?")
        said: dict[str, Any] = {"calls": request.calls or None, "paths": request.paths}
        async with self._places.taken(session):
            if session:
                whole = request.whole_session
                result = await self._sessions.undo(session, call, everything=whole, **said)
            else:
                result = await self._manager.aundo(call, **said)
        return pb.UndoCallsResponse(result=result_message(result))

    async def _call(
        self, request: CallRequest, context: Context, output: Output | None
    ) -> "ToolResult":
        timeout = timeout_of(request.timeout_seconds, context.time_remaining())
        arguments = arguments_of(request.args_json)
        options: dict[str, Any] = {
            "stdin": request.stdin if request.HasField("stdin") else None,
            "timeout": timeout,
            "on_output": output and output.heard,
            "on_step": output and output.stepped,
            "writes": writes_of(request.writes),
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


def _named(request: pb.DiffCallRequest | pb.ApplyCallRequest | pb.DiscardCallRequest) -> str:
    if not request.kept_id:
        raise MessageError("kept_id", "which call?")
    return request.kept_id


def _named_or_all(request: pb.ApplyCallRequest | pb.DiscardCallRequest) -> str | None:
    if not request.whole_session:
        return _named(request)
    if request.kept_id:
        raise MessageError("kept_id", "it cannot be given with whole_session")
    if not request.session_id:
        raise MessageError("session_id", "which session?")
    return None


async def _write(output: Output, context: Context) -> None:
    while (news := await output.next()) is not None:
        if isinstance(news, Progress):
            await context.write(pb.StreamToolResponse(progress=progress_message(news)))
        else:
            await context.write(pb.StreamToolResponse(output=news))
