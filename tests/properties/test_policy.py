"""Generated policies, calls and files: a stricter policy never allows more, and nothing raises."""

import json
import math
import re
import shlex
from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skillpouch import Limits, Policy
from skillpouch.errors import PolicyFileError
from skillpouch.needs import Need, NeedKind
from skillpouch.policy import (
    Absent,
    Condition,
    Equals,
    Glob,
    Greater,
    Less,
    LimitRule,
    Present,
    Regex,
    Request,
    Rule,
)
from skillpouch.policy.loading import (
    parse_project,
    parse_user_policy,
    policy_document,
    policy_of_document,
)
from skillpouch.policy.patterns import literal_ends, matcher
from skillpouch.policy.project import Project
from skillpouch.policy.rules import Mode
from skillpouch.tools import Effect

pytestmark = pytest.mark.slow

OFTEN = settings(deadline=None, max_examples=100)
STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}
MODES: tuple[Mode, ...] = get_args(Mode)

names = st.sampled_from(["a.b", "a.c", "a.c.d", "p:a.b", "b.b", "*"])
patterns = st.sampled_from(["a.b", "a.*", "*.b", "*", "?.b", "*c*", r"\*"])
values = st.sampled_from(["x", "docs/x", "docs/../x", "/etc//x", "", "\ud800", "7"])
scalars = values | st.integers() | st.floats() | st.booleans() | st.none()
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("kl"), inner),
)
tests = st.one_of(
    st.builds(Equals, anything),
    st.builds(Glob, st.sampled_from(["*", "x", "docs/*", "*x", "/etc/*", "?"])),
    st.builds(Regex, st.sampled_from(["x", "^docs/", "[0-9]$"])),
    st.builds(Greater, st.integers(-9, 9)),
    st.builds(Less, st.integers(-9, 9)),
    st.just(Present()),
    st.just(Absent()),
)
conditions = st.lists(
    st.builds(Condition, argument=st.sampled_from(["k", "l", "k.l"]), test=tests), max_size=2
)
effects = st.lists(st.sampled_from(get_args(Effect)), max_size=3, unique=True).map(tuple)
kinds: st.SearchStrategy[NeedKind] = st.sampled_from(get_args(NeedKind))
needs = st.lists(
    st.builds(
        Need,
        kind=kinds,
        value=st.sampled_from(["API_KEY", "example.com", "*.com", "/srv/x", ""]),
        declared=st.booleans(),
    ),
    max_size=3,
).map(tuple)
need_patterns = st.lists(
    st.sampled_from([*get_args(NeedKind), "host:example.com", "secret:API_*", "read:/srv/*"]),
    max_size=2,
)


def rules_that(*verdicts: str) -> st.SearchStrategy[list[Rule]]:
    return st.lists(
        st.builds(
            Rule,
            verdict=st.sampled_from(verdicts),
            tools=st.lists(patterns, max_size=2),
            skills=st.lists(st.sampled_from(["a", "b", "*", "p:*"]), max_size=1),
            effects=effects,
            needs=need_patterns,
            path=st.lists(st.sampled_from(["/s", "/s/a", "/w/x"]), min_size=1, max_size=2),
            when=conditions,
            unless=conditions,
        ),
        max_size=4,
    )


any_rules = rules_that("allow", "ask", "deny")
policies = st.builds(Policy, rules=any_rules, mode=st.sampled_from(MODES))
requests = st.builds(
    Request,
    tool=names,
    skill=st.sampled_from(["a", "b", "p:a"]),
    confined=st.booleans(),
    first_use=st.booleans(),
    effects=effects,
    arguments=st.dictionaries(st.sampled_from("kl"), anything),
    needs=needs,
    granted=needs,
    home=st.sampled_from(["", "/s/a", "/s/b", "/w/x", "/w/y"]),
    workspace=st.just("/w"),
)


def strictness(policy: Policy, request: Request) -> int:
    return STRICTNESS[policy.decide(request).verdict]


@OFTEN
@given(policies, requests)
def test_every_call_gets_an_answer_with_reasons(policy: Policy, request: Request) -> None:
    decision = policy.decide(request)

    assert decision.verdict in STRICTNESS
    assert decision.reasons
    assert bool(decision.hints) is (decision.verdict != "allow")


