"""What a script gave: its output, a value, the calls it made, files, and a state to go on from."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from skillpouch.results import Outcome

Status = Literal["ok", "failed", "limit", "timed_out", "cancelled", "denied", "syntax", "crashed"]
# Of calls that no tool ran for: words that mean nothing, a budget that is used up, a dry run.
CallOutcome = Outcome | Literal["not_started", "invalid", "limit", "dry_run"]


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
