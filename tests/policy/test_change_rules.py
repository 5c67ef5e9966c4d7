"""Rules about what a call changed, and how calls may write: by policy, file, project and caller."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillpouch import Policy
from skillpouch.errors import CallDeniedError, PolicyFileError
from skillpouch.limits import Writes
from skillpouch.policy import (
    ChangeConditions,
    ChangeFacts,
    Condition,
    Equals,
    LimitRule,
    Request,
    Rule,
)
from skillpouch.policy.change_rules import BOUNDS, CHANGE_KEYS
from skillpouch.policy.limit_rules import OwnersWrites
from skillpouch.policy.loading import parse_project, parse_user_policy
from skillpouch.policy.rules import Example, Mode, RuleError
from skillpouch.results import FileChange, WorkspaceChange
from skillpouch.tools import Script, Tool


def request(tool: str = "demo.clean", **facts: Any) -> Request:
    return Request(tool=tool, skill="demo", confined=True, first_use=False, **facts)


def changes(kind: WorkspaceChange, count: int, folder: str = "a") -> list[FileChange]:
    return [FileChange(path=f"{folder}/{n}", change=kind, size_before=9) for n in range(count)]


def facts(*found: FileChange, gone: float | None = 0.0, **more: Any) -> ChangeFacts:
    return ChangeFacts(changes=found, gone=lambda _: gone, **more)


def verdict(policy: Policy, found: ChangeFacts) -> str:
    return policy.judge_changes(request(), found).verdict


@pytest.mark.promise("writes-1")
@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (facts(*changes("deleted", 10)), "allow"),
        (facts(*changes("deleted", 11)), "ask"),
        (facts(*changes("changed", 50)), "allow"),
        (facts(*changes("changed", 51)), "ask"),
        (facts(*changes("changed", 10), gone=1.0), "allow"),
        (facts(*changes("changed", 11), gone=1.0), "ask"),
        (facts(*changes("changed", 11), gone=0.9), "allow"),
        (facts(*changes("changed", 11), gone=None), "ask"),  # not known: in doubt
        (facts(*changes("created", 500)), "allow"),
        (facts(*changes("renamed", 500)), "allow"),
        (facts(complete=False), "ask"),
    ],
)
def test_many_files_deleted_or_overwritten_are_asked_about(
    found: ChangeFacts, expected: str
) -> None:
    assert verdict(Policy(), found) == expected
    assert Policy().minds_changes(found) is (expected == "ask")


def test_the_reason_names_how_many_files_and_some_of_them() -> None:
    decision = Policy().judge_changes(request(), facts(*changes("deleted", 12)))

    assert decision.reasons == (
        "it deletes 12 files that existed (a/0, a/1, a/2 and 9 more), and more than 10",
    )
    every = "ChangeConditions(paths=['**'])"
    assert decision.hints == (
        f"Policy(rules=[Rule(verdict='allow', tools=['demo.clean'], changes={every})])",
    )


def test_a_path_in_a_reason_holds_nothing_that_a_terminal_obeys() -> None:
    found = [FileChange(path=f"{n}\x1b[2J", change="deleted") for n in range(11)]

    reason = Policy().judge_changes(request(), facts(*found)).reasons[0]

    assert reason.isprintable()


@given(
    deleted=st.integers(0, 600), overwritten=st.integers(0, 600), gone=st.sampled_from([0.0, 1.0])
)
def test_a_stricter_policy_never_allows_more_changes(
    deleted: int, overwritten: int, gone: float
) -> None:
    found = facts(*changes("deleted", deleted), *changes("changed", overwritten, "b"), gone=gone)
    modes: list[Mode] = ["trusting", "careful", "strict"]

    verdicts = [verdict(Policy(mode=mode), found) for mode in modes]

    assert verdicts == sorted(verdicts)  # "allow", then "ask"


def test_trusting_and_strict_have_bounds_of_their_own() -> None:
    assert set(BOUNDS) == {"trusting", "careful", "strict"}
    assert verdict(Policy.trusting(), facts(*changes("deleted", 100))) == "allow"
    assert verdict(Policy.trusting(), facts(*changes("deleted", 101))) == "ask"
    assert verdict(Policy.strict(), facts(*changes("deleted", 1))) == "ask"
    assert verdict(Policy.strict(), facts(*changes("changed", 1), gone=0.95)) == "ask"


def rule(verdict: str, **conditions: Any) -> Rule:
    when = ChangeConditions(**conditions)
    return Rule(verdict=verdict, tools=["demo.*"], changes=when)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("conditions", "fits", "spared"),
    [
        ({"deleted_over": 0}, changes("deleted", 1), changes("changed", 1)),
        ({"overwritten_over": 2}, changes("changed", 3), changes("changed", 2)),
        ({"overwritten_over": 0}, [FileChange(path="a", change="link", size_before=4)], []),
        ({"bytes_over": 10}, [FileChange(path="a", change="created", size=11)], []),
        ({"bytes_over": 11}, [FileChange(path="a", change="changed", size=12)], []),
        ({"paths": ".git/**"}, changes("created", 1, ".git/hooks"), changes("created", 1, "git")),
        ({"paths": ".git/**"}, [FileChange(path=".git", change="renamed", old_path="x")], []),
        ({"paths": "**/*.pem"}, [FileChange(path="key.pem", change="mode")], []),
        ({"paths": "**/*.pem"}, [FileChange(path="a/b/key.pem", change="mode")], []),
        ({"paths": "docs/*"}, [FileChange(path="b", change="renamed", old_path="docs/x")], []),
        # A folder that was renamed may hold what the pattern names.
        ({"paths": "docs/inner/*"}, [FileChange(path="b", change="renamed", old_path="docs")], []),
        (
            {"paths": ["docs/**"], "deleted_over": 1},
            changes("deleted", 2, "docs"),
            [*changes("deleted", 1, "docs"), *changes("deleted", 9, "other")],
        ),
        (
            {"executable": True},
            [FileChange(path="a", change="mode", mode=0o755, mode_before=0o644, executable=True)],
            [FileChange(path="a", change="changed", mode_before=0o755, executable=True)],
        ),
    ],
)
def test_a_rule_that_refuses_matches_what_exceeds_it(
    conditions: dict[str, Any], fits: Sequence[FileChange], spared: Sequence[FileChange]
) -> None:
    policy = Policy(rules=[rule("deny", **conditions)])

    assert verdict(policy, facts(*fits)) == "deny"
    assert verdict(policy, facts(*spared)) == "allow"
    # In doubt against the call: there may be more changes than these.
    assert verdict(policy, facts(*spared, complete=False)) == "deny"


@pytest.mark.parametrize(("gone", "expected"), [(0.6, "ask"), (0.5, "allow"), (None, "ask")])
def test_a_rule_minds_how_much_of_one_file_is_gone(gone: float | None, expected: str) -> None:
    policy = Policy(rules=[rule("ask", share_over=0.5)])

    assert verdict(policy, facts(*changes("changed", 1), gone=gone)) == expected
    assert verdict(policy, facts(*changes("deleted", 1), gone=gone)) == "ask"


def test_a_rule_minds_what_other_programs_run_later() -> None:
    policy = Policy(rules=[rule("deny", run_later=True)])
    found = [FileChange(path=".envrc", change="created")]

    assert verdict(policy, facts(*found, run_later=[".envrc"])) == "deny"
    assert verdict(policy, facts(*found)) == "allow"


def test_deny_beats_ask_beats_allow_about_changes_too() -> None:
    found = facts(*changes("deleted", 20))
    allow, ask, deny = (
        rule("allow", paths="**"),
        rule("ask", deleted_over=3),
        rule("deny", deleted_over=5),
    )

    assert verdict(Policy(rules=[allow]), found) == "allow"
    assert verdict(Policy(rules=[allow, ask]), found) == "ask"
    assert verdict(Policy(rules=[allow, deny, ask]), found) == "deny"


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({"paths": "a/**"}, "allow"),
        ({"paths": "b/**"}, "ask"),
        ({"deleted_over": 20}, "allow"),
        ({"deleted_over": 19}, "ask"),
        ({"deleted_over": 20, "paths": ["a/*"]}, "allow"),
        ({"run_later": True, "deleted_over": 20}, "allow"),
    ],
)
def test_a_rule_that_allows_allows_nothing_beyond_its_bounds(
    conditions: dict[str, Any], expected: str
) -> None:
    policy = Policy(rules=[rule("allow", **conditions)])

    assert verdict(policy, facts(*changes("deleted", 20))) == expected
    assert verdict(policy, facts(*changes("deleted", 20), complete=False)) == "ask"


def test_an_allow_rule_without_changes_does_not_settle_them() -> None:
    policy = Policy(rules=[Rule(verdict="allow", tools=["*"])])

    assert verdict(policy, facts(*changes("deleted", 11))) == "ask"


def test_a_rule_about_changes_says_nothing_about_whether_a_call_may_run() -> None:
    policy = Policy(rules=[rule("deny", paths="**")])

    assert policy.decide(request()).verdict == "allow"
    assert not policy.minds_arguments(request())


def test_a_rule_about_changes_may_be_about_some_arguments_and_skills_only() -> None:
    about = Rule(
        verdict="deny",
        skills=["demo"],
        when=[Condition(argument="force", test=Equals(True))],
        changes=ChangeConditions(deleted_over=0),
    )
    policy, found = Policy(rules=[about]), facts(*changes("deleted", 1))

    assert policy.judge_changes(request(arguments={"force": True}), found).verdict == "deny"
    assert policy.judge_changes(request(arguments={"force": False}), found).verdict == "allow"


@pytest.mark.parametrize(
    ("conditions", "message"),
    [
        ({}, "says nothing: add deleted_over, overwritten_over"),
        ({"deleted_over": -1}, "deleted_over must be a whole number"),
        ({"deleted_over": True}, "deleted_over must be a whole number"),
        ({"overwritten_over": 1.5}, "overwritten_over must be a whole number"),
        ({"bytes_over": "9"}, "bytes_over must be a whole number"),
        ({"share_over": 1}, "share_over must be a number from 0 to below 1"),
        ({"share_over": float("nan")}, "share_over must be a number"),
        ({"paths": ["/etc"]}, "leads out of the workspace"),
        ({"paths": ["a/../../b"]}, "leads out of the workspace"),
        ({"paths": [""]}, "is no path"),
        ({"paths": ["a\0"]}, "is no path"),
        ({"executable": 1}, "executable must be true or false"),
        ({"run_later": "yes"}, "run_later must be true or false"),
    ],
)
def test_conditions_that_make_no_sense_are_refused(
    conditions: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        ChangeConditions(**conditions)


def test_a_rule_about_changes_grants_no_needs() -> None:
    with pytest.raises(RuleError, match="leave out needs"):
        Rule(verdict="deny", needs=["host"], changes=ChangeConditions(deleted_over=0))


def test_examples_of_a_rule_carry_changes() -> None:
    deleted = Example(tool="demo.x", changes=facts(*changes("deleted", 3)))
    conditions = ChangeConditions(deleted_over=2)

    made = Rule(
        verdict="deny", changes=conditions, match=[deleted], no_match=[Example(tool="demo.x")]
    )
    assert made.changes == conditions
    with pytest.raises(RuleError, match=r"the rule matches examples.no_match 1 \(demo.x\)"):
        Rule(verdict="deny", changes=conditions, no_match=[deleted])


FILE = b"""
writes = "undoable"

