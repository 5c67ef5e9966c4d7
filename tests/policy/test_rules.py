"""Rules: patterns, conditions on arguments, examples."""

from typing import Any

import pytest

from skillpouch.needs import Need, NeedKind
from skillpouch.policy import (
    Absent,
    Condition,
    Equals,
    Example,
    Glob,
    Greater,
    Less,
    Present,
    Regex,
    Request,
    Rule,
)
from skillpouch.policy.conditions import ValueTest
from skillpouch.policy.patterns import literally, matcher, parse_need
from skillpouch.policy.rules import RuleError


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        ("git.push", "git.push", True),
        ("git.push", "git.pusher", False),
        ("git.push", "Git.push", False),
        ("git.*", "git.remote.add", True),
        ("git.*", "gitx.push", False),
        ("*.push", "plugin:git.push", True),
        ("*", "", True),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*b", "a-b", False),
        ("*aa", "aaa", True),
        ("ab*ba", "aba", False),
        ("a?c", "a.c", True),
        ("a?c", "ac", False),
        ("a?", "a\n", True),
        (r"a\*c", "a*c", True),
        (r"a\*c", "abc", False),
        ("a[bc]", "a[bc]", True),
        ("trailing\\", "trailing\\", True),
    ],
)
def test_a_pattern_is_stars_and_question_marks_and_nothing_else(
    pattern: str, text: str, fits: bool
) -> None:
    assert bool(matcher(pattern)(text)) is fits


def test_every_text_has_a_pattern_of_its_own() -> None:
    for text in ("a*b", "a?b", "a\\b", "a\\*b", "plain"):
        assert matcher(literally(text))(text)
        assert not matcher(literally(text))(text.replace("a", "ab"))


def holds(test: ValueTest | Present | Absent, arguments: dict[str, Any]) -> tuple[bool, bool]:
    """Return what a rule that refuses, and one that allows, makes of it."""
    condition = Condition(argument="a", test=test)
    return condition.holds(arguments, cautious=True), condition.holds(arguments, cautious=False)


YES, NO, DOUBT = (True, True), (False, False), (True, False)


CASES: list[tuple[ValueTest | Present | Absent, Any, tuple[bool, bool]]] = [
    (Equals(1), 1.0, YES),
    (Equals(1), True, NO),
    (Equals(True), True, YES),
    (Equals(True), 1, NO),
    (Equals("1"), 1, DOUBT),
    (Equals(1), "1.0", DOUBT),
    (Equals(1), "2", NO),
    (Equals(True), "True ", DOUBT),
    (Equals(True), "yes", NO),
    (Equals("x"), {}, NO),
    (Equals("x"), "y", NO),
    (Equals("docs/a"), "docs/./a", DOUBT),
    (Equals(None), "null", DOUBT),
    (Glob("a*"), "./a", DOUBT),
    (Regex("^docs/"), "./docs/a", DOUBT),
    (Regex("^docs/"), "docs/../etc", DOUBT),
    (Glob("caf\u00e9"), "cafe\u0301", DOUBT),
    (Glob("cafe\u0301"), "caf\u00e9", YES),
    (Equals(None), None, YES),
    (Equals([1, {"b": 2}]), [1, {"b": 2}], YES),
    (Equals([1, 2]), [1, 2, 3], NO),
    (Equals({"b": [True]}), {"b": [True]}, YES),
    (Equals({"b": [True]}), {"b": [1]}, NO),
    (Equals({"b": 1}), {"c": 1}, NO),
    (Equals([]), [], YES),
    (Equals(1), object(), NO),
    (Glob("docs/*"), "docs/a/b.md", YES),
    (Glob("docs/*"), "src/a", NO),
    (Glob("docs/*"), "docs/../etc/passwd", DOUBT),
    (Glob("/etc/*"), "/tmp/../etc/passwd", DOUBT),
    (Glob("/etc/*"), "//etc/passwd", DOUBT),
    (Glob("/etc/*"), "/tmp/./x", NO),
    (Glob("https://example.com/*"), "https://example.com/a", YES),
    (Glob("https://example.com/a*"), "https://example.com/a/../b", DOUBT),
    (Glob(".."), "..", YES),
    (Glob("4?"), 42, YES),
    (Glob("true"), True, YES),
    (Glob("null"), None, YES),
    (Glob("x*"), 10**5000, DOUBT),
    (Glob("x*"), {"b": 1}, DOUBT),
    (Glob("x*"), "x" * (1 << 20) + "x", DOUBT),
    (Glob("é*"), "éa", YES),
    (Glob("x*"), "x\ud800", DOUBT),
    (Regex("^v[0-9]+$"), "v12", YES),
    (Regex("^v[0-9]+$"), "v12\n", NO),
    (Regex("b"), "abc", YES),
    (Regex("b"), [], NO),
    (Regex("b"), {}, DOUBT),
    (Greater(10), 11, YES),
    (Greater(10), 10, NO),
    (Greater(10), "1e3", YES),
    (Greater(10), "many", DOUBT),
    (Greater(10), float("nan"), DOUBT),
    (Greater(10), True, DOUBT),
    (Less(10), 9.5, YES),
    (Less(10), 10, NO),
    (Less(10), None, DOUBT),
    (Less(10), 10**5000, NO),
    (Present(), None, YES),
    (Absent(), None, NO),
    (Equals("x"), ["x", "y"], DOUBT),
    (Equals("x"), ["x", ["x"]], YES),
    (Glob("docs/*"), ["docs/a", "/etc/passwd"], DOUBT),
    (Glob("docs/*"), [], NO),
    (Glob("docs/*"), ["docs/a"] * 10_001, DOUBT),
    (Present(), [], YES),
]


