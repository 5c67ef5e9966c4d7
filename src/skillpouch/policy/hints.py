"""The exact command, or `Policy` argument, that would allow a call."""

import shlex
from collections.abc import Iterable, Sequence

from skillpouch.needs import Need
from skillpouch.policy.concerns import Concern, is_trusted
from skillpouch.policy.decisions import Request
from skillpouch.policy.patterns import literally
from skillpouch.policy.rules import Rule
from skillpouch.trust.errors import trust_command


def hints_for(request: Request, concerns: Sequence[Concern], rules: Iterable[Rule]) -> list[str]:
    """Return what to do about each concern, and about each rule that refuses."""
    needs = [concern.about for concern in concerns if isinstance(concern.about, Need)]
    others = {concern.about for concern in concerns if not isinstance(concern.about, Need)}
    hints = []
    if needs or "first_use" in others:
        hints.append(trust_command(request.skill, needs, roots=request.roots))
    if needs and all(is_trusted(need) for need in needs):
        hints.append("Policy.trusting()")
    if "network" in others:
        hints.append(f"skillpouch trust {shlex.quote(request.skill)} --host HOST{_below(request)}")
    if others - {"first_use"}:
        tool = literally(request.tool)
        hints.append(f"Policy(rules=[Rule(verdict='allow', tools=[{tool!r}])])")
    return hints + [_rule_hint(rule) for rule in rules]


def _below(request: Request) -> str:
    return "".join(f" --root {shlex.quote(root)}" for root in request.roots)


def _rule_hint(rule: Rule) -> str:
    where = rule.origin or "Policy(rules=…)"
    return f"change the rule {rule.label!r} in {where}"
