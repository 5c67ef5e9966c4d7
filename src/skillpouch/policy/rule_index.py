"""Finding the few rules that can be about a call among thousands, without trying each."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from skillpouch.policy.argument_tests import Equals, Glob, text_of
from skillpouch.policy.conditions import UNREADABLE, Absent, Condition
from skillpouch.policy.decisions import Request
from skillpouch.policy.pattern_index import PatternIndex
from skillpouch.policy.patterns import literally, spellings
from skillpouch.policy.rules import Rule

_Numbered = tuple[int, Rule]
# Tools whose rules are remembered: one manager seldom has more.
_MOST_REMEMBERED = 4096


class RuleIndex:
    """The rules of one policy, made ready once."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._by_tool = PatternIndex[_Numbered]()
        self._by_skill = PatternIndex[_Numbered]()
        self._of_tools: dict[tuple[str, str, str], _Rules] = {}
        self._of_all = _sorted_out([rule for rule in enumerate(rules) if not self._is_named(rule)])

    def _is_named(self, numbered: _Numbered) -> bool:
        """Put a rule that is only about some tools or skills under their names."""
        _, rule = numbered
        by_tool = _says_which(rule.tools)
        names, patterns = (self._by_tool, rule.tools) if by_tool else (self._by_skill, rule.skills)
        if not _says_which(patterns):
            return False
        for pattern in patterns:
            names.add(pattern, numbered)
        return True

    def matching(self, request: Request) -> list[Rule]:
        """Return the rules that are about a call, in their order."""
        near = self._of_all.near(request)
        near += self._of_tool(request.tool, request.skill, request.name).near(request)
        found = [numbered for numbered in near if numbered[1].applies(request)]
        found.sort(key=_number)
        return [rule for _, rule in found]

    def minds_arguments(self, request: Request) -> bool:
        """Tell whether a rule about the tool of a call looks at its arguments."""
        of_tool = self._of_tool(request.tool, request.skill, request.name)
        return self._of_all.minds_arguments or of_tool.minds_arguments

    def _of_tool(self, tool: str, skill: str, name: str) -> "_Rules":
        key = (tool, skill, name)
        known = self._of_tools.get(key)
        if known is None:
            if len(self._of_tools) >= _MOST_REMEMBERED:
                self._of_tools.clear()
            near = dict(self._by_tool.near(tool)) | dict(self._by_skill.near(skill))
            near |= dict(self._by_tool.near(name))
            fitting = [rule for rule in near.items() if rule[1].fits(tool, skill, name)]
            known = self._of_tools[key] = _sorted_out(fitting)
        return known


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rules:
    """Rules by what a call must have for them to matter."""

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
    """Rules about one argument, by the text it must be or fit."""

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
        # Lists, paths with detours and texts in doubt can match in other ways than by a prefix.
        if isinstance(value, str) and text_of(value) is not None and len(spellings(value)) == 1:
            return [*self._others, *self._by_text.near(value)]
        return self.all


def _indexed(test: object) -> str | None:
    """Return the pattern that a text must begin like; None when it may be spelled otherwise."""
    if isinstance(test, Glob):
        return test.pattern if test.pattern.isascii() else None
    if isinstance(test, Equals) and isinstance(test.value, str) and len(spellings(test.value)) == 1:
        return literally(test.value) if test.value.isascii() else None
    return None


def _says_which(patterns: Sequence[str]) -> bool:
    return bool(patterns) and "*" not in patterns


def _number(numbered: _Numbered) -> int:
    return numbered[0]
