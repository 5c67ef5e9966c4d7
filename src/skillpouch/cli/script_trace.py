"""The calls of a script as a tree, for a person who wonders what it did and how long it took."""

import json

from skillpouch.shell.responses import ScriptCall, ToolResponse
from skillpouch.text import clean

_WORDS = 60


def trace_of(response: ToolResponse) -> str:
    """Return the script and, below it, each call with its beginning and its duration."""
    head = f"script  {response.status}  {response.duration_ms:.0f} ms"
    calls = response.calls
    lines = [f"{'└' if call is calls[-1] else '├'}─ {_line(call)}" for call in calls]
    return "\n".join([head, *lines])


def _line(call: ScriptCall) -> str:
    params = json.dumps(dict(call.params), ensure_ascii=False, default=str)
    params = params if len(params) <= _WORDS else f"{params[: _WORDS - 1]}…"
    code = f" {call.exit_code}" if call.exit_code else ""
    times = f"{call.duration_ms:.1f} ms, from {call.started_ms:.1f} ms"
    return clean(f"{call.seq} {call.tool} {params}  {call.outcome}{code}  {times}")
