"""Calls that a rule says it must match, or must not: tried when the rule is made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from skillpouch.needs import Need
from skillpouch.policy.decisions import Request
from skillpouch.policy.need_patterns import parse_need
from skillpouch.tools import Effect


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A call as a rule sees it; the skill is what stands before the first dot of the id."""

    tool: str
    skill: str = ""
    effects: tuple[Effect, ...] = ("read", "write", "execute")
    arguments: Mapping[str, Any] = field(default_factory=dict)
    needs: tuple[str, ...] = ()

    def request(self, home: str = "") -> Request:
        """Return the call that this example stands for, of a skill that lies in `home`."""
        needs = tuple(_need(text) for text in self.needs)
        return Request(
            tool=self.tool,
            skill=self.skill or self.tool.partition(".")[0],
            effects=self.effects,
            arguments=self.arguments,
            needs=needs,
            confined=all(need.kind != "unconfined" for need in needs),
            first_use=False,
            home=home,
        )


def _need(text: str) -> Need:
    pattern = parse_need(text)
    return Need(kind=pattern.kind, value="" if pattern.kind == "unconfined" else pattern.value)
