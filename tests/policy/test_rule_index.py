"""The index: it may look at too many rules, never at too few."""

from typing import Any

import pytest

from skillpouch import Policy
from skillpouch.policy import Absent, Condition, Equals, Glob, Present, Request, Rule
from skillpouch.policy.conditions import UNREADABLE


def denied_by(rules: list[Rule], arguments: dict[str, Any], tool: str = "a.b") -> list[str]:
    request = Request(tool=tool, skill="a", arguments=arguments, confined=True, first_use=False)
    decision = Policy(rules=rules).decide(request)
    return list(decision.reasons) if decision.verdict == "deny" else []


def deny(test: Any, argument: str = "k") -> Rule:
    return Rule(verdict="deny", name="it", when=[Condition(argument=argument, test=test)])


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        (deny(Equals("x")), "x"),
        (deny(Equals("x*")), "x*"),
        (deny(Equals(7)), 7),
        (deny(Equals("x")), ["y", "x"]),
        (deny(Glob("/etc/*")), "/etc/passwd"),
        (deny(Glob("/etc/*")), "/tmp/../etc/passwd"),
        (deny(Glob("*.key")), "my.key"),
        (deny(Glob("x")), "x\ud800"),
        (deny(Glob("*")), ""),
        (deny(Present()), None),
        (deny(Equals(1), "k.l"), {"l": 1}),
        (deny(Equals(1), "k.l"), [{"l": 1}]),
        (deny(Equals(1), "k.l"), '{"l": 1}'),
        (deny(Equals(1)), "1"),
        (deny(Equals("1")), 1),
        (deny(Equals("a/b")), "./a//b"),
        (deny(Equals("./a/b")), "a/b"),
        (deny(Glob("secret*")), "./secret.txt"),
        (deny(Glob("caf\u00e9*")), "cafe\u0301.txt"),
        (deny(Glob("cafe\u0301*")), "caf\u00e9.txt"),
        (deny(Equals("cafe\u0301")), "caf\u00e9"),
    ],
)
def test_a_rule_about_an_argument_is_found(rule: Rule, value: Any) -> None:
    others = [deny(Glob(f"other{n}*{n}")) for n in range(20)]

    assert denied_by([*others, rule], {"j": 1, "k": value})[-1] == "rule 'it' denies it"


@pytest.mark.parametrize("value", ["/et", "x", "y", "", ["y"], None, {}])
def test_a_rule_about_another_value_is_not(value: Any) -> None:
    rules = [deny(Equals("xx")), deny(Equals(8)), deny(Equals("z"), "n.l"), deny(Equals("z"), "m")]
    long = [Rule(verdict="deny", tools=["a.bcdefgh*", "*fedcba.b"])]

    assert denied_by([*rules, *long, deny(Equals("longer than that"))], {"k": value}) == []


def test_a_rule_with_two_patterns_that_fit_speaks_once() -> None:
    rule = Rule(verdict="deny", name="it", tools=["a.b", "a.*", "*.b"])

    assert denied_by([rule], {}) == ["rule 'it' denies it"]


@pytest.mark.promise("call-10")
def test_arguments_that_nobody_can_read_are_in_doubt_for_every_rule_about_one() -> None:
    rules = [deny(Equals("x")), deny(Absent(), "m"), deny(Glob("y"), "n.o")]
    request = Request(tool="a.b", skill="a", arguments=UNREADABLE, confined=True, first_use=False)

    for rule in rules:
        assert Policy(rules=[rule]).decide(request).verdict == "deny"
    allow = Rule(verdict="allow", when=[Condition(argument="k", test=Present())])
    assert not allow.is_about(request)
