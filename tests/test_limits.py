"""How long a call may take: who raises that, who only lowers it, and who is told how."""

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillpouch import Limits, Policy, SkillManager
from skillpouch.declarations.declared import DeclarationError, read_skill_timeout
from skillpouch.errors import CallDeniedError, InvalidArgumentsError, TimeLimitError
from skillpouch.limits import UsualSeconds, capped, read_size, read_time, size_text, time_text
from skillpouch.needs import Need
from skillpouch.policy import limit_rules
from skillpouch.policy.approval import Question
from skillpouch.policy.limit_rules import Deadline, LimitRule, OwnersTimeout
from skillpouch.policy.project import Project
from skillpouch.policy.rules import Rule
from skillpouch.shell.limits import ExecutionLimits
from skillpouch.shell.scripted_tool import ScriptedTool
from skillpouch.trust.grants import Grants
from tests.conftest import WriteSkill

MakeManager = Callable[..., SkillManager]
SHORT = Limits(timeout_seconds=0.2)
RULE = LimitRule(tools="demo.*", values={"timeout_seconds": 0.2})


@pytest.fixture
def manager_of(write_skill: WriteSkill, tmp_path: Path) -> MakeManager:
    def make(timeout_ms: int | None = None, **options: Any) -> SkillManager:
        (tmp_path / "workspace").mkdir(exist_ok=True)
        entry: dict[str, Any] = {"name": "x", "description": "d", "script": "scripts/x.sh"}
        if timeout_ms is not None:
            entry["timeout_ms"] = timeout_ms
        files = {"scripts/x.sh": "sleep ${1:-1000}\n", "tools.json": json.dumps([entry])}
        root = write_skill(files=files).parent
        return SkillManager(root, workspace=tmp_path / "workspace", cache=False, **options)

    return make


@pytest.mark.promise("limit-8")
@pytest.mark.parametrize("asked", [31, 1e9, float("inf")])
def test_who_asks_for_more_than_the_limit_is_told_what_it_is(
    asked: float, manager_of: MakeManager, tmp_path: Path
) -> None:
    with pytest.raises(TimeLimitError) as caught:
        manager_of().call("x", timeout=asked)

    assert str(caught.value) == f"demo.x may run for 30 s, not {asked:g} s"
    root = f"--root {tmp_path / 'skills'}"
    assert caught.value.hint == (
        "ask for 30 s or less; only the user can raise it: "
        f"`skillpouch trust demo --time 1m {root}`, `[[limits]]` with "
        '`tools = ["demo.x"]` and `timeout_seconds = 60` in policy.toml, '
        "or `--timeout 60` at a terminal"
    )
    assert caught.value.advice == "ask for 30 s or less; only the user can raise it"


@pytest.mark.promise("limit-8")
@pytest.mark.parametrize(
    ("timeout_ms", "options"),
    [(200, {}), (None, {"limits": SHORT}), (None, {"policy": Policy(limits=[RULE])})],
    ids=["declaration", "manager", "policy"],
)
def test_no_caller_raises_a_limit_whoever_set_it(
    timeout_ms: int | None, options: dict[str, Any], manager_of: MakeManager
) -> None:
    manager = manager_of(timeout_ms, **options)

    with pytest.raises(TimeLimitError, match=r"may run for 0\.2 s, not 20 s"):
        manager.call("x", timeout=20)

    assert manager.call("x").timeout_seconds == 0.2


def test_a_deadline_beyond_the_limit_is_no_wish_for_more(manager_of: MakeManager) -> None:
    manager = manager_of(limits=SHORT)

    assert manager.call("x", timeout=Deadline(100)).timeout_seconds == 0.2
    assert manager.call("x", timeout=Deadline(0.1)).timeout_seconds == 0.1
    with pytest.raises(TimeLimitError):
        manager.call("x", timeout=Deadline(0.1, asked=5))


@pytest.mark.parametrize("timeout_ms", [None, 200])
def test_the_owner_raises_what_is_usual_or_declared(
    timeout_ms: int | None, manager_of: MakeManager
) -> None:
    manager = manager_of(timeout_ms)

    result = manager.call("x", {"args": ["0.3"]}, timeout=OwnersTimeout(90))

    assert (result.outcome, result.timeout_seconds) == ("ok", 90)


