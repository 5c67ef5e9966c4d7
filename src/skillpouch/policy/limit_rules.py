"""The limits of a call and how it writes: what the user sets, a project can only tighten."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, Self, cast

from skillpouch.calls import ToolCall
from skillpouch.errors import CallDeniedError, InvalidArgumentsError, TimeLimitError
from skillpouch.limits import (
    BASH_SECONDS,
    LONGEST_SECONDS,
    PROGRAM_SECONDS,
    WAYS,
    Limits,
    UsualMemory,
    UsualSeconds,
    Writes,
    capped,
    check_way,
    time_text,
)
from skillpouch.needs import Need
from skillpouch.policy.patterns import any_fits
from skillpouch.tools import Binary, BuiltIn, Function, Hosted, InlineScript, Runs, Tool
from skillpouch.trust.errors import trust_command

LIMITS = tuple(field.name for field in fields(Limits))
_UNBOUNDED = ("memory_bytes", "open_files", "file_bytes", "cpu_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobBounds:
    """`[jobs]` of the user's policy: how many jobs run at once and wait, how long they are kept.

    None is the usual number: of `running` twice the processors, at least four; of `per_session`
    half of that, so that no conversation takes all places; of `per_tool` all of them. The process
    that runs jobs ends after `idle_seconds` without any.
    """

    running: int | None = None
    per_session: int | None = None
    per_tool: int | None = None
    queued: int = 10_000
    keep_days: int = 7
    keep_megabytes: int = 1024
    idle_seconds: int = 60

    def of(self, processors: int) -> "JobBounds":
        """Return these bounds with a number for each, for a machine with so many processors."""
        running = self.running or max(4, 2 * processors)
        return replace(
            self,
            running=running,
            per_session=self.per_session or max(1, running // 2),
            per_tool=self.per_tool or running,
        )


class OwnersWrites(str):
    """A way of writing from the owner of the machine, at a terminal: it may be a looser one."""

    __slots__ = ()


def tighter(one: Writes | None, other: Writes | None) -> Writes | None:
    """Return the tighter of two ways of writing; None is that nobody chose one."""
    if one is None or other is None:
        return one or other
    return max(one, other, key=WAYS.index)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRule:
    """`values` of `Limits` for the tools that fit; None means no limit, if `Limits` allows it.

    `writes` is how these tools write; None leaves it as it is.
    """

    values: Mapping[str, float | None] = field(default_factory=dict)
    tools: Sequence[str] = ()
    skills: Sequence[str] = ()
    lower_only: bool = False
    writes: Writes | None = None

    def __post_init__(self) -> None:
        for name in ("tools", "skills"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        for name, value in self.values.items():
            problem = wrong_limit(name, value)
            if problem:
                raise ValueError(problem)
        check_way(self.writes)

    def apply(self, limits: Limits) -> Limits:
        """Return the limits with the values of this rule."""
        values: dict[str, Any] = dict(self.values)
        if self.lower_only:
            values = {name: _lower(value, getattr(limits, name)) for name, value in values.items()}
        return replace(limits, **values)

    def way(self, found: Writes | None) -> Writes | None:
        """Return the way of writing with this rule, for a tool that fits."""
        return tighter(found, self.writes) if self.lower_only else self.writes or found

    def fits(self, tool: str, skill: str) -> bool:
        """Tell whether the rule is about this tool of this skill."""
        return any_fits(self.tools, tool) and any_fits(self.skills, skill)


def with_rules(rules: Sequence[LimitRule], tool: str, skill: str, limits: Limits) -> Limits:
    """Return the limits of a tool: later rules override earlier ones."""
    for rule in rules:
        if rule.fits(tool, skill):
            limits = rule.apply(limits)
    return limits


def wrong_limit(name: str, value: Any) -> str:
    """Return what is wrong with a limit, "" if nothing is."""
    if name not in LIMITS:
        return f"{name!r} is not a limit: use one of {', '.join(LIMITS)}"
    if value is None:
        return "" if name in _UNBOUNDED else f"{name} needs a number"
    whole = name != "timeout_seconds"
    right = isinstance(value, int) or (isinstance(value, float) and not whole)
    if isinstance(value, bool) or not right or not 0 < value < math.inf:
        return f"{name} must be a {'whole ' if whole else ''}number above zero"
    return ""


def _lower(value: float | None, bound: float | None) -> float | None:
    if value is None or bound is None:
        return bound if value is None else value
    if isinstance(bound, UsualMemory) and value > bound:
        return bound.at_most(int(value))  # no grant gives more than that
    # A limit that nobody set stays one: lowering it must not take the place of a grant.
    return capped(bound, value) if isinstance(bound, UsualSeconds) else min(value, bound)


def way_of(
    tool: Tool,
    owners: tuple[Writes | None, Writes | None],
    rules: Sequence[LimitRule],
    asked: str | None,
    usual: Writes,
) -> tuple[Writes, bool]:
    """Return how a call writes, and whether somebody chose that.

    `owners` are the ways of a policy and of an executor: rules of the policy are more exact than
    the one, and both hold. What a caller asked for can only be tighter, unless the caller is the
    owner; rules of a project hold for the owner, too.
    """
    check_way(asked)
    of_policy, of_executor = owners
    fitting = [rule for rule in rules if rule.writes and rule.fits(tool.id, tool.skill)]
    found = of_policy
    for rule in fitting:
        found = found if rule.lower_only else rule.way(found)
    found = tighter(found, of_executor)
    is_owner = isinstance(asked, OwnersWrites)
    wanted = cast("Writes | None", asked and str(asked))
    found = wanted if is_owner else found
    for rule in fitting:
        found = rule.way(found) if rule.lower_only else found
    if wanted is not None and not is_owner:
        if tighter(found or usual, wanted) != wanted:
            raise _too_loose(tool, wanted, found or usual)
        found = wanted
    return found or usual, found is not None


def _too_loose(tool: Tool, asked: Writes, holds: Writes) -> CallDeniedError:
    reason = f"its caller asked for writes={asked!r}, which is looser than {holds!r}"
    tools = json.dumps([tool.id], ensure_ascii=False)
    rule = f"`[[limits]]` with `tools = {tools}` and `writes = {json.dumps(asked)}` in policy.toml"
    return CallDeniedError(tool=tool.id, reasons=(reason,), hints=(rule,))


_USUAL = Limits()
_OF_PROGRAMS = Limits(timeout_seconds=PROGRAM_SECONDS)
_OF_BASH = Limits(timeout_seconds=BASH_SECONDS)


# A year, which means no limit: the session of a background job decides how long it runs.
_OF_JOBS = Limits(timeout_seconds=31_536_000.0)


class OwnersTimeout(float):
    """A time limit from the owner of the machine, at a terminal: it may exceed the usual limit."""


class Deadline(float):
    """How long a caller waits. Above the limit it is no error, because it does not ask for more.

    `asked` is what the caller asks for, if anything; above the limit this is an error.
    """

    asked: float | None

    def __new__(cls, seconds: float, *, asked: float | None = None) -> Self:
        made = super().__new__(cls, seconds)
        made.asked = asked
        return made


GrantedSeconds = Callable[[Tool], float | None]  # the time that the grant of a tool gives it


def limits_of(
    tool: Tool,
    limits: Limits | None,
    timeout: float | None,
    rules: Sequence[LimitRule],
    arguments: Mapping[str, Any] = MappingProxyType({}),
    granted: GrantedSeconds = lambda _: None,
) -> Limits:
    """Return the limits of one call, before anything that was granted is added.

    A caller can only lower the time; asking for more is an error, except for the owner of the
    machine. Rules of a policy or of a project hold for the owner, too. `granted` is asked only
    where the answer matters.
    """
    found = _before_rules(tool, limits)
    if _starts_job(tool, arguments):
        found = limits or _OF_JOBS
    if isinstance(timeout, OwnersTimeout):
        raised = min(max(timeout, found.timeout_seconds), _OF_JOBS.timeout_seconds)
        found = replace(found, timeout_seconds=float(raised))
    if rules:
        found = with_rules(rules, tool.id, tool.skill, found)
    most = found.timeout_seconds
    if _asks_bash_for_more(tool, arguments, most):
        _check_argument(tool, arguments, _with_grant(tool, most, granted))
    if timeout is None:
        return found
    asked = timeout.asked if isinstance(timeout, Deadline) else timeout
    if asked is not None and asked > most:
        most = _with_grant(tool, most, granted)
        if asked > most:
            how = _how_to_raise(tool, most, rules, found.timeout_seconds)
            raise TimeLimitError(tool.id, asked, float(most), how=how)
    return replace(found, timeout_seconds=capped(found.timeout_seconds, max(0.001, timeout)))


def _with_grant(tool: Tool, most: float, granted: GrantedSeconds) -> float:
    if isinstance(most, UsualSeconds) and not most.declared and tool.home:
        return most.with_grant(granted(tool))
    return most


def time_note(
    call: ToolCall,
    rules: Sequence[LimitRule],
    seconds: float,
    granted: float | None = None,
    roots: Sequence[str] = (),
) -> str:
    """Return a note for a call that timed out: who can give it more time."""
    tool = call.tool
    limit = limits_of(tool, call.terms.limits, None, rules, call.arguments).timeout_seconds
    most = limit.with_grant(granted) if isinstance(limit, UsualSeconds) else limit
    if seconds < most:
        return f"note: its caller limited it to {seconds:g} s of the {most:g} s it may have"
    how = _how_to_raise(tool, seconds, rules, limit, roots)
    return f"note: {seconds:g} s is its limit; only the user can raise it: {how}"


def _how_to_raise(
    tool: Tool, most: float, all_rules: Sequence[LimitRule], limit: float, roots: Sequence[str] = ()
) -> str:
    """Return who raises a limit: `most` is what holds, `limit` what holds without a grant."""
    rules = [rule for rule in all_rules if rule.fits(tool.id, tool.skill)]
    holding = [rule for rule in rules if rule.values.get("timeout_seconds") == most]
    if holding and holding[-1].lower_only:
        return "`timeout_seconds` of its `[[limits]]` in the project's skillpouch.toml"
    tools, more = json.dumps([tool.id], ensure_ascii=False), f"{2 * most:g}"
    rule = f"`[[limits]]` with `tools = {tools}` and `timeout_seconds = {more}` in policy.toml"
    if holding:
        return rule
    grant = _grant_of_time(tool, 2 * most, roots) if _is_grantable(tool, limit, 2 * most) else ""
    return f"{grant}{rule}, or `--timeout {more}` at a terminal"


def _is_grantable(tool: Tool, limit: float, more: float) -> bool:
    """Tell whether a grant would raise a limit: it does not raise what a skill declares."""
    is_usual = isinstance(limit, UsualSeconds) and not limit.declared
    return is_usual and bool(tool.home) and more <= LONGEST_SECONDS


def _grant_of_time(tool: Tool, seconds: float, roots: Sequence[str]) -> str:
    needs = [Need(kind="time", value=time_text(seconds))]
    needs += [Need(kind="commands")] if isinstance(tool.runs, BuiltIn) else []
    return f"`{trust_command(tool.skill, needs, roots=roots)}`, "


def _asks_bash_for_more(tool: Tool, arguments: Mapping[str, Any], most: float) -> bool:
    return _is_bash(tool) and arguments.get("timeout", 0) > most * 1000


def _check_argument(tool: Tool, arguments: Mapping[str, Any], most: float) -> None:
    """Refuse a `timeout` argument of `bash` above the limit, instead of silently lowering it."""
    if _asks_bash_for_more(tool, arguments, most):
        asked, fits = arguments["timeout"], f"at most {most * 1000:.0f} may be asked for"
        problem = f"`timeout` is {asked}, and {fits}: only the user can raise it"
        raise InvalidArgumentsError(tool.id, [problem])


def _before_rules(tool: Tool, limits: Limits | None) -> Limits:
    usual = _USUAL if isinstance(tool.runs, Hosted) else _usual_limits(tool.runs)
    found = limits or usual
    if tool.timeout_ms is None:
        return found
    declared = tool.timeout_ms / 1000
    if not isinstance(tool.runs, Function | Hosted | BuiltIn):
        # Code of the host says itself what it may have; a skill does not.
        declared = UsualSeconds(declared, declared=declared != usual.timeout_seconds)
    is_set = limits is not None and not isinstance(limits.timeout_seconds, UsualSeconds)
    # A plain number: who set it has decided about all that is below it, too.
    most = min(float(declared), found.timeout_seconds) if is_set else declared
    return replace(found, timeout_seconds=most)


def _starts_job(tool: Tool, arguments: Mapping[str, Any]) -> bool:
    return _is_bash(tool) and arguments.get("background") is True and "job" not in arguments


def _is_bash(tool: Tool) -> bool:
    return isinstance(tool.runs, BuiltIn) and tool.runs.name in ("bash", "run_for_skill")


def _usual_limits(runs: Runs) -> Limits:
    """Return the default limits of a tool of this kind."""
    match runs:
        case Binary() | InlineScript():
            return _OF_PROGRAMS
        case BuiltIn(name="bash" | "run_for_skill"):
            return _OF_BASH
        case _:
            return _USUAL
