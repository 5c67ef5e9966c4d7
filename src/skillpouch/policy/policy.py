"""Policy: allow, ask or deny, per call, from rules and from what the call needs."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from skillpouch.execution.confinement import Layer
from skillpouch.limits import Limits
from skillpouch.policy.concerns import Concern, Mode, concerns_of
from skillpouch.policy.decisions import Decision, Request
from skillpouch.policy.hints import hints_for
from skillpouch.policy.limit_rules import LimitRule
from skillpouch.policy.project import Project
from skillpouch.policy.rule_index import RuleIndex
from skillpouch.policy.rules import Rule

_WORDS = {"allow": "allows it", "ask": "asks about it", "deny": "denies it"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Who may do what. Deny beats ask beats allow, whatever the order of the rules.

    Out of the box a call that is confined, reaches no network and writes only its workspace is
    allowed; needs that nobody granted, and destructive effects, ask. `allowed_tools="advice"`
    runs scripts of skills whose `allowed-tools` leaves out Bash. `require` names protections
    that must be there. No answer within `answer_seconds` is a no.
    """

    rules: Sequence[Rule] = ()
    mode: Mode = "careful"
    limits: Sequence[LimitRule] = ()
    allowed_tools: Literal["enforce", "advice"] = "enforce"
    require: Collection[str] = frozenset()
    require_journal: bool = False
    answer_seconds: float = 300.0
    _index: RuleIndex = field(init=False, repr=False, compare=False)
    _places: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(self.rules))
        object.__setattr__(self, "limits", tuple(self.limits))
        object.__setattr__(self, "require", frozenset(self.require))
        _refuse(self.mode, get_args(Mode), "mode")
        _refuse(self.allowed_tools, ("enforce", "advice"), "allowed_tools")
        for layer in self.require:
            _refuse(layer, get_args(Layer), "require")
        object.__setattr__(self, "_index", RuleIndex(self.rules))
        object.__setattr__(self, "_places", any(rule.path for rule in self.rules))

    @classmethod
    def trusting(cls) -> "Policy":
        """Return a policy that gives skills the hosts, variables and packages they declare."""
        return cls(mode="trusting")

    @classmethod
    def strict(cls) -> "Policy":
        """Return a policy that also asks when a skill is used first, and after every change."""
        return cls(mode="strict")

    def decide(self, request: Request) -> Decision:
        """Answer for one call. Pure: it looks at nothing but the request and the rules."""
        about = self._index.matching(request)
        denying = [rule for rule in about if rule.verdict == "deny"]
        if denying:
            return _decision("deny", request, (), denying)
        allowing = [rule for rule in about if rule.allows]
        asking = [rule for rule in about if rule.verdict == "ask"]
        concerns = [
            concern
            for concern in concerns_of(request, self.mode)
            if not any(concern.is_settled_by(rule) for rule in allowing)
        ]
        if asking or concerns:
            return _decision("ask", request, concerns, asking)
        return _allowed(request, allowing)

    def minds_arguments(self, request: Request) -> bool:
        """Tell whether other arguments of the same tool might be decided otherwise."""
        return self._index.minds_arguments(request)

    def for_any_arguments(self) -> "Policy":
        """Return what this policy says of a tool before anybody says with which arguments.

        A rule that refuses some arguments does not refuse the tool; one that allows some may.
        """
        return replace(self, rules=[_unconditional(r) for r in self.rules if _speaks_of_all(r)])

    @property
    def minds_places(self) -> bool:
        """Whether a rule looks at where a skill lies."""
        return self._places

    def limits_for(self, tool: str, skill: str, limits: Limits) -> Limits:
        """Return the limits of a tool: the rules in order, the later one winning."""
        for rule in self.limits:
            if rule.fits(tool, skill):
                limits = rule.apply(limits)
        return limits

    def tightened_by(self, project: Project) -> "Policy":
        """Return this policy with what a project adds; it never allows more than before."""
        lower = tuple(replace(rule, lower_only=True) for rule in project.limits)
        return replace(
            self,
            rules=(*self.rules, *project.rules),
            mode="strict" if project.strict else self.mode,
            limits=(*self.limits, *lower),
            allowed_tools="enforce" if project.enforce_allowed_tools else self.allowed_tools,
            require={*self.require, *project.require},
            require_journal=self.require_journal or project.require_journal,
        )


def _speaks_of_all(rule: Rule) -> bool:
    return rule.allows or not (rule.when or rule.unless)


def _unconditional(rule: Rule) -> Rule:
    if not (rule.when or rule.unless):
        return rule
    return replace(rule, when=(), unless=(), match=(), no_match=())


def _refuse(value: object, known: tuple[str, ...], name: str) -> None:
    if value not in known:
        raise ValueError(f"{name} is {value!r}: there are {', '.join(known)}")


def _decision(
    verdict: Literal["ask", "deny"],
    request: Request,
    concerns: Sequence[Concern],
    rules: Sequence[Rule],
) -> Decision:
    return Decision(
        verdict=verdict,
        reasons=(*map(_said, rules), *(concern.reason for concern in concerns)),
        hints=tuple(hints_for(request, concerns, rules)),
    )


def _allowed(request: Request, rules: Sequence[Rule]) -> Decision:
    if rules:
        return Decision(verdict="allow", reasons=tuple(map(_said, rules)))
    if request.needs:
        return Decision(verdict="allow", reasons=("its skill declares what it needs",))
    return Decision(verdict="allow", reasons=("it needs nothing that was not granted",))


def _said(rule: Rule) -> str:
    because = f": {rule.reason}" if rule.reason else ""
    return f"rule {rule.label!r} {_WORDS[rule.verdict]}{because}"