@pytest.mark.parametrize(
    ("policy", "file"),
    [
        (Policy(limits=[RULE]), "policy.toml"),
        (Policy().tightened_by(Project(limits=(RULE,))), "skillpouch.toml"),
    ],
)
def test_a_rule_about_time_holds_for_its_owner_too(
    policy: Policy, file: str, manager_of: MakeManager
) -> None:
    manager = manager_of(policy=policy)

    with pytest.raises(TimeLimitError) as caught:
        manager.call("x", timeout=OwnersTimeout(90))

    assert file in caught.value.hint
    assert "--timeout" not in caught.value.hint


@pytest.mark.promise("limit-8")
def test_a_tool_that_ran_out_of_time_says_who_raises_it(manager_of: MakeManager) -> None:
    content = manager_of(200).call("x").content

    assert content == (
        "timed out after 0.2 s\n"
        "note: 0.2 s is its limit; only the user can raise it: `[[limits]]` with "
        '`tools = ["demo.x"]` and `timeout_seconds = 0.4` in policy.toml, '
        "or `--timeout 0.4` at a terminal"
    )


def test_a_limit_of_a_project_is_raised_in_its_file(manager_of: MakeManager) -> None:
    policy = Policy().tightened_by(Project(limits=(RULE,)))

    content = manager_of(policy=policy).call("x").content

    assert content.splitlines()[1] == (
        "note: 0.2 s is its limit; only the user can raise it: "
        "`timeout_seconds` of its `[[limits]]` in the project's skillpouch.toml"
    )


def test_who_gave_a_tool_little_time_is_told_how_much_there_is(manager_of: MakeManager) -> None:
    content = manager_of().call("x", timeout=0.2).content

    assert (
        content
        == "timed out after 0.2 s\nnote: its caller limited it to 0.2 s of the 30 s it may have"
    )


def test_a_model_that_asks_bash_for_more_time_is_told_the_limit(tmp_path: Path) -> None:
    manager = SkillManager(tmp_path, workspace=tmp_path, builtins=True, cache=False)

    with pytest.raises(InvalidArgumentsError) as caught:
        manager.call("bash", {"command": "true", "timeout": 3_000_000})
    within = manager.call("bash", {"command": "true", "timeout": 100_000}, timeout=50)
    late = manager.call("bash", {"command": "sleep 60", "timeout": 200})

    assert caught.value.problems == [
        "`timeout` is 3000000, and at most 120000 may be asked for: only the user can raise it"
    ]
    assert (within.outcome, within.timeout_seconds) == ("ok", 50)
    assert "note: its caller limited it to 0.2 s of the 120 s it may have" in late.content


def test_a_script_says_who_raises_its_time(manager_of: MakeManager) -> None:
    limits = ExecutionLimits(timeout_seconds=0.3)
    tool = ScriptedTool.over(manager_of(), limits=limits)

    late = tool.execute_sync("demo.x")
    with pytest.raises(TimeLimitError):
        tool.execute_sync("true", timeout=100)

    given = tool.execute_sync("demo.x 0.5 && echo done", timeout=OwnersTimeout(30))

    assert (late.status, given.stdout) == ("timed_out", "done\n")
    assert late.notes[1].startswith("note: 0.3 s is its limit; only the user can raise it: ")
    assert late.notes[1] in late.stderr


TWO_HOURS = 7_200_000
TIME = Need(kind="time", value="2h")
FAST = {"args": ["0"]}


def test_a_declaration_counts_up_to_ten_minutes(manager_of: MakeManager) -> None:
    manager = manager_of(600_000)

    seconds = manager.call("x", FAST).timeout_seconds

    assert (seconds, type(seconds)) == (600, float)
    assert [problem.code for problem in manager.problems] == []


