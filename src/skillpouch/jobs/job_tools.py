"""The tools job_wait, job_output and job_cancel: how a model goes on with a call that was left."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from skillpouch.calls import ToolCall
from skillpouch.jobs.job import Job
from skillpouch.jobs.soft_limit import (
    JOB_CANCEL,
    JOB_OUTPUT,
    JOB_WAIT,
    SOFT_LIMIT_SECONDS,
    CallsAndJobs,
    Wanted,
    own_job,
    wait_or_ask,
)
from skillpouch.results import ToolResult
from skillpouch.runtime.timers import clocks_stopped
from skillpouch.text import clean
from skillpouch.tools import Effect, Hosted, Tool

_USUAL_WAIT_SECONDS = 30.0
_MOST_OUTPUT_BYTES = 20_000

Owner = Callable[[], str]


def job_tools(
    executor: CallsAndJobs,
    owner: str | Owner = "",
    *,
    session: str | None = None,
    most_seconds: float = SOFT_LIMIT_SECONDS,
    waits_for_answers: Callable[[], bool] = lambda: True,
) -> list[Tool]:
    """Return job_wait, job_output and job_cancel, which reach the jobs of one owner only.

    With a session, only those of this session. `most_seconds` is how long job_wait waits at most;
    it leaves a job that waits for approval at once if `waits_for_answers` says no.
    """
    owner_now = (lambda: owner) if isinstance(owner, str) else owner
    reach = _Reach(executor, owner_now, session)
    longest = most_seconds if most_seconds > 0 else SOFT_LIMIT_SECONDS
    seconds = {
        "type": "number",
        "minimum": 0,
        "description": f"how long to wait, at most {longest:g} s",
        "default": min(_USUAL_WAIT_SECONDS, longest),
    }
    offset = {
        "type": "integer",
        "minimum": 0,
        "description": "from which byte on; the answer to an earlier call names the next one",
        "default": 0,
    }
    return [
        _tool(
            JOB_WAIT,
            "Wait for a call that goes on as a job, and return its result when it has ended.",
            {"seconds": seconds},
            partial(_wait, reach, longest, waits_for_answers),
        ),
        _tool(
            JOB_OUTPUT,
            "Read what a call that goes on as a job has printed so far.",
            {"offset": offset},
            partial(_output, reach),
        ),
        _tool(
            JOB_CANCEL,
            "End a call that goes on as a job, with everything that it started.",
            {},
            partial(_cancel, reach),
            effects=("execute",),
        ),
    ]


@dataclass(frozen=True, slots=True)
class _Reach:
    """Finds jobs by id, and none of another owner or session."""

    executor: CallsAndJobs
    owner: Owner
    session: str | None

    async def job(self, call: ToolCall) -> Job:
        job_id = str(call.arguments["id"])
        return await own_job(self.executor, job_id, self.owner(), self.session)


def _tool(
    name: str,
    description: str,
    parameters: dict[str, Any],
    run: Callable[[ToolCall], Awaitable[ToolResult]],
    *,
    effects: tuple[Effect, ...] = ("read",),
) -> Tool:
    job_id = {"type": "string", "minLength": 1, "description": "the id of the job"}
    return Tool(
        id=f"skillpouch.{name}",
        name=name,
        skill="",
        description=description,
        input_schema={
            "type": "object",
            "properties": {"id": job_id, **parameters},
            "required": ["id"],
            "additionalProperties": False,
        },
        runs=Hosted(what=f"Skillpouch's own {name}", run=run),
        effects=effects,
        # Longer than it waits: what it waits for may take a moment to be read.
        timeout_ms=120_000,
        declared_in="skillpouch",
        read_by="skillpouch",
    )


async def _wait(
    reach: _Reach, longest: float, waits_for_answers: Callable[[], bool], call: ToolCall
) -> ToolResult:
    job = await reach.job(call)
    asked = float(call.arguments.get("seconds", _USUAL_WAIT_SECONDS))
    heard = Wanted(tool=job.tool, on_output=call.on_output, on_step=call.on_step)
    with clocks_stopped():
        until = time.monotonic() + min(asked, longest)
        return await wait_or_ask(job, until, heard, for_answer=waits_for_answers())


async def _output(reach: _Reach, call: ToolCall) -> ToolResult:
    job = await reach.job(call)
    offset = int(call.arguments.get("offset", 0))
    found = await asyncio.to_thread(job.output, offset, most_bytes=_MOST_OUTPUT_BYTES)
    text = found.data.decode("utf-8", "replace")
    note = f"[{found.left_out:,} bytes before this are not kept]\n" if found.left_out else ""
    is_all = found.is_final and len(found.data) < _MOST_OUTPUT_BYTES
    then = "that is all" if is_all else f"the next offset is {found.next_offset}"
    return _told(
        call,
        f"{note}{clean(text)}\n[job {job.id} is {job.state}; {then}]",
        {"output": text, "next_offset": found.next_offset, "state": job.state},
    )


async def _cancel(reach: _Reach, call: ToolCall) -> ToolResult:
    job = await reach.job(call)
    state = await job.acancel()
    words = f"job {job.id} ({job.tool}) is {state}"
    return _told(call, words, {"id": job.id, "state": state})


def _told(call: ToolCall, words: str, value: dict[str, Any]) -> ToolResult:
    return ToolResult(
        tool=call.tool.id, outcome="ok", content=words, structured=value, stdout=f"{words}\n"
    )