@pytest.mark.promise("pol-3")
@OFTEN
@given(policies, requests, rules_that("ask", "deny"))
def test_a_rule_that_refuses_never_allows_more(
    policy: Policy, request: Request, more: list[Rule]
) -> None:
    stricter = replace(policy, rules=[*more, *policy.rules])

    assert strictness(stricter, request) >= strictness(policy, request)


def is_written(value: Any) -> bool:
    """Tell whether a file can hold a value and compare it: neither nothing nor no number."""
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return all(each is None or is_written(each) for each in inner)
    return value is not None and not (isinstance(value, float) and math.isnan(value))


limit_rules = st.lists(
    st.builds(
        LimitRule,
        values=st.dictionaries(
            st.sampled_from(["timeout_seconds", "processes", "keep_bytes"]), st.integers(1, 99)
        ),
        tools=st.lists(patterns, max_size=2),
        lower_only=st.booleans(),
        writes=st.sampled_from([None, "direct", "staged"]),
    ),
    max_size=3,
)


@OFTEN
@given(policies, limit_rules, requests, st.floats(0.1, 1e9))
def test_a_policy_that_travels_to_another_process_decides_alike(
    policy: Policy, limits: list[LimitRule], request: Request, seconds: float
) -> None:
    policy = replace(policy, limits=limits, answer_seconds=seconds, require={"fs"})

    document = policy_document(policy)

    tested = [each.test for rule in policy.rules for each in (*rule.when, *rule.unless)]
    if document is None:
        assert not all(is_written(test.value) for test in tested if isinstance(test, Equals))
        return
    read = policy_of_document(json.loads(json.dumps(document)))
    assert read.decide(request) == policy.decide(request)
    assert (read.limits, read.answer_seconds) == (policy.limits, policy.answer_seconds)
    assert policy_document(read) == document


def test_a_rule_with_a_test_of_its_own_does_not_travel() -> None:
    class Mine:
        def holds(self, value: Any, *, cautious: bool) -> bool:
            return bool(value) or cautious

    rule = Rule(verdict="deny", when=[Condition(argument="k", test=Mine())])

    assert policy_document(Policy(rules=[rule])) is None


@OFTEN
@given(policies, requests)
def test_the_modes_are_in_order(policy: Policy, request: Request) -> None:
    found = [strictness(replace(policy, mode=mode), request) for mode in MODES]

    assert found == sorted(found)


@OFTEN
@given(policies, requests)
def test_without_its_allow_rules_a_policy_never_allows_more(
    policy: Policy, request: Request
) -> None:
    fewer = replace(policy, rules=[rule for rule in policy.rules if not rule.allows])

    assert strictness(fewer, request) >= strictness(policy, request)


@pytest.mark.promise("pol-5")
@OFTEN
@given(policies, requests, rules_that("ask", "deny"), st.booleans())
def test_no_project_allows_more(
    policy: Policy, request: Request, rules: list[Rule], strict: bool
) -> None:
    project = Project(rules=tuple(rules), strict=strict)

    assert strictness(policy.tightened_by(project), request) >= strictness(policy, request)


@OFTEN
@given(policies, requests, needs)
def test_a_call_that_needs_more_is_never_allowed_more(
    policy: Policy, request: Request, more: tuple[Need, ...]
) -> None:
    # A host that is named answers the question that a network without one asks.
    more = tuple(need for need in more if need.kind not in ("host", "unconfined"))
    needy = replace(request, needs=(*request.needs, *more))

    assert strictness(policy, needy) >= strictness(policy, request)


@OFTEN
@given(policies, requests)
def test_the_index_finds_what_trying_every_rule_finds(policy: Policy, request: Request) -> None:
    tried = [rule for rule in policy.rules if rule.is_about(request)]

    assert policy._index.matching(request) == tried


@OFTEN
@given(policies, requests, st.randoms())
def test_the_order_of_the_rules_does_not_matter(
    policy: Policy, request: Request, random: Any
) -> None:
    shuffled = random.sample(list(policy.rules), len(policy.rules))

    assert strictness(replace(policy, rules=shuffled), request) == strictness(policy, request)