@pytest.mark.promise("limit-8")
def test_more_than_ten_minutes_is_given_to_a_skill_by_a_grant_only(
    manager_of: MakeManager, tmp_path: Path
) -> None:
    manager = manager_of(TWO_HOURS)

    with pytest.raises(CallDeniedError) as caught:
        manager.call("x", FAST)
    Grants().grant(manager.get_skill("demo"), [TIME])

    assert caught.value.reasons == (
        "it needs up to 2h for a call (asked in tools.json (tool x)), which was not granted",
        "there is nobody to ask",
    )
    command = f"skillpouch trust demo --time 2h --root {tmp_path / 'skills'}"
    assert caught.value.hints == (command,)
    assert manager.call("x", FAST).timeout_seconds == 7200
    assert [(p.code, p.severity, p.message) for p in manager.problems] == [
        (
            "timeout-long",
            "info",
            "tool 'x' declares that it may take 2h: more than 10m has to be granted",
        )
    ]


@pytest.mark.promise("limit-8")
def test_a_grant_of_less_time_than_is_declared_is_not_enough(manager_of: MakeManager) -> None:
    manager = manager_of(TWO_HOURS)
    Grants().grant(manager.get_skill("demo"), [Need(kind="time", value="1h")])

    with pytest.raises(CallDeniedError):
        manager.call("x", FAST)

    assert manager.call("x", FAST, timeout=600).timeout_seconds == 600


@pytest.mark.promise("limit-8")
def test_a_skill_that_changed_has_to_be_granted_its_time_again(manager_of: MakeManager) -> None:
    manager = manager_of(TWO_HOURS)
    skill = manager.get_skill("demo")
    Grants().grant(skill, [TIME])
    (skill.home / "scripts" / "x.sh").write_text("sleep 0\n")

    with pytest.raises(CallDeniedError, match=r"it was granted .*, and"):
        manager.call("x", FAST)


def test_who_is_asked_about_time_sees_how_much_it_is(manager_of: MakeManager) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    result = manager_of(TWO_HOURS, approver=approve).call("x", FAST)

    assert [(need.kind, need.value) for need in asked[0].needs] == [("time", "2h")]
    assert result.timeout_seconds == 7200


@pytest.mark.promise("limit-8")
@pytest.mark.parametrize(("timeout", "is_given"), [(600, True), (601, False), (7200, False)])
def test_a_caller_that_lowers_the_time_needs_no_grant_up_to_ten_minutes(
    timeout: float, is_given: bool, manager_of: MakeManager
) -> None:
    manager = manager_of(TWO_HOURS)

    if is_given:
        assert manager.call("x", FAST, timeout=timeout).timeout_seconds == timeout
    else:
        with pytest.raises(CallDeniedError):
            manager.call("x", FAST, timeout=timeout)


LONG_RULE = LimitRule(tools="demo.*", values={"timeout_seconds": 7200})


@pytest.mark.parametrize(
    "options",
    [{"policy": Policy(limits=[LONG_RULE])}, {"limits": Limits(timeout_seconds=7200)}],
    ids=["policy", "manager"],
)
def test_time_that_the_owner_sets_needs_no_grant(
    options: dict[str, Any], manager_of: MakeManager
) -> None:
    assert manager_of(TWO_HOURS, **options).call("x", FAST).timeout_seconds == 7200


def test_the_owner_at_a_terminal_needs_no_grant_for_time(manager_of: MakeManager) -> None:
    result = manager_of(TWO_HOURS).call("x", FAST, timeout=OwnersTimeout(5000))

    assert result.timeout_seconds == 5000


@pytest.mark.promise("limit-8")
def test_a_project_cannot_set_the_time_that_a_skill_was_not_granted(
    manager_of: MakeManager,
) -> None:
    policy = Policy().tightened_by(Project(limits=(LONG_RULE,)))

    with pytest.raises(CallDeniedError):
        manager_of(TWO_HOURS, policy=policy).call("x", FAST)


@pytest.mark.parametrize(
    ("need", "is_given"), [("time:2h", True), ("time", True), ("time:1h", False)]
)
def test_a_rule_allows_time_up_to_what_it_says(
    need: str, is_given: bool, manager_of: MakeManager, tmp_path: Path
) -> None:
    rule = Rule(verdict="allow", needs=[need], path=str(tmp_path))
    manager = manager_of(TWO_HOURS, policy=Policy(rules=[rule]))

    if is_given:
        assert manager.call("x", FAST).timeout_seconds == 7200
    else:
        with pytest.raises(CallDeniedError):
            manager.call("x", FAST)


