"""Turns results and tools into messages, and fields of requests into values."""

import json
import math
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, cast, get_args

from skillpouch.builtins.kept_calls import KeptChanges
from skillpouch.discovery.text_skills.folders import path_in_text
from skillpouch.jobs.job import Job, KeptQuestion
from skillpouch.limits import Writes
from skillpouch.policy.limit_rules import Deadline
from skillpouch.problems import Problem
from skillpouch.results import FileChange, Progress, ToolResult
from skillpouch.servers.grpc.statuses import MessageError
from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from skillpouch.shell.responses import ScriptCall, ToolResponse
from skillpouch.tools import Tool

# A tool that runs out of time before the client does can still say what it printed.
_MOST_SECONDS_TO_ANSWER = 0.5
_PART_TO_ANSWER = 0.1
_MOST_CHANGES, _MOST_LISTED = 2_000, 100  # clients take messages of 4 MiB


def arguments_of(text: str) -> Any:
    """Read the arguments of a call; nothing is an empty object."""
    try:
        return json.loads(text, parse_constant=_no_constant) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, ValueError) else "it is nested too deeply"
        raise MessageError("args_json", f"it is not JSON: {reason}") from None


def timeout_of(wanted: float, remaining: float | None) -> float | None:
    """Return how long a call may take: what was asked for, and before the deadline.

    A deadline may be later than the limit of a tool; what a field asks for may not.
    """
    if math.isnan(wanted) or wanted < 0:
        raise MessageError("timeout_seconds", "it is not a number of seconds, zero or more")
    asked = wanted or None
    if remaining is None:
        return asked
    left = remaining - min(_MOST_SECONDS_TO_ANSWER, remaining * _PART_TO_ANSWER)
    return Deadline(min(left, asked or left), asked=asked)


def writes_of(wanted: str) -> Writes | None:
    """Return how a caller wants a call to write; None if the policy decides."""
    known = get_args(Writes)
    if wanted and wanted not in known:
        raise MessageError("writes", f"it is none of {', '.join(known)}")
    return cast("Writes", wanted) if wanted else None


def tool_message(tool: Tool) -> pb.Tool:
    """Return a tool as clients see it."""
    return pb.Tool(
        id=text_of(tool.id),
        name=tool.name,
        skill=text_of(tool.skill),
        description=text_of(tool.description),
        input_schema_json=_json(tool.input_schema),
        output_schema_json=_json(tool.output_schema),
        kind=tool.kind,
        effects=tool.effects,
        ready=tool.ready,
        missing=[text_of(each) for each in tool.missing],
    )


def problem_message(problem: Problem, roots: Iterable[Path]) -> pb.Problem:
    """Return what was noticed about a skill; the folders of this machine stay here."""
    path, message = path_in_text(problem.path), problem.message
    for root in roots:
        path = path.removeprefix(f"{root}/")
        message = message.replace(f"{root}/", "")
    return pb.Problem(
        path=text_of(path),
        code=problem.code,
        severity=problem.severity,
        message=text_of(message),
        line=problem.line or 0,
    )


def result_message(result: ToolResult) -> pb.ToolResult:
    """Return a result as clients see it; paths of this machine stay here."""
    return pb.ToolResult(
        tool=text_of(result.tool),
        outcome=result.outcome,
        is_error=result.is_error,
        content=text_of(result.content),
        structured_json=_json(result.structured),
        exit_code=result.exit_code,
        stdout=text_of(result.stdout),
        stderr=text_of(result.stderr),
        truncated=result.truncated,
        duration_ms=result.duration_ms,
        protections=dict(result.protections),
        code=result.code or "",
        files=[
            pb.ChangedFile(
                path=text_of(file.path), type=file.type, size=file.size, change=file.change
            )
            for file in result.files
        ],
        files_complete=result.files_complete,
        run_later=map(text_of, result.run_later),
        writes=result.writes,
        changes=map(_change_message, result.changes[:_MOST_CHANGES]),
        changes_total=len(result.changes),
        conflicts=[
            pb.Conflict(path=text_of(each.path), reason=text_of(each.reason))
            for each in result.conflicts
        ],
        kept_id=result.call_id,
        attachments=[
            pb.Attachment(name=text_of(each.name), type=each.type, data=each.data)
            for each in result.attachments
        ],
    )