[[rules]]
verdict = "ask"
tools = ["build.*"]
when.changes = {deleted_over = 3, paths = ["src/**"]}

[[rules]]
verdict = "deny"
when = [
  {argument = "force", equals = true},
  {changes = {paths = ".git/**", executable = true, run_later = true}},
]

[[rules]]
verdict = "deny"
[rules.when.changes]
share_over = 0.5
overwritten_over = 0
bytes_over = 1000
[[rules.examples.match]]
tool = "a.b"
changes = [{path = "x", change = "changed", size = 1, size_before = 9, gone = 0.9}]
[[rules.examples.no_match]]
tool = "a.b"
changes = [{path = "x", change = "changed", gone = 0.1}]

[[limits]]
tools = ["deploy.*"]
writes = "staged"
"""


def test_a_file_says_what_rules_mind_about_changes_and_how_calls_write() -> None:
    policy = parse_user_policy(FILE)

    assert [each.changes for each in policy.rules] == [
        ChangeConditions(deleted_over=3, paths=["src/**"]),
        ChangeConditions(paths=[".git/**"], executable=True, run_later=True),
        ChangeConditions(share_over=0.5, overwritten_over=0, bytes_over=1000),
    ]
    assert policy.rules[1].when == (Condition(argument="force", test=Equals(True)),)
    assert policy.writes == "undoable"
    assert policy.limits == (LimitRule(tools=["deploy.*"], writes="staged"),)


def problems(text: str) -> list[str]:
    with pytest.raises(PolicyFileError) as raised:
        parse_user_policy(text.encode())
    return [f"{each.code} {each.message}" for each in raised.value.problems]


RULE = '[[rules]]\nverdict = "deny"\n'


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("when.changes = {}", "when: changes: says nothing: add"),
        ("when.changes = 3", "when: changes: must be a table, not 3"),
        ("when = 3", "when: must be a list of tables, not 3"),
        ("when = {}", "when: changes: says nothing"),
        ("when = {argument = 'a', changes = {deleted_over = 1}}", "argument: is not a key here"),
        ("when.changes = {deleted_over = -1}", "deleted_over: must be a whole number, not -1"),
        ("when.changes = {overwritten_over = '1'}", "overwritten_over: must be a whole number"),
        ("when.changes = {bytes_over = 1.5}", "bytes_over: must be a whole number, not 1.5"),
        ("when.changes = {share_over = 1.0}", "share_over: must be a number from 0 to below 1"),
        ("when.changes = {share_over = nan}", "share_over: must be a number from 0 to below 1"),
        ("when.changes = {paths = 1}", "paths: must be a list of texts, not 1"),
        ("when.changes = {paths = []}", "paths: is an empty list"),
        ("when.changes = {paths = ['/x']}", "leads out of the workspace"),
        ("when.changes = {executable = false}", "executable: can only be true"),
        ("when.changes = {run_later = 1}", "run_later: must be true or false, not 1"),
        ("when.changes = {deletd_over = 1}", "is not a key here: did you mean 'deleted_over'?"),
        (
            "when = [{changes = {deleted_over = 1}}, {changes = {bytes_over = 1}}]",
            "when: has `changes` twice",
        ),
        (
            "when = [{changes = {deleted_over = 1}, argument = 'a'}]",
            "argument: belongs to a condition of its own",
        ),
        ("unless = [{changes = {deleted_over = 1}}]", "changes: is not a key here"),
        (
            "when.changes = {deleted_over = 1}\nneeds = ['host']",
            "leave out needs",
        ),
        (
            "when.changes = {deleted_over = 0}\nexamples.match = [{tool = 'a.b'}]",
            "the rule does not match examples.match 1 (a.b)",
        ),
        (
            "examples.match = [{tool = 'a.b', changes = [{change = 'deleted'}]}]",
            "path: is missing",
        ),
        (
            "examples.match = [{tool = 'a.b', changes = [{path = 'x', change = 'gone'}]}]",
            "change: is 'gone': use 'created' or 'changed'",
        ),
        (
            "examples.match = [{tool = 'a.b', changes = [{path = 'x', gone = 2}]}]",
            "gone: must be a number from 0 to 1, not 2",
        ),
        (
            "examples.match = [{tool = 'a.b', changes = [{path = 'x', size = -1}]}]",
            "size: must be a whole number, not -1",
        ),
        ("examples.match = [{tool = 'a.b', changes = 'x'}]", "changes: must be a list of tables"),
    ],
)
def test_what_a_file_says_wrongly_about_changes_is_named(text: str, expected: str) -> None:
    found = problems(RULE + text)

    assert [each for each in found if expected in each], found


@pytest.mark.parametrize("text", ["writes = 'later'", "writes = 3", "[[limits]]\nwrites = true"])
def test_a_way_of_writing_that_does_not_exist_is_named(text: str) -> None:
    assert "writes: is" in problems(text)[0]
    assert "use 'direct', 'undoable', 'staged'" in problems(text)[0]


def test_every_key_of_conditions_is_read_from_a_file() -> None:
    known = {"deleted_over", "overwritten_over", "bytes_over", "share_over"}

    assert set(CHANGE_KEYS) == known | {"paths", "executable", "run_later"}


TOOL = Tool(
    id="demo.clean",
    name="clean",
    skill="demo",
    description="",
    input_schema={},
    runs=Script(file="/x.py", language="python", convention="stdin"),
)


def way(policy: Policy, given: Writes | None = None, asked: str | None = None) -> tuple[str, bool]:
    return policy.writes_of(TOOL, given, asked, "undoable")


def test_a_rule_for_the_tool_is_more_exact_than_the_way_of_the_policy() -> None:
    rules = [LimitRule(tools=["demo.*"], writes="direct"), LimitRule(skills="x", writes="staged")]

    assert way(Policy()) == ("undoable", False)
    assert way(Policy(writes="direct")) == ("direct", True)
    assert way(Policy(writes="staged", limits=rules)) == ("direct", True)


def test_an_executor_tightens_what_its_policy_says() -> None:
    assert way(Policy(writes="direct"), "staged") == ("staged", True)
    assert way(Policy(writes="staged"), "direct") == ("staged", True)
    assert way(Policy(), "direct") == ("direct", True)


@pytest.mark.promise("writes-2")
def test_a_caller_can_only_tighten() -> None:
    assert way(Policy(), asked="staged") == ("staged", True)
    assert way(Policy(writes="direct"), asked="undoable") == ("undoable", True)
    with pytest.raises(CallDeniedError, match="asked for writes='direct', which is looser"):
        way(Policy(), asked="direct")
    with pytest.raises(CallDeniedError, match="looser than 'staged'") as raised:
        way(Policy(), "staged", "undoable")
    assert 'tools = ["demo.clean"]' in raised.value.hint
    with pytest.raises(ValueError, match="writes is 'later'"):
        way(Policy(), asked="later")


def test_the_owner_may_loosen_but_not_what_a_project_asks_for() -> None:
    project = parse_project(b"[[limits]]\nskills = 'demo'\nwrites = 'staged'\n")

    assert way(Policy(writes="staged"), asked=OwnersWrites("direct")) == ("direct", True)
    assert way(Policy().tightened_by(project), asked=OwnersWrites("direct")) == ("staged", True)


@pytest.mark.promise("writes-2")
@pytest.mark.parametrize("text", ["writes = '{}'", "[[limits]]\nwrites = '{}'"])
def test_a_project_only_tightens_how_calls_write(text: str) -> None:
    staged = parse_project(text.format("staged").encode())
    undoable = parse_project(text.format("undoable").encode())
    user = Policy(limits=[LimitRule(tools=["demo.*"], writes="staged")])

    assert way(Policy(writes="direct").tightened_by(staged)) == ("staged", True)
    assert way(user.tightened_by(undoable)) == ("staged", True)
    with pytest.raises(PolicyFileError, match="can let calls write directly"):
        parse_project(text.format("direct").encode())


@pytest.mark.parametrize("make", [lambda: Policy(writes="x"), lambda: LimitRule(writes="x")])  # type: ignore[arg-type]
def test_policies_and_rules_refuse_unknown_ways(make: Any) -> None:
    with pytest.raises(ValueError, match="writes is 'x': use 'direct', 'undoable', 'staged'"):
        make()