def test_a_grant_of_time_raises_what_is_usual(manager_of: MakeManager) -> None:
    manager = manager_of()
    Grants().grant(manager.get_skill("demo"), [TIME])

    limits = [
        manager.call("x", FAST, timeout=timeout).timeout_seconds
        for timeout in (None, 20, 3600, 7200, Deadline(60), Deadline(9000))
    ]
    with pytest.raises(TimeLimitError, match="may run for 7200 s, not 7201 s"):
        manager.call("x", FAST, timeout=7201)

    assert limits == [7200, 20, 3600, 7200, 60, 7200]


@pytest.mark.promise("limit-8")
def test_a_rule_of_a_project_holds_for_what_was_granted(manager_of: MakeManager) -> None:
    rule = LimitRule(tools="demo.*", values={"timeout_seconds": 50})
    manager = manager_of(policy=Policy().tightened_by(Project(limits=(rule,))))
    Grants().grant(manager.get_skill("demo"), [TIME])

    assert manager.call("x", FAST).timeout_seconds == 50
    with pytest.raises(TimeLimitError, match="may run for 50 s, not 51 s"):
        manager.call("x", FAST, timeout=51)


def test_a_call_that_ran_out_of_usual_time_names_the_grant(
    write_skill: WriteSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limit_rules, "_USUAL", Limits(timeout_seconds=UsualSeconds(0.2)))
    root = write_skill(files={"scripts/x.sh": "sleep 1000\n"}).parent
    manager = SkillManager(root, workspace=tmp_path, cache=False)

    before = manager.call("x").content
    Grants().grant(manager.get_skill("demo"), [Need(kind="time", value="1s")])
    after = manager.call("x").content

    command = f"skillpouch trust demo --time {{}} --root {root}"
    assert (
        f"note: 0.2 s is its limit; only the user can raise it: `{command.format('1s')}`, "
        in before
    )
    assert (
        f"note: 1 s is its limit; only the user can raise it: `{command.format('2s')}`, " in after
    )


FRONT = "name: demo\ndescription: d\nmetadata:\n  skillpouch:\n    timeout_seconds: {}\n"


def test_a_skill_says_how_long_its_scripts_take(write_skill: WriteSkill) -> None:
    own = {"name": "own", "description": "d", "script": "scripts/own.sh", "timeout_ms": 5000}
    files = {
        "scripts/plain.sh": "echo\n",
        "scripts/own.sh": "echo\n",
        "scripts/listed.sh": "echo\n",
        "tools.json": json.dumps([own]),
        "scripts/manifest.yml": "tools: [{name: listed, script: listed.sh, timeout_ms: 7000}]\n",
    }

    manager = SkillManager(write_skill(front=FRONT.format(90.5), files=files).parent, cache=False)

    found = {tool.id: tool.timeout_ms for tool in manager.get_skill_tools("demo")}
    assert found == {"demo.plain": 90_500, "demo.own": 5000, "demo.listed": 7000}
    assert manager.problems == []


def test_a_long_time_of_a_skill_is_asked_for_at_its_line(write_skill: WriteSkill) -> None:
    root = write_skill(front=FRONT.format(5400), files={"scripts/x.sh": "echo\n"}).parent
    manager = SkillManager(root, cache=False)

    [tool] = manager.get_skill_tools("demo")

    assert tool.asks == (
        Need(kind="time", value="1h30m", asked_in="SKILL.md:6 (metadata.skillpouch)"),
    )
    [problem] = manager.problems
    assert (problem.code, problem.line) == ("timeout-long", 6)
    assert problem.message == "it declares that it may take 1h30m: more than 10m has to be granted"


