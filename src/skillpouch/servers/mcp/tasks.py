"""Tasks of MCP (SEP-2663): a call that goes on, asked about until it ends; forms for approvals."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import MCP_NAME_HEADER, decode_header_value
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    ElicitRequestFormParams,
    ElicitResult,
    Notification,
    RequestParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)
from pydantic import ValidationError

from skillpouch.errors import PolicyFileError, SkillpouchError
from skillpouch.jobs.job import FINAL, Job, JobCancelledError, JobError, KeptQuestion
from skillpouch.policy.approval import Answer
from skillpouch.policy.limit_rules import JobBounds
from skillpouch.policy.loading import read_job_bounds
from skillpouch.policy.terminal import described
from skillpouch.servers.mcp.settings import Context, is_modern, owner_of

TASKS = "io.modelcontextprotocol/tasks"

_MOST_LETTERS = 4_000
_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "approve": {
            "type": "boolean",
            "title": "Allow this call",
            "description": "Only this one call; it is asked again for the next one.",
            "default": False,
        }
    },
    "required": ["approve"],
}


def takes_tasks(context: Context) -> bool:
    """Tell whether the client declared on this very request that it knows tasks."""
    return is_modern(context) and TASKS in (_declared(context).get("extensions") or {})


def can_ask(context: Context) -> bool:
    """Tell whether the client can show a form to the person who uses it."""
    if is_modern(context):
        told = _declared(context).get("elicitation")
        return isinstance(told, dict) and ("form" in told or "url" not in told)
    capabilities = context.session.client_capabilities
    told = None if capabilities is None else capabilities.elicitation
    return told is not None and (told.form is not None or told.url is None)


def _declared(context: Context) -> dict[str, Any]:
    """Return the capabilities in the envelope of a request of the protocol without a handshake."""
    meta = (context.params or {}).get("_meta")
    found = meta.get(CLIENT_CAPABILITIES_META_KEY) if isinstance(meta, dict) else None
    return found if isinstance(found, dict) else {}


def may_ask(kept: KeptQuestion) -> bool:
    """Tell whether the settings of the user let the caller of a job answer its question."""
    return "caller" in kept.who


def form_of(kept: KeptQuestion) -> ElicitRequestFormParams:
    """Return what a person is shown: exactly what would run, why it asks, and what it needs."""
    text = described(kept.question)
    if len(text) > _MOST_LETTERS:
        text = f"{text[:_MOST_LETTERS]}… (shortened)"
    return ElicitRequestFormParams(message=text, requested_schema=_SCHEMA)


def answer_of(result: ElicitResult) -> Answer | None:
    """Return what a person decided, None for a form that was closed without a decision.

    A client that has nobody to ask closes it, too: the question stays open for others.
    """
    if result.action == "decline":
        return Answer(yes=False, reason="the user of the client declined")
    said = (result.content or {}).get("approve") if result.action == "accept" else None
    if not isinstance(said, bool):
        return None
    return Answer(yes=said, reason="" if said else "the user of the client said no")


_DAY_SECONDS = 86_400
_SOONEST_MS, _LATEST_MS = 500, 5_000
_MOST_IDS = 100
_ENDED = {"done": "completed", "failed": "completed", "cancelled": "cancelled", "lost": "failed"}

ToWire = Callable[[Context, str, Callable[[], Awaitable[Any]]], Awaitable[dict[str, Any]]]
Answering = Callable[[str, Any, str], Awaitable[None]]


class TaskParams(RequestParams):
    """Which task."""

    task_id: str


class UpdateTaskParams(TaskParams):
    """Answers to what a task asked for."""

    input_responses: dict[str, Any]


@dataclass(frozen=True, slots=True)
class JobsOfClients:
    """Finds the jobs of whoever makes a request, and answers their questions.

    `find` raises NoSuchJobError; `result` gives the wire form of what a job ended with.
    """

    find: Callable[[str], Awaitable[Job]]
    answer: Answering
    result: Callable[[Context, Job], Awaitable[dict[str, Any]]]
    asks_client: bool


class TaskMethods:
    """Answers `tasks/get`, `tasks/update` and `tasks/cancel`; makes tasks of jobs."""

    def __init__(self, jobs: JobsOfClients) -> None:
        self._jobs = jobs
        # Questions that a client closed without a decision: it is not asked again and again.
        self._closed: set[str] = set()
        self._kept_seconds = _days_kept() * _DAY_SECONDS

    async def created(self, context: Context, job: Job) -> dict[str, Any]:
        """Return the answer to a call that goes on: the job is on the disk already."""
        return {"resultType": "task", **await self._plain(context, job)}

    async def get(self, context: Context, params: TaskParams) -> dict[str, Any]:
        """Answer `tasks/get`."""
        job = await self._job(context, params.task_id)
        return {"resultType": "complete", **await self._detailed(context, job)}

    async def update(self, context: Context, params: UpdateTaskParams) -> dict[str, Any]:
        """Answer `tasks/update`: answers to questions that are no longer open are ignored."""
        job = await self._job(context, params.task_id)
        kept = await asyncio.to_thread(lambda: job.question)
        told = None if kept is None else params.input_responses.get(kept.id)
        if kept is not None and told is not None and self._asks(kept):
            await self._take(kept.id, told, job.owner)
        return {"resultType": "complete"}

    async def _take(self, question: str, told: Any, owner: str) -> None:
        try:
            answer = answer_of(ElicitResult.model_validate(told, by_name=False))
        except ValidationError:
            raise MCPError(INVALID_PARAMS, f"no answer to a form: {question}") from None
        if answer is None:
            self._closed.add(question)
        else:
            await self._jobs.answer(question, answer, owner)

    async def cancel(self, context: Context, params: TaskParams) -> dict[str, Any]:
        """Answer `tasks/cancel` when the task has been told to end."""
        job = await self._job(context, params.task_id)
        await job.acancel()
        return {"resultType": "complete"}

    async def _job(self, context: Context, task_id: str) -> Job:
        """Return the job that a request names, if its client may reach it."""
        if not is_modern(context):
            raise MCPError(METHOD_NOT_FOUND, "Method not found", context.method)
        _require_tasks(context)
        _check_name(context, task_id)
        return await self._reached(context, task_id)

    async def _reached(self, context: Context, task_id: str) -> Job:
        try:
            job = await self._jobs.find(task_id)
        except JobError:
            job = None
        if job is None or job.owner != owner_of(context):
            raise MCPError(INVALID_PARAMS, "Failed to retrieve task: Task not found")
        return job

    async def _plain(self, context: Context, job: Job) -> dict[str, Any]:
        return (await self._facts(context, job))[0]

    async def _facts(self, context: Context, job: Job) -> tuple[dict[str, Any], Any]:
        """Return what every message about a task has, and the question it waits for, if any."""
        return await asyncio.to_thread(self._read, can_ask(context), job)

    def _read(self, can_ask_client: bool, job: Job) -> tuple[dict[str, Any], Any]:
        state, kept, progress = job.state, job.question, job.progress
        asks = kept is not None and can_ask_client and self._asks(kept)
        status = _ENDED.get(state) or ("input_required" if asks else "working")
        words = "" if state in _ENDED else _words(state, kept, progress)
        now = datetime.now(UTC)
        ended = job.ended_at
        last = ended or (kept.asked_at if kept else None) or job.started_at or job.created_at
        age = ((ended or now) - job.created_at).total_seconds()
        facts: dict[str, Any] = {
            "taskId": job.id,
            "status": status,
            "createdAt": job.created_at.isoformat(),
            "lastUpdatedAt": last.isoformat(),
            "ttlMs": round((max(age, 0.0) + self._kept_seconds) * 1000),
            "pollIntervalMs": round(min(max(age * 100, _SOONEST_MS), _LATEST_MS)),
        }
        if words:
            facts["statusMessage"] = words
        return facts, kept if asks else None

    def _asks(self, kept: KeptQuestion) -> bool:
        return self._jobs.asks_client and may_ask(kept) and kept.id not in self._closed

    async def _detailed(self, context: Context, job: Job) -> dict[str, Any]:
        facts, kept = await self._facts(context, job)
        if facts["status"] == "input_required":
            form = form_of(kept).model_dump(by_alias=True, mode="json", exclude_none=True)
            facts["inputRequests"] = {kept.id: {"method": "elicitation/create", "params": form}}
        elif facts["status"] in ("completed", "failed"):
            facts |= await self._ended(context, job)
        return facts

    async def _ended(self, context: Context, job: Job) -> dict[str, Any]:
        """Return the result; an error that a direct call would have been answered with is one."""
        try:
            return {"status": "completed", "result": await self._jobs.result(context, job)}
        except JobCancelledError:
            return {"status": "cancelled"}
        except MCPError as error:
            told = {"code": error.error.code, "message": error.error.message}
            if error.error.data is not None:
                told["data"] = error.error.data
        except SkillpouchError as error:
            told = {"code": INTERNAL_ERROR, "message": str(error), "data": {"code": error.code}}
        return {"status": "failed", "error": told, "statusMessage": told["message"]}

    @asynccontextmanager
    async def watched(self, context: Context, ids: list[str]) -> AsyncIterator[Context]:
        """Send `notifications/tasks` for some tasks while inside; yields the context to listen in.

        Tasks that the client does not reach are left out of what is acknowledged.
        """
        _require_tasks(context)
        jobs = [await self._reached_or_none(context, task_id) for task_id in ids[:_MOST_IDS]]
        found = [job for job in jobs if job is not None]
        session = _WithTasks(context.session, [job.id for job in found])
        senders = [asyncio.create_task(self._send(context, job, session)) for job in found]
        try:
            yield replace(context, session=session)  # type: ignore[arg-type]  # a proxy of one
        finally:
            for sender in senders:
                sender.cancel()
            await asyncio.gather(*senders, return_exceptions=True)

    async def _reached_or_none(self, context: Context, task_id: str) -> Job | None:
        with suppress(MCPError):
            return await self._reached(context, task_id)
        return None

    async def _send(self, context: Context, job: Job, session: "_WithTasks") -> None:
        await session.acknowledged.wait()
        told = ""
        async for update in job.follow():
            if update.state != told:
                told = update.state
                await session.send_task(context, await self._detailed(context, job))
            if update.state in FINAL:
                return


class TaskNotification(Notification[dict[str, Any], str]):
    """How a task is now."""

    method: str = "notifications/tasks"
    params: dict[str, Any]


class _WithTasks:
    """The session of a request that listens, which also acknowledges tasks."""

    def __init__(self, session: Any, ids: list[str]) -> None:
        self._session = session
        self._ids = ids
        self.acknowledged = asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)

    async def send_notification(self, notification: Any, related_request_id: Any = None) -> None:
        """Send a notification; the first one says which tasks are told of."""
        is_first = isinstance(notification, SubscriptionsAcknowledgedNotification)
        if is_first and self._ids:
            honored = notification.params.notifications.model_dump(by_alias=True)
            notification.params.notifications = SubscriptionFilter.model_validate(
                {**honored, "taskIds": self._ids}
            )
        await self._session.send_notification(notification, related_request_id=related_request_id)
        if is_first:
            self.acknowledged.set()

    async def send_task(self, context: Context, facts: dict[str, Any]) -> None:
        meta = {"io.modelcontextprotocol/subscriptionId": context.request_id}
        message = TaskNotification(params={**facts, "_meta": meta})
        await self._session.send_notification(message, related_request_id=context.request_id)


Listen = Callable[[Context, SubscriptionsListenRequestParams], Awaitable[SubscriptionsListenResult]]


def listening(tasks: TaskMethods, listen: Listen) -> Listen:
    """Return a handler of `subscriptions/listen` that also knows `taskIds`."""

    async def listening_to(
        context: Context, params: SubscriptionsListenRequestParams
    ) -> SubscriptionsListenResult:
        ids = (params.notifications.model_extra or {}).get("taskIds")
        if not isinstance(ids, list):
            return await listen(context, params)
        async with tasks.watched(context, [each for each in ids if isinstance(each, str)]) as own:
            return await listen(own, params)

    return listening_to


def _days_kept() -> float:
    """Return how long a result is kept after its job has ended."""
    try:
        return read_job_bounds().keep_days
    except PolicyFileError:  # whoever makes a call is told of it
        return JobBounds().keep_days


def _require_tasks(context: Context) -> None:
    if not takes_tasks(context):
        needed: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        words = "Missing required client capability"
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, words, needed)


def _check_name(context: Context, task_id: str) -> None:
    """Refuse a request whose `Mcp-Name` header names another task; some clients send none."""
    headers = getattr(context.request, "headers", None)
    told = None if headers is None else headers.get(MCP_NAME_HEADER)
    if told is not None and decode_header_value(told) != task_id:
        raise MCPError(HEADER_MISMATCH, "Mcp-Name header does not match the request's task")


def _words(state: str, kept: Any, progress: Any) -> str:
    if kept is not None:
        return f"waits for approval: `skillpouch approve {kept.id}` or `skillpouch deny {kept.id}`"
    if state == "queued":
        return "queued"
    return "" if progress is None else str(progress)