@pytest.mark.parametrize(
    ("test", "value", "answer"), CASES, ids=[str(number) for number in range(len(CASES))]
)
def test_what_a_condition_makes_of_a_value(
    test: ValueTest | Present | Absent, value: Any, answer: tuple[bool, bool]
) -> None:
    assert holds(test, {"a": value}) == answer


def test_an_argument_that_was_not_given_fits_nothing_but_absent() -> None:
    for test in (Equals(None), Glob("*"), Regex(""), Greater(0), Less(0), Present()):
        assert holds(test, {}) == NO
    assert holds(Absent(), {}) == YES


def test_keys_of_keys_are_found_through_lists() -> None:
    condition = Condition(argument="items.path", test=Glob("docs/*"))
    mixed = {"items": [{"path": "docs/a"}, [{"path": "/etc"}], {"other": 1}, 7]}

    assert condition.holds(mixed, cautious=True)
    assert not condition.holds(mixed, cautious=False)
    assert condition.holds({"items": {"path": "docs/a"}}, cautious=False)
    assert condition.holds({"items": "docs/a"}, cautious=True)  # the tool may read an object in it
    assert not condition.holds({"items": "docs/a"}, cautious=False)


def test_a_dot_in_a_key_is_written_with_a_backslash() -> None:
    condition = Condition(argument=r"a\.b.c", test=Equals(1))

    assert condition.holds({"a.b": {"c": 1}}, cautious=False)
    assert not condition.holds({"a": {"b": {"c": 1}}}, cautious=True)


@pytest.mark.parametrize("argument", ["", ".", "a.", ".a", "a..b", "a\\"])
def test_a_condition_must_name_an_argument(argument: str) -> None:
    with pytest.raises(ValueError, match="names no argument"):
        Condition(argument=argument, test=Present())


def test_lists_without_an_end_are_in_doubt() -> None:
    endless: list[Any] = ["docs/a"]
    endless.append(endless)
    deep: list[Any] = []
    for _ in range(20_000):
        deep = [deep]

    assert holds(Glob("docs/*"), {"a": endless}) == DOUBT
    assert holds(Glob("docs/*"), {"a": deep}) == DOUBT
    inner = Condition(argument="a.b", test=Present())
    assert inner.holds({"a": endless}, cautious=True)
    assert not inner.holds({"a": endless}, cautious=False)


@pytest.mark.promise("pol-7")
@pytest.mark.timeout(30)  # with backtracking it would not end at all
def test_no_pattern_makes_a_call_wait() -> None:
    text = "a" * 1_000_000 + "!"

    for pattern in ("(a+)+$", "^(a|a)*$", "(a*)*b", ".*.*.*=.*"):
        assert holds(Regex(pattern), {"a": text}) == NO
    for pattern in ("*a" * 50 + "*b", "a*" * 50 + "b", "?" * 50 + "*b*b"):
        assert holds(Glob(pattern), {"a": text}) == NO


