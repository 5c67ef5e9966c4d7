"""A script's response as the result of a call, the form that every door knows; and back."""

from dataclasses import replace
from typing import cast, get_args

from skillpouch.calls import ToolCall
from skillpouch.execution.command import Captured
from skillpouch.execution.saved_output import kept_output
from skillpouch.results import Outcome, ToolResult
from skillpouch.shell.printed import time_note_in
from skillpouch.shell.responses import Status, ToolResponse
from skillpouch.text import clean

_OUTCOMES: dict[Status, Outcome] = {
    "ok": "ok",
    "timed_out": "timed_out",
    "cancelled": "cancelled",
    "denied": "denied",
    "crashed": "killed",
}


def result_of(call: ToolCall, response: ToolResponse) -> ToolResult:
    """Return the result; `structured` is the value that the script set with `result`."""
    outcome = _OUTCOMES.get(response.status, "failed")
    stdout, stderr = _kept(call, "stdout", response.stdout), _kept(call, "stderr", response.stderr)
    parts = [stdout.text.removesuffix("\n")]
    if outcome != "ok":
        parts += [stderr.text.removesuffix("\n"), f"exit code {response.exit_code}"]
    return ToolResult(
        tool=call.tool.id,
        outcome=outcome,
        content=clean("\n".join(part for part in parts if part)),
        structured=response.result,
        exit_code=response.exit_code,
        stdout=stdout.text,
        stderr=stderr.text,
        truncated=response.truncated or stdout.truncated or stderr.truncated,
        saved=tuple(each.saved_to for each in (stdout, stderr) if each.saved_to),
        duration_ms=response.duration_ms,
        protections=response.protections,
        code=None if response.status in ("ok", "failed") else response.status,
        timeout_seconds=call.limits.timeout_seconds,
    )


def _kept(call: ToolCall, stream: str, text: str) -> Captured:
    data = text.encode("utf-8", "replace")
    return kept_output(call.terms.workspace, stream, data, call.limits.keep_bytes)


def with_time_note(response: ToolResponse, result: ToolResult) -> ToolResponse:
    """Return the response of a script with what was said of its time, if that ran out."""
    note = time_note_in(result)
    if not note:
        return response
    return replace(response, notes=(*response.notes, note), stderr=f"{response.stderr}{note}\n")


def response_of(result: ToolResult) -> ToolResponse:
    """Return the response of a script that was replayed: its calls and files are not on record."""
    status = "ok" if result.outcome == "ok" else "failed"
    return ToolResponse(
        stdout=result.stdout,
        stderr=result.stderr,
        exit_code=result.exit_code or 0,
        status=cast("Status", result.code if result.code in get_args(Status) else status),
        result=result.structured,
        truncated=result.truncated,
        duration_ms=result.duration_ms,
        protections=result.protections,
    )
