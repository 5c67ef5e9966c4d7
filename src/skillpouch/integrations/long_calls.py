"""Calls that take longer than a model should wait: they go on as jobs, with tools to follow them.

Every integration makes its calls by `call_tool`; what is decided there, `jobs.soft_limit` decides.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from skillpouch.calls import called_by, watcher
from skillpouch.errors import SkillpouchError
from skillpouch.executor import ToolExecutor
from skillpouch.integrations.selection import Bound, Tools
from skillpouch.jobs.job import NoSuchJobError
from skillpouch.jobs.job_runner import JobRunner, user_jobs
from skillpouch.jobs.job_tools import job_tools
from skillpouch.jobs.soft_limit import (
    JOB_CANCEL,
    JOB_OUTPUT,
    JOB_WAIT,
    SOFT_LIMIT_SECONDS,
    CallsAndJobs,
    SoftLimit,
    Wanted,
    call_or_job,
    is_left,
)
from skillpouch.manager import SkillManager
from skillpouch.results import ToolResult
from skillpouch.runtime.loop_thread import run_blocking
from skillpouch.runtime.memoize import BoundedCache, Shared
from skillpouch.tools import Caller, Tool

JOB_NAMES = frozenset((JOB_WAIT, JOB_OUTPUT, JOB_CANCEL))
_MOST_REMEMBERED = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class LongCallOptions:
    """What becomes of calls that take long, or that the policy asks about with nobody to ask.

    A call that takes longer than `soft_limit_seconds` is answered with the id of a job and goes on;
    0 means never. The tools to go on with it are listed from then on, with `list_tools` always.
    With `keep_questions`, a call that the policy asks about becomes a job that waits for an
    answer, if there is nobody to ask; without it, it is denied. The tools reach only jobs of the
    same `owner`: name another one for each of your users.
    """

    soft_limit_seconds: float = SOFT_LIMIT_SECONDS
    list_tools: bool = False
    keep_questions: bool = True
    owner: str = "agent"

    @property
    def is_on(self) -> bool:
        """Whether any call may be left as a job."""
        return self.soft_limit_seconds > 0 or self.keep_questions

    @property
    def owner_now(self) -> str:
        """The owner of what is called here: each thread of a graph is one of its own."""
        thread = call_place.get().thread
        return f"{self.owner} {thread}" if thread else self.owner


NEVER_LEFT = LongCallOptions(soft_limit_seconds=0, keep_questions=False)


class CallPlace(NamedTuple):
    """Where a framework makes a call: in which thread, and which call it is.

    With a `key`, a framework that runs a step again makes the same call, and not another one.
    """

    thread: str = ""
    key: str = ""


_NOWHERE = CallPlace()
call_place: ContextVar[CallPlace] = ContextVar("call_place", default=_NOWHERE)


@contextmanager
def placed(place: CallPlace) -> Iterator[None]:
    """Let the calls inside this block be made at a place."""
    token = call_place.set(place)
    try:
        yield
    finally:
        call_place.reset(token)


# Owner and session of those of whom a call was left in this process.
_left: BoundedCache[tuple[str, str], None] = BoundedCache(_MOST_REMEMBERED)


async def call_tool(
    caller: Caller, tool: str, arguments: Any, options: LongCallOptions
) -> ToolResult:
    """Make a call for a model; one that takes long, or waits for an answer, is left as a job."""
    executor = _executor_behind(caller) if options.is_on else None
    if executor is None:
        return await caller.execute(tool, arguments)
    owner = options.owner_now
    wanted = Wanted(tool=tool, arguments=arguments, on_step=watcher.get(), key=call_place.get().key)
    limit = SoftLimit(
        seconds=options.soft_limit_seconds, keep_questions=options.keep_questions, owner=owner
    )
    with called_by(owner):
        result = await call_or_job(executor, wanted, limit)
    if is_left(result):
        _left[owner, executor.job_runner().session] = None
    return result


def call_tool_sync(
    caller: Caller, tool: str, arguments: Any, options: LongCallOptions
) -> ToolResult:
    """Do what `call_tool` does, blocking."""
    if not options.is_on:
        return caller.execute_sync(tool, arguments)
    return run_blocking(call_tool(caller, tool, arguments, options))


def may_be_left(tools: Iterable[Bound], options: LongCallOptions) -> bool:
    """Tell whether a call of these may be left: where tools are listed once, for good."""
    if options.list_tools or not options.is_on:
        return options.is_on
    runners: dict[int, JobRunner | None] = {}
    for tool, caller in tools:
        if id(caller) not in runners:
            executor = _executor_behind(caller)
            runners[id(caller)] = None if executor is None else executor.job_runner()
        if _seconds_of(tool, runners[id(caller)]) > options.soft_limit_seconds > 0:
            return True
    return False


def _seconds_of(tool: Tool, runner: JobRunner | None) -> float:
    try:
        return 0.0 if runner is None else runner.time_limit(tool, None)
    except SkillpouchError:
        return 0.0  # a policy that cannot be read: every call says so


def offered_job_tools(
    tools: Tools, options: LongCallOptions, beside: Iterable[Tool] = ()
) -> list[Tool]:
    """Return the tools for jobs if a call of these tools was left, or if they are always listed.

    Tools that are listed `beside` them keep their names.
    """
    if not options.is_on or not (options.list_tools or _was_left(tools, options)):
        return []
    taken = {tool.name for tool in beside}
    return [tool for tool in tools_for_jobs(tools, options) if tool.name not in taken]


def tools_for_jobs(tools: Tools, options: LongCallOptions) -> list[Tool]:
    """Return job_wait, job_output and job_cancel, which reach the jobs of these tools."""
    caller = _JobCaller(_callers_of(tools), options)
    shown = job_tools(ToolExecutor(), most_seconds=options.soft_limit_seconds)
    return [replace(tool, caller=caller) for tool in shown]


def _was_left(tools: Tools, options: LongCallOptions) -> bool:
    if not _left:
        return False
    owner, executors = options.owner_now, _executors_of(_callers_of(tools))
    return any((owner, session) in _left for session in executors)


def _callers_of(tools: Tools) -> list[Caller]:
    if isinstance(tools, SkillManager):
        return [tools.executor]
    found = {id(tool.caller): tool.caller for tool in tools}
    return [caller for caller in found.values() if caller is not None]


def _executors_of(callers: Iterable[Caller]) -> dict[str, CallsAndJobs]:
    """Return what runs calls by its session; functions that nobody runs yet have none."""
    found = [executor for executor in map(_executor_behind, callers) if executor is not None]
    return {each.job_runner().session: each for each in found or [ToolExecutor()]}


def _executor_behind(caller: Caller) -> CallsAndJobs | None:
    """Return the executor that runs the calls of a caller, None if it starts no jobs."""
    if isinstance(caller, ToolExecutor):
        return caller
    behind = getattr(caller, "executor", None)
    found: CallsAndJobs | None = None if behind is None else behind()
    return found


class _JobCaller(Shared):
    """Runs the tools for jobs, as calls like others, in the session that a job belongs to."""

    def __init__(self, callers: list[Caller], options: LongCallOptions) -> None:
        self._callers = callers
        self._options = options

    async def execute(self, name: str, args: Any = None) -> ToolResult:
        executor = await asyncio.to_thread(self._executor_for, args)
        tools = job_tools(
            executor,
            partial(getattr, self._options, "owner_now"),
            session=executor.job_runner().session,
            most_seconds=self._options.soft_limit_seconds,
        )
        return await executor.beside(tools).execute(name, args)

    def execute_sync(self, name: str, args: Any = None) -> ToolResult:
        return run_blocking(self.execute(name, args))

    def _executor_for(self, args: Any) -> CallsAndJobs:
        executors = _executors_of(self._callers)
        first = next(iter(executors.values()))
        job_id = args.get("id") if isinstance(args, Mapping) else None
        if len(executors) > 1 and isinstance(job_id, str):
            with suppress(NoSuchJobError):
                return executors.get(user_jobs().get(job_id).session, first)
        return first