@pytest.mark.parametrize("pattern", ["(", r"(a)\1", "(?=a)", "(a{1000}){1000}", "\ud800", "(" * 99])
def test_an_expression_that_could_take_for_ever_is_refused(pattern: str) -> None:
    with pytest.raises(ValueError, match="not a regular expression that Skillpouch supports"):
        Regex(pattern)


def need(kind: NeedKind, value: str = "") -> Need:
    return Need(kind=kind, value=value)


@pytest.mark.parametrize(
    ("pattern", "value", "covers", "touches"),
    [
        ("host:api.example.com", need("host", "API.example.com."), True, True),
        ("host:api.example.com", need("host", "api.example.com:443"), False, True),
        ("host:::1", need("host", "[::1]:443"), False, True),
        ("host:*.example.com", need("host", "a.example.com"), True, True),
        ("host:api.example.com", need("host", "*.example.com"), False, True),
        ("host:a.com", need("host", "b.com"), False, False),
        ("secret", need("secret", "ANY"), True, True),
        ("secret:API_*", need("secret", "api_key"), False, False),
        ("secret", need("host", "x"), False, False),
        ("read:/srv/*", need("read", "/srv/../etc"), False, True),
        ("packages:pandas", need("packages", "numpy, pandas"), False, True),
        ("setting:A_DIR", need("setting", "A_DIR=/srv/a"), True, True),
        ("setting:A_DIR=/srv/*", need("setting", "A_DIR=/srv/a"), True, True),
        ("setting:A_DIR=/srv/*", need("setting", "A_DIR=/etc"), False, False),
        ("setting:A_DIR", need("setting", "B_DIR=/srv/a"), False, False),
        ("secret:A_DIR", need("setting", "A_DIR=/srv/a"), False, True),
        ("secret", need("setting", "A_DIR=/srv/a"), False, False),
        ("unconfined", need("unconfined"), True, True),
    ],
)
def test_what_a_rule_gives_and_what_it_refuses_by_need(
    pattern: str, value: Need, covers: bool, touches: bool
) -> None:
    parsed = parse_need(pattern)

    assert (parsed.covers(value), parsed.touches(value)) == (covers, touches)


def request(arguments: dict[str, Any]) -> Request:
    return Request(tool="t.x", skill="t", arguments=arguments, confined=True, first_use=False)


def test_an_exception_to_a_refusal_must_be_certain() -> None:
    inside = Condition(argument="path", test=Glob("docs/*"))
    rule = Rule(verdict="deny", unless=[inside])

    assert not rule.is_about(request({"path": "docs/a"}))
    assert rule.is_about(request({"path": "docs/../a"}))
    assert rule.is_about(request({"path": ["docs/a", "/etc"]}))
    assert rule.is_about(request({}))


def test_an_exception_to_a_permission_holds_in_doubt() -> None:
    rule = Rule(verdict="allow", unless=[Condition(argument="to", test=Glob("/etc/*"))])

    assert rule.is_about(request({"to": "/srv/x"}))
    assert not rule.is_about(request({"to": "/srv/../etc/x"}))


def test_one_text_is_a_list_of_one() -> None:
    assert Rule(verdict="deny", tools="git.push").tools == ("git.push",)


@pytest.mark.promise("pol-8")
def test_examples_are_tried_when_a_rule_is_made() -> None:
    force = [Condition(argument="force", test=Equals(True))]

    with pytest.raises(RuleError) as raised:
        Rule(
            verdict="deny",
            tools=["git.push"],
            needs=["host", "unconfined"],
            when=force,
            match=[
                Example(tool="git.push", needs=("host:x", "unconfined"), arguments={"force": True}),
                Example(tool="git.push", needs=("host:x",)),
            ],
            no_match=[
                Example(tool="git.pull"),
                Example(tool="git.push", needs=("unconfined",), arguments={"force": True}),
            ],
        )

    assert raised.value.problems == (
        "the rule does not match examples.match 2 (git.push)",
        "the rule matches examples.no_match 2 (git.push)",
    )


def test_everything_wrong_with_a_rule_is_said_at_once() -> None:
    with pytest.raises(RuleError) as raised:
        Rule(verdict="maybe", effects=["burn"], needs=["gold", "host:"])  # type: ignore[arg-type, list-item] # that is the test

    assert [problem.split(":")[0] for problem in raised.value.problems] == [
        "verdict is 'maybe'",
        "'burn' is not an effect",
        "'gold' is not a need",
        "'host",
    ]
