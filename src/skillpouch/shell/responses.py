"""ToolResponse: what a script gave: output, a value, its calls, files, a state to resume from."""

import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast, get_args

from skillpouch.calls import ToolCall
from skillpouch.execution.streams import kept_output
from skillpouch.results import Captured, Outcome, ToolResult
from skillpouch.shell.errors import StateTokenError
from skillpouch.text import clean

Status = Literal["ok", "failed", "limit", "timed_out", "cancelled", "denied", "syntax", "crashed"]
# Of calls that no tool ran for: words that mean nothing, a budget that is used up, a dry run; and
# of one that `job start` left running.
CallOutcome = Outcome | Literal["not_started", "invalid", "limit", "dry_run", "started"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptCall:
    """One tool that a script called. `started_ms` counts from the beginning of the script."""

    seq: int
    tool: str
    params: Mapping[str, Any] = field(default_factory=dict)
    outcome: CallOutcome = "cancelled"
    duration_ms: float = 0.0
    started_ms: float = 0.0
    exit_code: int | None = None
    effects: tuple[str, ...] = ()
    output_bytes: int = 0
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Artifact:
    """A file that a script left below /out; `path` is relative to it."""

    path: str
    data: bytes = field(repr=False)

    @property
    def text(self) -> str:
        return self.data.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResponse:
    """One finished script.

    `result` is what the command `result` set. `notes` are about the script, not of it: limits it
    met, what was left out. `state` is there when it was to be kept.
    """

    stdout: str
    stderr: str
    exit_code: int
    status: Status = "ok"
    result: Any = None
    calls: tuple[ScriptCall, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    artifacts_left_out: int = 0
    state: str | None = field(default=None, repr=False)
    truncated: bool = False
    duration_ms: float = 0.0
    notes: tuple[str, ...] = ()
    protections: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_error(self) -> bool:
        return self.status != "ok"

    def to_dict(self) -> dict[str, Any]:
        """Return it as JSON has it; of artifacts their paths and sizes."""
        return {
            "status": self.status,
            "stdout": self.stdout,
            "stderr": self.stderr,
            "exit_code": self.exit_code,
            "result": self.result,
            "calls": [_shown(call) for call in self.calls],
            "artifacts": [{"path": a.path, "size": len(a.data)} for a in self.artifacts],
            "truncated": self.truncated,
            "duration_ms": self.duration_ms,
            "notes": list(self.notes),
        }


def _shown(call: ScriptCall) -> dict[str, Any]:
    return {
        "seq": call.seq,
        "tool": call.tool,
        "params": dict(call.params),
        "outcome": call.outcome,
        "duration_ms": call.duration_ms,
    }


_CALL_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "seq": {"type": "integer"},
        "tool": {"type": "string"},
        "params": {"type": "object"},
        "outcome": {"type": "string"},
        "duration_ms": {"type": "number"},
    },
}

RESPONSE_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "stdout": {"type": "string"},
        "stderr": {"type": "string"},
        "exit_code": {"type": "integer"},
        "status": {"type": "string", "enum": [*get_args(Status)]},
        "result": {"description": "the JSON value that the command `result` set"},
        "calls": {"type": "array", "items": _CALL_SCHEMA},
    },
    "required": ["stdout", "stderr", "exit_code"],
}


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


def time_note_in(result: ToolResult) -> str:
    """Return what the executor adds last to what ran out of time: who can give it more."""
    note = result.content.rpartition("\n")[2]
    return note if result.outcome == "timed_out" and note.startswith("note: ") else ""


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


_SIGNATURE_BYTES = 32


def state_token(state: bytes, key: bytes, tool: str) -> str:
    """Return a state signed for one tool."""
    return urlsafe_b64encode(_signature(state, key, tool) + state).decode()


def state_of(token: str, key: bytes, tool: str) -> bytes:
    """Return the state that a token holds; raise StateTokenError when it is not ours."""
    try:
        data = urlsafe_b64decode(token.encode("ascii"))
    except ValueError:
        raise StateTokenError("it is not a token") from None
    signature, state = data[:_SIGNATURE_BYTES], data[_SIGNATURE_BYTES:]
    if not hmac.compare_digest(signature, _signature(state, key, tool)):
        raise StateTokenError("it is of another tool, or was changed")
    return state


def _signature(state: bytes, key: bytes, tool: str) -> bytes:
    return hmac.digest(key, tool.encode() + b"\0" + state, "sha256")