@pytest.mark.parametrize(
    "written",
    ["0", "-5", ".nan", ".inf", "86401", "1e400", "2h", "'60'", "true", "[60]", "9" * 400],
)
def test_a_time_that_is_no_number_of_seconds_is_a_problem_and_counts_for_nothing(
    written: str, write_skill: WriteSkill
) -> None:
    root = write_skill(front=FRONT.format(written), files={"scripts/x.sh": "echo\n"}).parent
    manager = SkillManager(root, cache=False)

    [tool] = manager.get_skill_tools("demo")

    assert tool.timeout_ms is None
    assert [(p.code, p.severity, p.line) for p in manager.problems] == [
        ("timeout-invalid", "error", 6)
    ]
    assert "is not a number of seconds up to a day" in manager.problems[0].message


LIMIT = UsualSeconds(900, declared=True, most=1000)
_ANY = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.lists(st.integers())


@given(_ANY)
def test_any_value_is_a_time_or_a_problem(value: Any) -> None:
    front = {"metadata": {"skillpouch": {"timeout_seconds": value}}}

    try:
        read = read_skill_timeout(front)
    except DeclarationError:
        read = None

    assert read is None or 1 <= read <= 86_400_000


@given(
    st.floats(min_value=0.001, max_value=1e6),
    st.booleans(),
    st.none() | st.floats(min_value=1, max_value=86_400),
    st.floats(min_value=0.001, max_value=1e6),
)
def test_no_grant_gives_more_than_it_says_and_no_caller_more_than_that(
    seconds: float, declared: bool, granted: float | None, lowered: float
) -> None:
    limit = UsualSeconds(seconds, declared=declared)

    given_time = limit.with_grant(granted)
    both = capped(limit, lowered)

    assert isinstance(both, UsualSeconds)
    assert given_time <= max(granted or 0, 600 if declared else seconds)
    assert both.with_grant(granted) <= min(given_time, lowered)
    assert both.with_grant(granted) == min(given_time, lowered)


@pytest.mark.parametrize("copied", [pickle.loads(pickle.dumps(LIMIT)), copy.deepcopy(LIMIT)])
def test_a_limit_that_nobody_set_stays_one_when_it_is_copied(copied: UsualSeconds) -> None:
    assert (float(copied), copied.declared, copied.most) == (900.0, True, 1000.0)
    assert copied.needs_grant


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("2h", 7200),
        (" 1h30m ", 5400),
        ("1h 30m", 5400),
        ("90m", 5400),
        ("90 min", 5400),
        ("45s", 45),
        ("5400", 5400),
        ("24h", 86_400),
        ("1d", 86_400),
        ("", None),
        ("0", None),
        ("-2h", None),
        ("25h", None),
        ("1h30", None),
        ("h", None),
        ("nan", None),
        ("2 weeks", None),
        ("٤h", None),
        ("9" * 5000, None),
    ],
)
def test_a_time_is_written_in_these_ways(text: str, seconds: int | None) -> None:
    assert read_time(text) == seconds


@given(st.floats(min_value=0.001, max_value=86_400))
def test_a_time_that_is_written_out_is_read_as_no_less(seconds: float) -> None:
    read = read_time(time_text(seconds))

    assert read is not None
    assert seconds <= read < seconds + 1


@given(st.text())
def test_any_text_is_a_time_or_none(text: str) -> None:
    seconds = read_time(text)

    assert seconds is None or 1 <= seconds <= 86_400


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("4GiB", 4 << 30),
        ("4G", 4 << 30),
        (" 1.5 gb ", 3 << 29),
        ("1536MiB", 3 << 29),
        ("1073741824", 1 << 30),
        ("1T", 1 << 40),
        ("", None),
        ("GiB", None),
        ("-4GiB", None),
        ("4GiBs", None),
        ("1e9GiB", None),
        ("12", None),  # bytes: no program starts with that
        ("٤GiB", None),
    ],
)
def test_a_size_of_memory_is_written_in_these_ways(text: str, size: int | None) -> None:
    assert read_size(text) == size


@given(st.integers(min_value=1 << 20, max_value=1 << 50))
def test_a_size_that_is_written_out_is_read_as_no_less(count: int) -> None:
    read = read_size(size_text(count))

    assert read is not None
    assert count <= read < count + (1 << 20)
    assert size_text(read) == size_text(count)


@given(st.text())
def test_any_text_is_a_size_or_none(text: str) -> None:
    size = read_size(text)

    assert size is None or 1 << 20 <= size <= 1 << 50
