"""Calls that a server answers with a task: asks how it is until it ends, or has it cancelled."""

import asyncio
import logging
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, ClassVar, Literal

import anyio
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, CallToolResult, Request, RequestParams, Result

TASKS = "io.modelcontextprotocol/tasks"

_log = logging.getLogger(__name__)

TaskStatus = Literal["working", "input_required", "completed", "failed", "cancelled"]

# Between two questions: as often as the server asks for, within these bounds.
_SOONEST_SECONDS, _USUAL_SECONDS, _LATEST_SECONDS = 0.05, 1.0, 30.0
_CANCEL_SECONDS = 5.0


class _Task(Result):
    task_id: str
    status: TaskStatus
    status_message: str | None = None
    poll_interval_ms: float | None = None

    @property
    def pause_seconds(self) -> float:
        asked = (self.poll_interval_ms or 0) / 1000 or _USUAL_SECONDS
        return min(max(asked, _SOONEST_SECONDS), _LATEST_SECONDS)


class CreatedTask(_Task):
    """What a server answers a call with that it goes on with."""

    result_type: Literal["task"]


class _TaskNow(_Task):
    result_type: Literal["complete"] = "complete"
    result: dict[str, Any] | None = None
    error: dict[str, Any] | None = None


class _TaskParams(RequestParams):
    task_id: str


class _GetTask(Request[_TaskParams, Literal["tasks/get"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: _TaskParams


class _CancelTask(Request[_TaskParams, Literal["tasks/cancel"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/cancel"] = "tasks/cancel"
    params: _TaskParams


# Who is told how far the call of this context is; the library hands it to no resolver.
progress_here: ContextVar[ProgressFnT | None] = ContextVar("progress_here", default=None)


class TasksOfServers(ClientExtension):
    """Tells servers that they may answer with a task, and waits for such a task.

    The time limit of the call holds for the whole: who stops waiting has the task cancelled.
    """

    identifier = TASKS

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=CreatedTask, resolve=_resolve),)


async def _resolve(created: CreatedTask, context: ClaimContext) -> CallToolResult:
    params = _TaskParams(task_id=created.task_id)
    try:
        return await _ended(created, context.session, _GetTask(params=params))
    except (asyncio.CancelledError, _AsksForInputError):
        await _cancel(context.session, params)
        raise


async def _ended(task: _Task, session: ClientSession, question: _GetTask) -> CallToolResult:
    """Ask until the task has ended, and return or raise what it ended with."""
    while True:
        now = await session.send_request(question, _TaskNow)
        match now.status:
            case "completed":
                return CallToolResult.model_validate(now.result or {}, by_name=False)
            case "failed":
                raise _error_of(now)
            case "cancelled":
                raise MCPError(INTERNAL_ERROR, now.status_message or "the server cancelled it")
            case "input_required":
                raise _AsksForInputError(INTERNAL_ERROR, "it asks for input, and nobody is asked")
            case "working":
                await _tell(now, task)
                task = now
                await asyncio.sleep(now.pause_seconds)


class _AsksForInputError(MCPError):
    """The server wants an answer that Skillpouch does not give."""


def _error_of(task: _TaskNow) -> MCPError:
    error = task.error or {}
    words = error.get("message") or task.status_message or "the server says no more"
    code = error.get("code")
    return MCPError(code if isinstance(code, int) else INTERNAL_ERROR, str(words))


async def _tell(now: _Task, before: _Task) -> None:
    report = progress_here.get()
    if report is not None and now.status_message and now.status_message != before.status_message:
        await report(0.0, None, now.status_message)


async def _cancel(session: ClientSession, params: _TaskParams) -> None:
    with anyio.move_on_after(_CANCEL_SECONDS, shield=True):
        try:
            await session.send_request(_CancelTask(params=params), Result)
        except MCPError as error:
            _log.debug("task %s could not be cancelled: %s", params.task_id, error.message)
