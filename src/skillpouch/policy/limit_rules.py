"""Limits in policy files: the user sets them, a project can only lower them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from skillpouch.limits import Limits
from skillpouch.policy.patterns import any_fits

LIMITS = tuple(field.name for field in fields(Limits))
_UNBOUNDED = ("memory_bytes", "open_files", "file_bytes", "cpu_seconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitRule:
    """`values` of `Limits` for the tools that fit; None means no limit, if `Limits` allows it."""

    values: Mapping[str, float | None]
    tools: Sequence[str] = ()
    skills: Sequence[str] = ()
    lower_only: bool = False

    def __post_init__(self) -> None:
        for name in ("tools", "skills"):
            value = getattr(self, name)
            object.__setattr__(self, name, (value,) if isinstance(value, str) else tuple(value))
        for name, value in self.values.items():
            problem = wrong_limit(name, value)
            if problem:
                raise ValueError(problem)

    def apply(self, limits: Limits) -> Limits:
        """Return the limits with the values of this rule."""
        values: dict[str, Any] = dict(self.values)
        if self.lower_only:
            values = {name: _lower(value, getattr(limits, name)) for name, value in values.items()}
        return replace(limits, **values)

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
