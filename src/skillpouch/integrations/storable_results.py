"""A result that can be kept with a conversation: whatever stores those takes plain values only."""

from dataclasses import replace
from typing import Any

from skillpouch.results import ToolResult

# What MessagePack holds, in which checkpoints are written.
_LEAST, _MOST = -(2**63), 2**64 - 1


def storable(result: ToolResult) -> ToolResult:
    """Return the same result with plain mappings, and integers beyond 64 bits as text."""
    http = result.http and replace(result.http, headers=dict(result.http.headers))
    return replace(
        result,
        protections=dict(result.protections),
        structured=_storable(result.structured),
        http=http,
    )


def _storable(value: Any) -> Any:
    match value:
        case dict():
            return {key: _storable(each) for key, each in value.items()}
        case list():
            return [_storable(each) for each in value]
        case int() if not _LEAST <= value <= _MOST:
            return str(value)
        case _:
            return value