@OFTEN
@given(policies, requests)
def test_doing_what_the_hints_say_allows_the_call(policy: Policy, request: Request) -> None:
    decision = policy.decide(request)
    if any("change the rule" in hint for hint in decision.hints):
        return

    for hint in decision.hints:
        if hint.startswith("Policy(rules="):
            policy = replace(policy, rules=[*policy.rules, *eval(hint).rules])
        elif hint.startswith("skillpouch trust"):
            assert shlex.split(hint)[:3] == ["skillpouch", "trust", request.skill]
            unconfined = (Need(kind="unconfined"),) if "--unconfined" in hint else ()
            granted = (*request.granted, *request.needs, *unconfined)
            request = replace(request, needs=(), granted=granted, first_use=False)

    # Rules about needs mind granted ones, too; nothing else is left to be asked.
    left = policy.decide(request)
    assert left.verdict == "allow" or any("rule " in reason for reason in left.reasons)


@OFTEN
@given(st.text("ab*?\\.", max_size=8), st.text("ab*?\\.", max_size=8))
def test_a_pattern_matches_what_a_slower_one_matches(pattern: str, text: str) -> None:
    pieces = re.findall(r"\\.|.", pattern)
    slow = "".join({"*": ".*", "?": "."}.get(piece, re.escape(piece[-1])) for piece in pieces)
    fits = re.fullmatch(slow, text) is not None

    assert bool(matcher(pattern)(text)) is fits
    prefix, suffix, exact = literal_ends(pattern)
    if fits:
        assert text.startswith(prefix)
        assert text.endswith(suffix)
        assert text == prefix or not exact


some_limits = st.fixed_dictionaries(
    {},
    optional={
        "timeout_seconds": st.floats(0.1, 1000),
        "keep_bytes": st.integers(1, 10**9),
        "memory_bytes": st.none() | st.integers(1, 10**12),
        "cpu_seconds": st.none() | st.integers(1, 1000),
    },
)


@pytest.mark.promise("pol-5")
@OFTEN
@given(st.builds(Limits), some_limits, some_limits)
def test_no_project_raises_a_limit(
    limits: Limits, users: dict[str, Any], projects: dict[str, Any]
) -> None:
    policy = Policy(limits=[LimitRule(values=users)])
    tightened = policy.tightened_by(Project(limits=(LimitRule(values=projects),)))

    before, after = (p.limits_for("a.b", "a", limits) for p in (policy, tightened))

    for name in ("timeout_seconds", "keep_bytes", "memory_bytes", "cpu_seconds"):
        bound, lower = getattr(before, name), getattr(after, name)
        assert bound is None or (lower is not None and lower <= bound)


PIECES = st.sampled_from(
    [
        *("[[rules]]\n", "[[limits]]\n", "[rules]\n", "[[rules.when]]\n", "verdict = 'deny'\n"),
        *(
            "tools = ",
            "['a.*']\n",
            "when = [{argument = 'a', ",
            "regex = '('}]\n",
            "equals = 1}]\n",
        ),
        *("mode = ", "=\n", "'strict'\n", "1979-05-27\n", "inf\n", "nan\n", "timeout_seconds = "),
        *("[[requests]]\n", "''\n", "needs = ", "['host']\n", "{}\n", "[[]]\n", "0x_\n", "\x00"),
        *("\u202e", '"""', "examples = ", "[configuration]\n", "roots = ", "'..'\n", "true\n"),
        *("answer_seconds = ", "greater = nan}]\n"),
    ]
)
files = st.binary(max_size=200) | st.lists(PIECES, max_size=12).map(lambda p: "".join(p).encode())


@pytest.mark.promise("pol-6")
@settings(deadline=None, max_examples=200)
@given(files)
def test_any_bytes_are_a_policy_or_one_error(data: bytes) -> None:
    for parse in (parse_user_policy, parse_project):
        made: Policy | Project | PolicyFileError
        try:
            made = parse(data, "the.toml")
        except PolicyFileError as error:
            made = error
        if isinstance(made, PolicyFileError):
            assert {problem.path for problem in made.problems} == {"the.toml"}
            assert "\u202e" not in str(made)
