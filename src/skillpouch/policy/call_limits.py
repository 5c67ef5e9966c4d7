"""How much one call may use: what is usual for its kind, what it declares, what others say."""

import json
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Self

from skillpouch.calls import ToolCall
from skillpouch.errors import InvalidArgumentsError, TimeLimitError
from skillpouch.limits import Limits
from skillpouch.policy.policy import Policy
from skillpouch.tools import Binary, BuiltIn, Hosted, InlineScript, Runs, Tool

_USUAL = Limits()
_OF_PROGRAMS = Limits(timeout_seconds=60.0)
_OF_BASH = Limits(timeout_seconds=120.0)


# A year: how long a job may run is said by its session, unless somebody says less.
_OF_JOBS = Limits(timeout_seconds=31_536_000.0)


class OwnersTimeout(float):
    """What a person says at a terminal, whose machine it is: it may be above the usual limit."""


class Deadline(float):
    """How long a caller listens: beyond the limit it is no wish for more, as `asked` would be."""

    asked: float | None

    def __new__(cls, seconds: float, *, asked: float | None = None) -> Self:
        made = super().__new__(cls, seconds)
        made.asked = asked
        return made


def limits_of(
    tool: Tool,
    limits: Limits | None,
    timeout: float | None,
    policy: Policy,
    arguments: Mapping[str, Any] = MappingProxyType({}),
) -> Limits:
    """Return the limits of one call.

    A caller lowers the time; asking for more is an error, unless the owner of the machine does.
    A rule of a policy or of a project holds for the owner, too.
    """
    found = _before_rules(tool, limits, arguments)
    if isinstance(timeout, OwnersTimeout):
        raised = min(max(timeout, found.timeout_seconds), _OF_JOBS.timeout_seconds)
        found = replace(found, timeout_seconds=float(raised))
    if policy.limits:
        found = policy.limits_for(tool.id, tool.skill, found)
    most = found.timeout_seconds
    _check_argument(tool, arguments, most)
    if timeout is None:
        return found
    asked = timeout.asked if isinstance(timeout, Deadline) else timeout
    if asked is not None and asked > most:
        raise TimeLimitError(tool.id, asked, most, how=_how_to_raise(tool, most, policy))
    return replace(found, timeout_seconds=max(0.001, min(float(timeout), most)))


def time_note(call: ToolCall, policy: Policy, seconds: float) -> str:
    """Return what a call is told that was ended after some seconds: who could give it more."""
    tool = call.tool
    most = limits_of(tool, call.terms.limits, None, policy, call.arguments).timeout_seconds
    if seconds < most:
        return f"note: its caller gave it {seconds:g} s of the {most:g} s it may have"
    how = _how_to_raise(tool, seconds, policy)
    return f"note: {seconds:g} s is its limit; only the user can raise it: {how}"


def _how_to_raise(tool: Tool, most: float, policy: Policy) -> str:
    rules = [rule for rule in policy.limits if rule.fits(tool.id, tool.skill)]
    holding = [rule for rule in rules if rule.values.get("timeout_seconds") == most]
    if holding and holding[-1].lower_only:
        return "`timeout_seconds` of its `[[limits]]` in the project's skillpouch.toml"
    tools, more = json.dumps([tool.id], ensure_ascii=False), f"{2 * most:g}"
    rule = f"`[[limits]]` with `tools = {tools}` and `timeout_seconds = {more}` in policy.toml"
    return rule if holding else f"{rule}, or `--timeout {more}` at a terminal"


def _check_argument(tool: Tool, arguments: Mapping[str, Any], most: float) -> None:
    """Refuse what a model asks `bash` for beyond the limit, instead of giving it less."""
    if _is_bash(tool) and arguments.get("timeout", 0) > most * 1000:
        asked, fits = arguments["timeout"], f"at most {most * 1000:.0f} may be asked for"
        problem = f"`timeout` is {asked}, and {fits}: only the user can raise it"
        raise InvalidArgumentsError(tool.id, [problem])


def _before_rules(tool: Tool, limits: Limits | None, arguments: Mapping[str, Any]) -> Limits:
    found = limits or (_USUAL if isinstance(tool.runs, Hosted) else _usual_limits(tool.runs))
    if _starts_job(tool, arguments):
        found = limits or _OF_JOBS
    elif tool.timeout_ms is not None:
        declared = tool.timeout_ms / 1000
        most = declared if limits is None else min(declared, limits.timeout_seconds)
        found = replace(found, timeout_seconds=most)
    return found


def _starts_job(tool: Tool, arguments: Mapping[str, Any]) -> bool:
    return _is_bash(tool) and arguments.get("background") is True and "job" not in arguments


def _is_bash(tool: Tool) -> bool:
    return isinstance(tool.runs, BuiltIn) and tool.runs.name == "bash"


def _usual_limits(runs: Runs) -> Limits:
    """Return what a tool of this kind may use when nobody says otherwise."""
    match runs:
        case Binary() | InlineScript():
            return _OF_PROGRAMS
        case BuiltIn(name="bash"):
            return _OF_BASH
        case _:
            return _USUAL