def kept_message(kept: KeptChanges) -> pb.KeptCall:
    """Return what is kept of a call as clients see it."""
    return pb.KeptCall(
        kept_id=kept.id,
        tool=text_of(kept.tool),
        state=kept.state,
        started_ns=kept.started_ns,
        total=kept.total,
        changes=map(_change_message, kept.changes[:_MOST_LISTED]),
        reverses=kept.reverses,
    )


def _change_message(change: FileChange) -> pb.FileChange:
    return pb.FileChange(
        path=text_of(change.path),
        change=change.change,
        size=change.size,
        size_before=change.size_before,
        old_path=text_of(change.old_path),
        sha256=change.sha256,
        mode=change.mode,
        mode_before=change.mode_before,
        executable=change.executable,
    )


def progress_message(progress: Progress) -> pb.Progress:
    """Return what a tool reports as clients see it."""
    return pb.Progress(done=progress.done, total=progress.total, message=text_of(progress.message))


def job_message(job: Job, asked: KeptQuestion | None) -> pb.Job:
    """Return a job as clients see it, with what it waits for."""
    progress = job.progress
    return pb.Job(
        job_id=job.id,
        tool=text_of(job.tool),
        session_id=job.session,
        state=job.state,
        created_ns=_nanoseconds(job.created_at),
        started_ns=_nanoseconds(job.started_at),
        ended_ns=_nanoseconds(job.ended_at),
        progress=None if progress is None else progress_message(progress),
        approval=None if asked is None else approval_message(asked),
        ends_with_server=job.runs_here,
    )


def approval_message(kept: KeptQuestion) -> pb.Approval:
    """Return what somebody is asked as clients see it."""
    asked = kept.question
    return pb.Approval(
        approval_id=kept.id,
        job_id=kept.job,
        tool=text_of(asked.tool),
        skill=text_of(asked.skill),
        session_id=asked.session,
        runs=text_of(asked.runs),
        arguments_json=_json(dict(asked.arguments)),
        needs=[text_of(f"{need.kind} {need.value}".strip()) for need in asked.needs],
        reasons=map(text_of, asked.reasons),
        digest=asked.digest,
        asked_ns=_nanoseconds(kept.asked_at),
        until_ns=_nanoseconds(kept.until),
        state=kept.state,
        answered_by=text_of(kept.answered_by),
        changes=map(_change_message, asked.changes[:_MOST_LISTED]),
        diff=text_of(asked.diff),
    )


def _nanoseconds(moment: datetime | None) -> int:
    return 0 if moment is None else int(moment.timestamp() * 1e9)


def script_message(response: ToolResponse) -> pb.RunScriptResponse:
    """Return what a script gave as clients see it."""
    return pb.RunScriptResponse(
        status=response.status,
        stdout=text_of(response.stdout),
        stderr=text_of(response.stderr),
        exit_code=response.exit_code,
        result_json=_json(response.result),
        calls=[_call_message(call) for call in response.calls],
        artifacts=[pb.Artifact(path=text_of(a.path), data=a.data) for a in response.artifacts],
        truncated=response.truncated,
        duration_ms=response.duration_ms,
        notes=[text_of(note) for note in response.notes],
        artifacts_left_out=response.artifacts_left_out,
    )


def _call_message(call: ScriptCall) -> pb.ScriptCall:
    return pb.ScriptCall(
        seq=call.seq,
        tool=text_of(call.tool),
        params_json=_json(dict(call.params)),
        outcome=call.outcome,
        duration_ms=call.duration_ms,
        started_ms=call.started_ms,
        exit_code=call.exit_code,
        error=text_of(call.error),
    )


def _json(value: Any) -> str:
    # A function of the host may return what JSON has no word for; its text is better than nothing.
    return "" if value is None else json.dumps(value, default=str)


def text_of(text: str) -> str:
    """Return text that protobuf takes: a lone surrogate, as in a file name, is not text."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number that JSON has")
