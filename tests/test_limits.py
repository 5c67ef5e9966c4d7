"""How long a call may take: who raises that, who only lowers it, and who is told how."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillpouch import Limits, Policy, SkillManager
from skillpouch.errors import InvalidArgumentsError, TimeLimitError
from skillpouch.limits import read_size, size_text
from skillpouch.policy.limit_rules import LimitRule
from skillpouch.policy.policy import Deadline, OwnersTimeout
from skillpouch.policy.project import Project
from skillpouch.shell.limits import ExecutionLimits
from skillpouch.shell.scripted_tool import ScriptedTool
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
    asked: float, manager_of: MakeManager
) -> None:
    with pytest.raises(TimeLimitError) as caught:
        manager_of().call("x", timeout=asked)

    assert str(caught.value) == f"demo.x may run for 30 s, not {asked:g} s"
    assert caught.value.hint == (
        "ask for 30 s or less; only the user can raise it: `[[limits]]` with "
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


def test_a_declaration_counts_up_to_ten_minutes(manager_of: MakeManager) -> None:
    manager = manager_of(3_600_000)

    assert manager.get_tool("x").timeout_ms == 600_000
    assert [(p.code, p.severity) for p in manager.problems] == [("timeout-long", "warning")]
    assert manager.problems[0].message == (
        "tool 'x': timeout_ms 3600000 counts as 600000: a skill gives itself ten minutes at most"
    )


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
