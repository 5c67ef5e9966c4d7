"""Calls as a cassette holds them: JSON that people can read, compare and correct."""

import dataclasses
import hashlib
import json
from base64 import b64decode, b64encode
from dataclasses import dataclass
from typing import Any

from skillpouch.calls import ToolCall
from skillpouch.errors import CallDeniedError, SkillpouchError
from skillpouch.results import Attachment, ChangedFile, HttpAnswer, ToolResult

# Of one machine and one moment only: nothing that an agent acts on.
_LEFT_OUT = {"saved", "warm", "cold_because", "timings"}
_DEFAULTS = ToolResult(tool="", outcome="ok")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedCall:
    """One call. `key` tells it from all others; `gave` is a result or an error, as JSON."""

    key: str
    tool: str
    arguments: Any
    gave: dict[str, Any]


def key_of(call: ToolCall) -> str:
    """Return a digest of the tool, the checked arguments and the input, if any."""
    stdin = None if call.stdin is None else call.stdin.hex()
    text = json.dumps([call.tool.id, call.arguments, stdin], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def record_of(call: ToolCall, ended: ToolResult | SkillpouchError) -> RecordedCall:
    """Return what is written down of a call; neither side of it may hold a secret."""
    gave = _error(ended) if isinstance(ended, SkillpouchError) else {"result": _result(ended)}
    return RecordedCall(key=key_of(call), tool=call.tool.id, arguments=call.said, gave=gave)


def given(record: RecordedCall) -> ToolResult | SkillpouchError:
    """Return the result of a recorded call, or the error that it ended with."""
    if "error" in record.gave:
        return _restored_error(record.tool, **record.gave["error"])
    return _restored(record.gave["result"])


def _result(result: ToolResult) -> dict[str, Any]:
    fields = [field.name for field in dataclasses.fields(result) if field.name not in _LEFT_OUT]
    found = {name: getattr(result, name) for name in fields}
    kept = {name: value for name, value in found.items() if value != getattr(_DEFAULTS, name)}
    return {"tool": result.tool, "outcome": result.outcome} | {
        name: _plain(value) for name, value in kept.items()
    }


def _plain(value: Any) -> Any:
    match value:
        case Attachment():
            data = b64encode(value.data).decode()
            return {"name": value.name, "type": value.type, "data": data}
        case ChangedFile():
            return dataclasses.asdict(value)
        case HttpAnswer():
            return {"status": value.status, "url": value.url, "headers": dict(value.headers)}
        case tuple():
            return [_plain(each) for each in value]
        case _:
            return dict(value) if hasattr(value, "items") else value


def _restored(fields: dict[str, Any]) -> ToolResult:
    files = [ChangedFile(**each) for each in fields.get("files", ())]
    shown = [
        Attachment(name=each["name"], type=each["type"], data=b64decode(each["data"]))
        for each in fields.get("attachments", ())
    ]
    http = fields.get("http")
    made = {
        "files": tuple(files),
        "attachments": tuple(shown),
        "http": None if http is None else HttpAnswer(**http),
    }
    return ToolResult(**{**fields, **made})


def _error(error: SkillpouchError) -> dict[str, Any]:
    denied = isinstance(error, CallDeniedError)
    facts = {"denied": denied, "code": error.code, "message": str(error), "hint": error.hint}
    return {"error": facts}


def _restored_error(
    tool: str, *, denied: bool, code: str, message: str, hint: str
) -> SkillpouchError:
    error = (
        CallDeniedError(message, hint=hint, tool=tool)
        if denied
        else SkillpouchError(message, hint=hint)
    )
    error.__dict__["code"] = code  # what programs go by; other facts were not written down
    return error
