"""Limits and ways of writing in policy files: the user sets them, a project can only tighten."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, cast

from skillpouch.errors import CallDeniedError
from skillpouch.limits import WAYS, Limits, Writes, check_way
from skillpouch.policy.patterns import any_fits
from skillpouch.tools import Tool

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
    return min(value, bound)


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
