"""How much one call may use: what is usual for its kind, what it declares, what others say."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from kitbag.limits import Limits
from kitbag.policy.policy import Policy
from kitbag.tools import Binary, BuiltIn, Hosted, InlineScript, Runs, Tool

_USUAL = Limits()
_OF_PROGRAMS = Limits(timeout_seconds=60.0)
_OF_BASH = Limits(timeout_seconds=120.0)


# A year: how long a job may run is said by its session, unless somebody says less.
_OF_JOBS = Limits(timeout_seconds=31_536_000.0)


def limits_of(
    tool: Tool,
    limits: Limits | None,
    timeout: float | None,
    policy: Policy,
    arguments: Mapping[str, Any] = MappingProxyType({}),
) -> Limits:
    """Return the limits of one call; a caller may lower the time, never raise it."""
    found = limits or (_USUAL if isinstance(tool.runs, Hosted) else _usual_limits(tool.runs))
    if _starts_job(tool, arguments):
        found = limits or _OF_JOBS
    elif tool.timeout_ms is not None:
        declared = tool.timeout_ms / 1000
        most = declared if limits is None else min(declared, limits.timeout_seconds)
        found = replace(found, timeout_seconds=most)
    if policy.limits:
        found = policy.limits_for(tool.id, tool.skill, found)
    if timeout is not None:
        found = replace(found, timeout_seconds=max(0.001, min(timeout, found.timeout_seconds)))
    return found


def _starts_job(tool: Tool, arguments: Mapping[str, Any]) -> bool:
    is_bash = isinstance(tool.runs, BuiltIn) and tool.runs.name == "bash"
    return is_bash and arguments.get("background") is True and "job" not in arguments


def _usual_limits(runs: Runs) -> Limits:
    """Return what a tool of this kind may use when nobody says otherwise."""
    match runs:
        case Binary() | InlineScript():
            return _OF_PROGRAMS
        case BuiltIn(name="bash"):
            return _OF_BASH
        case _:
            return _USUAL
