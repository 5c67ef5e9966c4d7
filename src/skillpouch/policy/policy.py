"""Policy: finds the rules for a call by an index, decides, and suggests what would allow it."""

import shlex
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from skillpouch.limits import Layer, Limits, Writes, check_way
from skillpouch.needs import Need
from skillpouch.policy.change_rules import ChangeFacts, concerns_about
from skillpouch.policy.conditions import UNREADABLE, Absent, Condition, Equals, Glob, text_of
from skillpouch.policy.limit_rules import LimitRule, way_of, with_rules
from skillpouch.policy.patterns import PatternIndex, literally, spellings
from skillpouch.policy.project import Project
from skillpouch.policy.rules import Concern, Decision, Mode, Request, Rule, concerns_of, is_trusted
from skillpouch.runtime.memoize import BoundedCache
from skillpouch.tools import Tool
from skillpouch.trust.errors import trust_command


def hints_for(request: Request, concerns: Sequence[Concern], rules: Iterable[Rule]) -> list[str]:
    """Return what would settle each concern, and each rule that refuses."""
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


_Numbered = tuple[int, Rule]
# Tools whose rules are cached: one manager seldom has more.
_MOST_REMEMBERED = 4096


class RuleIndex:
    """An index of the rules of one policy, by tool and skill."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_tool = PatternIndex[_Numbered]()
        self._by_skill = PatternIndex[_Numbered]()
        self._of_tools: BoundedCache[tuple[str, str, str], _Rules]
        self._of_tools = BoundedCache(_MOST_REMEMBERED)
        self._of_all = _sorted_out([rule for rule in enumerate(rules) if not self._is_named(rule)])

    def _is_named(self, numbered: _Numbered) -> bool:
        """Index a rule by its tools or skills; return False if it is about all of them."""
        _, rule = numbered
        by_tool = _says_which(rule.tools)
        names, patterns = (self._by_tool, rule.tools) if by_tool else (self._by_skill, rule.skills)
        if not _says_which(patterns):
            return False
        for pattern in patterns:
            names.add(pattern, numbered)
        return True

    def matching(self, request: Request) -> list[Rule]:
        """Return the rules that match a call, in their order."""
        near = self._of_all.near(request)
        near += self._of_tool(request.tool, request.skill, request.name).near(request)
        found = [numbered for numbered in near if numbered[1].applies(request)]
        found.sort(key=_number)
        return [rule for _, rule in found]

    def minds_arguments(self, request: Request) -> bool:
        """Tell whether a rule about the tool of a call has conditions on its arguments."""
        of_tool = self._of_tool(request.tool, request.skill, request.name)
        return self._of_all.minds_arguments or of_tool.minds_arguments

    def _of_tool(self, tool: str, skill: str, name: str) -> "_Rules":
        key = (tool, skill, name)
        known = self._of_tools.get(key)
        if known is None:
            near = dict(self._by_tool.near(tool)) | dict(self._by_skill.near(skill))
            near |= dict(self._by_tool.near(name))
            fitting = [rule for rule in near.items() if rule[1].fits(tool, skill, name)]
            known = self._of_tools[key] = _sorted_out(fitting)
        return known


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """Rules, grouped by what a call must have for them to match."""

    always: Sequence[_Numbered]
    with_needs: Sequence[_Numbered]
    with_argument: Mapping[str, "_OfArgument"]

    @property
    def minds_arguments(self) -> bool:
        others = (*self.always, *self.with_needs)
        return bool(self.with_argument) or any(rule.when or rule.unless for _, rule in others)

    def near(self, request: Request) -> list[_Numbered]:
        near = list(self.always)
        if self.with_needs and (request.needs or request.granted or not request.confined):
            near += self.with_needs
        if request.arguments is UNREADABLE:
            near += [rule for rules in self.with_argument.values() for rule in rules.all]
        elif self.with_argument:
            for name, value in request.arguments.items():
                if name in self.with_argument:
                    near += self.with_argument[name].near(value)
        return near


def _sorted_out(rules: Iterable[_Numbered]) -> _Rules:
    always, with_needs = list[_Numbered](), list[_Numbered]()
    with_argument: defaultdict[str, _OfArgument] = defaultdict(_OfArgument)
    for numbered in rules:
        _, rule = numbered
        condition = next((c for c in rule.when if not isinstance(c.test, Absent)), None)
        if rule.need_patterns and not rule.allows:
            with_needs.append(numbered)
        elif condition is not None:
            with_argument[condition.path[0]].add(condition, numbered)
        else:
            always.append(numbered)
    return _Rules(always=always, with_needs=with_needs, with_argument=dict(with_argument))


class _OfArgument:
    """Rules about one argument, indexed by the text or pattern that it must match."""

    def __init__(self) -> None:
        self._by_text = PatternIndex[_Numbered]()
        self._others: list[_Numbered] = []
        self.all: list[_Numbered] = []

    def add(self, condition: Condition, rule: _Numbered) -> None:
        self.all.append(rule)
        test = condition.test
        pattern = _indexed(test) if len(condition.path) == 1 else None
        if pattern is None:
            self._others.append(rule)
        else:
            self._by_text.add(pattern, rule)

    def near(self, value: object) -> list[_Numbered]:
        # Lists, paths with several spellings and texts in doubt can match without the same prefix.
        if isinstance(value, str) and text_of(value) is not None and len(spellings(value)) == 1:
            return [*self._others, *self._by_text.near(value)]
        return self.all


def _indexed(test: object) -> str | None:
    """Return the pattern that a text must match; None if other spellings may match, too."""
    if isinstance(test, Glob):
        return test.pattern if test.pattern.isascii() else None
    if isinstance(test, Equals) and isinstance(test.value, str) and len(spellings(test.value)) == 1:
        return literally(test.value) if test.value.isascii() else None
    return None


def _says_which(patterns: Sequence[str]) -> bool:
    return bool(patterns) and "*" not in patterns


def _number(numbered: _Numbered) -> int:
    return numbered[0]


_WORDS = {"allow": "allows it", "ask": "asks about it", "deny": "denies it"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """Which calls may run. Deny beats ask, and ask beats allow, whatever the order of the rules.

    By default, a call that is confined, reaches no network and writes only its workspace is
    allowed; needs without a grant, and destructive effects, are asked about.
    `allowed_tools="advice"` also runs scripts of skills whose `allowed-tools` leaves out Bash.
    Nothing runs without the protections in `require`. Without an answer within `answer_seconds` a
    call is denied. `writes` is how calls write: "direct", "undoable" or "staged"; None is undoable
    where that costs little.
    """

    rules: Sequence[Rule] = ()
    mode: Mode = "careful"
    limits: Sequence[LimitRule] = ()
    allowed_tools: Literal["enforce", "advice"] = "enforce"
    require: Collection[str] = frozenset()
    require_journal: bool = False
    answer_seconds: float = 300.0
    writes: Writes | None = None
    _index: RuleIndex = field(init=False, repr=False, compare=False)
    _about_changes: RuleIndex | None = field(init=False, repr=False, compare=False)
    _places: bool = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "rules", tuple(self.rules))
        object.__setattr__(self, "limits", tuple(self.limits))
        object.__setattr__(self, "require", frozenset(self.require))
        _refuse(self.mode, get_args(Mode), "mode")
        _refuse(self.allowed_tools, ("enforce", "advice"), "allowed_tools")
        for layer in self.require:
            _refuse(layer, get_args(Layer), "require")
        check_way(self.writes)
        before = [rule for rule in self.rules if rule.changes is None]
        after = [rule for rule in self.rules if rule.changes is not None]
        object.__setattr__(self, "_index", RuleIndex(before))
        object.__setattr__(self, "_about_changes", RuleIndex(after) if after else None)
        object.__setattr__(self, "_places", any(rule.path for rule in self.rules))

    @classmethod
    def trusting(cls) -> "Policy":
        """Return a policy that grants skills the hosts, variables and packages they declare."""
        return cls(mode="trusting")

    @classmethod
    def strict(cls) -> "Policy":
        """Return a policy that also asks at the first use of a skill, and after every change."""
        return cls(mode="strict")

    def decide(self, request: Request) -> Decision:
        """Decide about one call. Pure: the result depends only on the request and the rules."""
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

    def minds_changes(self, facts: ChangeFacts) -> bool:
        """Tell whether changes have to be judged: not a few ones that no rule is about."""
        return self._about_changes is not None or any(concerns_about(self.mode, facts))

    def judge_changes(self, request: Request, facts: ChangeFacts) -> Decision:
        """Decide whether what a call did to its workspace may arrive there."""
        about = self._about_changes.matching(request) if self._about_changes else []
        about = [rule for rule in about if rule.judges(facts)]
        denying = [rule for rule in about if rule.verdict == "deny"]
        asking = [rule for rule in about if rule.verdict == "ask"]
        is_allowed = any(rule.allows for rule in about)
        concerns = [] if is_allowed else list(concerns_about(self.mode, facts))
        if not (denying or asking or concerns):
            return Decision(verdict="allow", reasons=tuple(map(_said, about)))
        rules = denying or asking
        tool = literally(request.tool)
        allowing = (
            f"Rule(verdict='allow', tools=[{tool!r}], changes=ChangeConditions(paths=['**']))"
        )
        return Decision(
            verdict="deny" if denying else "ask",
            reasons=(*map(_said, rules), *(() if denying else concerns)),
            hints=tuple(map(_rule_hint, rules)) or (f"Policy(rules=[{allowing}])",),
        )

    def writes_of(
        self, tool: Tool, given: Writes | None, asked: str | None, usual: Writes
    ) -> tuple[Writes, bool]:
        """Return how a call writes, and whether somebody chose that.

        `given` holds for all calls of an executor; `asked` is what a caller asks for, who can only
        tighten: "direct", then "undoable", then "staged". Without any of them it is `usual`.
        """
        if not (self.limits or self.writes or given or asked):
            return usual, False  # most calls
        return way_of(tool, (self.writes, given), self.limits, asked, usual)

    def minds_arguments(self, request: Request) -> bool:
        """Tell whether the decision may depend on the arguments of a call."""
        return self._index.minds_arguments(request)

    def for_any_arguments(self) -> "Policy":
        """Return a policy that decides about a tool before its arguments are known.

        A rule that refuses some arguments is left out; one that allows some allows the tool.
        """
        return replace(self, rules=[_unconditional(r) for r in self.rules if _speaks_of_all(r)])

    @property
    def minds_places(self) -> bool:
        """Whether a rule depends on the folder of a skill."""
        return self._places

    def limits_for(self, tool: str, skill: str, limits: Limits) -> Limits:
        """Return the limits of a tool: later rules override earlier ones."""
        return with_rules(self.limits, tool, skill, limits)

    def tightened_by(self, project: Project) -> "Policy":
        """Return this policy with the rules and limits of a project; it never allows more."""
        lower = tuple(replace(rule, lower_only=True) for rule in project.limits)
        if project.writes:
            lower = (*lower, LimitRule(writes=project.writes, lower_only=True))
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
