import asyncio
import os
import time
from pathlib import Path
from typing import Any

import pytest

from skillpouch import Policy, SkillManager, ToolExecutor, ToolResult
from skillpouch.builtins.kept_calls import (
    KeptCalls,
    NothingKeptError,
    OtherWorkspaceError,
    UnknownPathError,
)
from skillpouch.environment import state_directory
from skillpouch.errors import CallDeniedError, InvalidArgumentsError, SkillpouchError
from skillpouch.journal.journal import user_journal
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.journal.records import CallEnd, Entry, Started
from skillpouch.limits import Writes
from skillpouch.needs import Need
from skillpouch.policy import Rule
from skillpouch.results import FileChange
from skillpouch.trust.grants import Grants
from skillpouch.workspace.change_store import ChangeStateError, ChangeStore, UnknownCallError
from tests.builtins.keeping import keep
from tests.conftest import WriteSkill


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    (folder / "docs").mkdir(parents=True)
    (folder / "docs/a.txt").write_text("one\ntwo\n")
    (folder / "docs/b.txt").write_text("b\n")
    return folder


@pytest.fixture
def executor(workspace: Path) -> ToolExecutor:
    return ToolExecutor([], workspace=workspace)


def texts(workspace: Path) -> dict[str, str]:
    return {
        path.relative_to(workspace).as_posix(): path.read_text()
        for path in sorted(workspace.rglob("*"))
        if path.is_file()
    }


BEFORE = {"docs/a.txt": "one\ntwo\n", "docs/b.txt": "b\n"}
CHANGES: dict[str, str | None] = {"docs/a.txt": "one\n2\n", "docs/b.txt": None, "new/c.txt": "c\n"}
AFTER = {"docs/a.txt": "one\n2\n", "new/c.txt": "c\n"}


def entries() -> list[Entry]:
    with JournalReader(state_directory()) as reader:
        return list(reader.after(Query()))


def test_undo_takes_back_the_last_call_and_says_what_it_did(
    executor: ToolExecutor, workspace: Path
) -> None:
    keep(workspace, {"docs/b.txt": "bb\n"}, call_id="90")
    keep(workspace, {"docs/a.txt": "a\n", "new.txt": "n"}, call_id="91")

    result = executor.undo()

    assert texts(workspace) == {"docs/a.txt": "one\ntwo\n", "docs/b.txt": "bb\n"}
    assert (result.tool, result.outcome, result.writes) == ("skillpouch.undo", "ok", "undoable")
    assert {(each.path, each.change) for each in result.changes} == {
        ("docs/a.txt", "changed"),
        ("new.txt", "deleted"),
    }
    assert result.content.splitlines()[0] == "undid call 91 of demo.write: 2 changes"
    assert result.structured["calls"] == ["91"]


@pytest.mark.promise("undo-2")
def test_an_undo_is_a_recorded_call_that_can_be_undone(
    executor: ToolExecutor, workspace: Path
) -> None:
    keep(workspace, CHANGES, call_id="90")

    undone = executor.undo("90")
    restored = texts(workspace)
    redone = executor.undo(undone)

    assert (restored, texts(workspace)) == (BEFORE, AFTER)
    first, second = entries()
    assert [(each.tool, each.outcome, each.writes) for each in (first, second)] == [
        ("skillpouch.undo", "ok", "undoable")
    ] * 2
    assert (first.call_id, first.arguments, first.changes_total) == (
        str(first.id),
        {"call": "90"},
        3,
    )
    assert second.arguments == {"call": undone.call_id}
    assert redone.call_id == str(second.id)


def test_undoing_twice_goes_two_calls_back(executor: ToolExecutor, workspace: Path) -> None:
    keep(workspace, {"docs/a.txt": "1"}, call_id="90")
    keep(workspace, {"docs/a.txt": "2"}, call_id="91")

    executor.undo()
    executor.undo()

    assert texts(workspace) == BEFORE
    with pytest.raises(NothingKeptError, match=r"no call in .* can be undone"):
        executor.undo()


def test_several_calls_are_undone_together_and_that_is_undone_as_one(
    executor: ToolExecutor, workspace: Path
) -> None:
    for number in range(4):
        keep(workspace, {"docs/a.txt": str(number)}, call_id=f"9{number}")

    undone = executor.undo(calls=3)
    restored = texts(workspace)["docs/a.txt"]
    executor.undo(undone)

    assert (undone.structured["calls"], restored) == (["93", "92", "91"], "0")
    assert texts(workspace)["docs/a.txt"] == "3"


def test_a_whole_session_is_undone(executor: ToolExecutor, workspace: Path) -> None:
    keep(workspace, {"docs/a.txt": "1"}, call_id="90", session="s1")
    keep(workspace, {"docs/b.txt": "other"}, call_id="91", session="s2")
    keep(workspace, {"docs/a.txt": "2"}, call_id="92", session="s1")

    result = executor.undo(session="s1")

    assert result.structured["calls"] == ["92", "90"]
    assert texts(workspace) == {"docs/a.txt": "one\ntwo\n", "docs/b.txt": "other"}


def test_what_somebody_else_changed_since_is_named_and_left_alone(
    executor: ToolExecutor, workspace: Path
) -> None:
    keep(workspace, CHANGES, call_id="90")
    (workspace / "docs/a.txt").write_text("mine")

    result = executor.undo("90")

    assert (result.outcome, result.exit_code, result.code) == ("failed", 1, "conflicts")
    assert [each.path for each in result.conflicts] == ["docs/a.txt"]
    assert texts(workspace) == BEFORE | {"docs/a.txt": "mine"}
    assert f"left alone: {result.conflicts[0]}" in result.content


def test_a_staged_call_reaches_the_workspace_when_it_is_applied(
    executor: ToolExecutor, workspace: Path
) -> None:
    keep(workspace, CHANGES, call_id="90", state="staged")
    before = texts(workspace)

    applied = executor.apply("90")

    assert (before, texts(workspace)) == (BEFORE, AFTER)
    assert (applied.tool, applied.outcome, applied.call_id) == ("skillpouch.apply", "ok", "90")
    executor.undo(applied)
    assert texts(workspace) == BEFORE


@pytest.mark.parametrize("given", ["docs", "./docs/", "docs/a.txt docs/b.txt"])
def test_only_some_paths_are_applied(executor: ToolExecutor, workspace: Path, given: str) -> None:
    keep(workspace, CHANGES, call_id="90", state="staged")

    executor.apply("90", given.split())

    assert texts(workspace) == {"docs/a.txt": "one\n2\n"}
    executor.apply("90", ["new"])
    assert texts(workspace) == AFTER


def test_a_path_that_was_not_changed_cannot_be_applied(
    executor: ToolExecutor, workspace: Path
) -> None:
    keep(workspace, CHANGES, call_id="90", state="staged")

    with pytest.raises(UnknownPathError) as caught:
        executor.apply("90", ["docs/a.txt", "doc"])

    assert str(caught.value) == "'doc' is not among the changes of call 90"
    assert texts(workspace) == BEFORE


def test_what_was_refused_can_be_applied_by_whoever_has_the_executor(
    executor: ToolExecutor, workspace: Path
) -> None:
    keep(workspace, CHANGES, call_id="90", state="refused")

    executor.apply("90")

    assert texts(workspace) == AFTER


def test_what_is_discarded_never_arrives(executor: ToolExecutor, workspace: Path) -> None:
    keep(workspace, CHANGES, call_id="90", state="staged")

    result = executor.discard("90")

    assert (result.tool, result.outcome) == ("skillpouch.discard", "ok")
    assert result.content == "discarded call 90 of demo.write: 3 changes"
    assert texts(workspace) == BEFORE
    with pytest.raises(ChangeStateError, match="it was discarded: nothing of it is kept"):
        executor.apply("90")


@pytest.mark.parametrize(
    ("state", "act", "words", "step"),
    [
        ("applied", "apply", "cannot be applied: it is applied already", "skillpouch undo 90"),
        ("applied", "discard", "cannot be discarded: it is applied", "skillpouch undo 90"),
        ("staged", "undo", "cannot be undone: it is staged", "skillpouch apply 90"),
        ("refused", "undo", "cannot be undone: it was refused", "skillpouch apply 90"),
    ],
)
def test_what_does_not_fit_the_state_of_a_call_says_the_next_step(
    executor: ToolExecutor, workspace: Path, state: str, act: str, words: str, step: str
) -> None:
    keep(workspace, CHANGES, call_id="90", state=state)
    before = texts(workspace)

    with pytest.raises(ChangeStateError, match=words) as caught:
        getattr(executor, act)("90")

    assert step in caught.value.hint
    assert texts(workspace) == before


def test_a_call_is_undone_once(executor: ToolExecutor, workspace: Path) -> None:
    keep(workspace, CHANGES, call_id="90")
    executor.undo("90")

    with pytest.raises(ChangeStateError, match="is undone already") as caught:
        executor.undo("90")

    assert "`skillpouch apply 90` applies it again" in caught.value.hint
    executor.apply("90")
    assert texts(workspace) == AFTER


@pytest.mark.parametrize("call", ["77", "no such", "../../etc", "", "9" * 400, "\x00", "-1"])
@pytest.mark.parametrize("act", ["undo", "apply", "discard", "diff"])
def test_an_unknown_call_changes_nothing(
    executor: ToolExecutor, workspace: Path, act: str, call: str
) -> None:
    with pytest.raises((UnknownCallError, InvalidArgumentsError)):
        getattr(executor, act)(call)

    assert texts(workspace) == BEFORE


@pytest.mark.promise("undo-4")
@pytest.mark.parametrize("act", ["undo", "apply", "discard", "diff"])
def test_a_call_of_another_workspace_is_not_reached(
    executor: ToolExecutor, workspace: Path, tmp_path: Path, act: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    keep(other, {"x": "x"}, call_id="90", state="applied" if act == "undo" else "staged")
    before = texts(other)

    with pytest.raises(OtherWorkspaceError) as caught:
        getattr(executor, act)("90")

    assert caught.value.hint == f"name it: --workspace {other}"
    assert (texts(other), texts(workspace)) == (before, BEFORE)
    assert executor.changes() == []


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (CallEnd(outcome="ok", writes="undoable"), "changed no files"),
        (
            CallEnd(
                outcome="ok", writes="direct", changes=(FileChange(path="a", change="created"),)
            ),
            "wrote directly: nothing of it is kept",
        ),
        (
            CallEnd(
                outcome="ok", writes="undoable", changes=(FileChange(path="a", change="created"),)
            ),
            "the past of call 1 of demo.write was removed: changes are kept for 30 days",
        ),
    ],
)
def test_why_nothing_is_kept_of_a_call_is_known_from_the_journal(
    executor: ToolExecutor, end: CallEnd, words: str
) -> None:
    journal = user_journal()
    number = journal.started(Started(tool="demo.write"))
    journal.ended(number, end)

    with pytest.raises(NothingKeptError, match=words):
        executor.undo(number)


def test_the_past_that_was_pruned_says_so(executor: ToolExecutor, workspace: Path) -> None:
    keep(workspace, CHANGES, call_id="90")
    undone = executor.undo("90")
    for kept in ChangeStore().calls():
        kept.discard()

    with pytest.raises(SkillpouchError):
        executor.undo(undone)


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (ToolResult(tool="demo.x", outcome="ok"), "this call of demo.x wrote directly"),
        (ToolResult(tool="demo.x", outcome="ok", writes="staged"), "demo.x changed nothing"),
    ],
)
def test_a_result_of_which_nothing_is_kept_says_why(
    executor: ToolExecutor, result: ToolResult, words: str
) -> None:
    with pytest.raises(NothingKeptError, match=words):
        executor.undo(result)


def test_a_call_and_how_many_calls_are_not_both_given(executor: ToolExecutor) -> None:
    with pytest.raises(ValueError, match="not both"):
        executor.undo("90", calls=2)


@pytest.mark.parametrize("calls", [0, -1])
def test_no_fewer_than_one_call_is_undone(executor: ToolExecutor, calls: int) -> None:
    with pytest.raises(InvalidArgumentsError):
        executor.undo(calls=calls)


def test_the_diff_of_a_call_is_shown_whole_and_by_path(
    executor: ToolExecutor, workspace: Path
) -> None:
    keep(workspace, CHANGES, call_id="90", state="staged")

    whole, one = executor.diff("90"), executor.diff("90", path="docs/a.txt")

    assert "-two" in one
    assert "+2" in one
    assert "c.txt" not in one
    assert one in whole
    assert "+c" in executor.diff("90", path="new")
    with pytest.raises(UnknownPathError):
        executor.diff("90", path="other")


def test_a_diff_is_bounded(executor: ToolExecutor, workspace: Path) -> None:
    many = {f"many/{number:03}.txt": "line\n" * 1000 for number in range(50)}
    keep(workspace, many, call_id="90", state="staged")

    text = executor.diff("90", path="many", most_bytes=20_000)

    assert len(text.encode()) < 40_000


@pytest.mark.promise("sec-2")
def test_a_diff_has_no_secret_that_was_granted(
    workspace: Path, write_skill: WriteSkill, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("API_KEY", "hunter2hunter2")
    write_skill("demo", files={"scripts/x.py": "print(1)"})
    manager = SkillManager(tmp_path / "skills", workspace=workspace)
    Grants().grant(manager.get_skill("demo"), [Need(kind="secret", value="API_KEY")])
    keep(workspace, {"docs/a.txt": "key = hunter2hunter2\n"}, call_id="90", state="staged")

    text = manager.diff("90")

    assert "hunter2hunter2" not in text
    assert "+key = [redacted API_KEY]" in text


def test_what_is_kept_is_listed_the_newest_first(executor: ToolExecutor, workspace: Path) -> None:
    keep(workspace, {"docs/a.txt": "1"}, call_id="90")
    keep(workspace, CHANGES | {"docs/a.txt": "2"}, call_id="91", state="staged", session="s1")

    newest, oldest = executor.changes()

    assert (newest.id, newest.state, newest.session, newest.total) == ("91", "staged", "s1", 3)
    assert (oldest.id, oldest.state, oldest.tool, oldest.workspace) == (
        "90",
        "applied",
        "demo.write",
        workspace,
    )
    assert [each.path for each in oldest.changes] == ["docs/a.txt"]
    assert [each.id for each in executor.changes(session="s1")] == ["91"]
    assert time.time_ns() - oldest.started_ns < 600e9


def test_a_rule_can_keep_an_executor_from_undoing(workspace: Path) -> None:
    policy = Policy(rules=[Rule(verdict="deny", tools=["skillpouch.*"], reason="ask Ada")])
    executor = ToolExecutor([], workspace=workspace, policy=policy)
    keep(workspace, CHANGES, call_id="90")

    with pytest.raises(CallDeniedError):
        executor.undo("90")

    assert texts(workspace) == AFTER
    assert [(each.tool, each.outcome) for each in entries()] == [("skillpouch.undo", "denied")]


def test_an_error_is_on_record_too(executor: ToolExecutor) -> None:
    with pytest.raises(UnknownCallError):
        executor.apply("90")

    assert [(each.tool, each.outcome, each.code) for each in entries()] == [
        ("skillpouch.apply", "not_started", "no_such_change")
    ]


async def test_each_method_has_a_twin_for_asyncio(executor: ToolExecutor, workspace: Path) -> None:
    keep(workspace, {"docs/a.txt": "2"}, call_id="90", state="staged")
    keep(workspace, {"docs/b.txt": "2"}, call_id="91", state="staged")

    diff = await executor.adiff("90")
    await executor.aapply("90")
    await executor.adiscard("91")
    applied = texts(workspace)
    await executor.aundo("90")

    assert "+2" in diff
    assert (applied, texts(workspace)) == (BEFORE | {"docs/a.txt": "2"}, BEFORE)
    assert {each.state for each in await executor.achanges()} >= {"undone", "discarded"}


async def test_whoever_cancels_an_undo_finds_it_done_or_not_begun(
    executor: ToolExecutor, workspace: Path
) -> None:
    keep(workspace, {f"many/{n}": "x" for n in range(500)}, call_id="90")

    task = asyncio.ensure_future(executor.aundo("90"))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    left = len(list((workspace / "many").iterdir())) if (workspace / "many").exists() else 0
    assert left in (0, 500)
    assert KeptCalls(workspace).get("90").state == ("undone" if left == 0 else "applied")


def test_long_work_is_told(workspace: Path) -> None:
    told: list[str] = []
    executor = ToolExecutor([], workspace=workspace, on_progress=told.append)
    keep(workspace, {f"many/{n}": "x" for n in range(1200)}, call_id="90")

    executor.undo("90")

    assert told == ["undoing call 90: 1,200 changes"]


def test_a_store_that_cannot_be_read_is_a_clear_error(
    executor: ToolExecutor, workspace: Path
) -> None:
    kept = keep(workspace, CHANGES, call_id="90")
    state = state_directory()
    assert state is not None
    (state / "changes" / kept.id / "call.json").unlink(missing_ok=True)
    for file in (state / "changes" / kept.id).iterdir():
        if file.is_file():
            file.write_bytes(b"\xff no JSON")

    with pytest.raises(SkillpouchError) as caught:
        executor.undo("90")

    assert caught.value.code in ("no_such_change", "change_store")
    assert texts(workspace) == AFTER


@pytest.mark.promise("undo-5")
def test_a_model_gets_tools_to_undo_only_if_the_owner_wants_it(workspace: Path) -> None:
    without = ToolExecutor([], workspace=workspace, builtins=True)
    having = ToolExecutor([], workspace=workspace, undo_tools=True)
    keep(workspace, CHANGES, call_id="90")

    shown = {tool.id: tool.name for tool in having.tools}
    diff = having.execute_sync("skillpouch__diff", {"call": "90"})
    undone = having.execute_sync("skillpouch__undo")

    assert not any(tool.id.startswith("skillpouch.") for tool in without.tools)
    assert shown == {"skillpouch.undo": "skillpouch__undo", "skillpouch.diff": "skillpouch__diff"}
    assert "+2" in diff.content
    assert (undone.outcome, texts(workspace)) == ("ok", BEFORE)


def test_the_tools_to_undo_are_among_those_of_a_manager(
    workspace: Path, write_skill: WriteSkill, tmp_path: Path
) -> None:
    write_skill("demo", files={"scripts/x.py": "print(1)"})
    manager = SkillManager(tmp_path / "skills", workspace=workspace, undo_tools=True)
    keep(workspace, CHANGES, call_id="90")

    names = [tool.name for tool in manager.tools]
    result: Any = manager.call(manager.get_tool("skillpouch.undo").id, {"call": "90"})

    assert {"skillpouch__undo", "skillpouch__diff", "demo__x"} <= {*names}
    assert (result.outcome, texts(workspace)) == ("ok", BEFORE)


def test_names_that_are_no_text_are_applied_by_the_names_that_are_shown(
    executor: ToolExecutor, workspace: Path
) -> None:
    odd = os.fsdecode(b"odd\xff\x1b[31m.txt")
    keep(workspace, {odd: "x", "other": "y"}, call_id="90", state="staged")
    (shown,) = [each.path for each in executor.changes()[0].changes if each.path != "other"]

    executor.apply("90", [shown])

    assert sorted(path.name for path in workspace.iterdir()) == ["docs", odd]


@pytest.mark.parametrize("writes", ["direct", "undoable", "staged"])
def test_however_calls_write_what_they_changed_is_applied_and_undone_at_once(
    workspace: Path, writes: Writes
) -> None:
    executor = ToolExecutor([], workspace=workspace, policy=Policy(writes=writes))
    keep(workspace, CHANGES, call_id="90", state="staged")

    executor.apply("90")
    applied = texts(workspace)
    executor.undo("90")

    assert (applied, texts(workspace)) == (AFTER, BEFORE)


def test_without_a_journal_an_undo_has_an_id_of_its_own(workspace: Path) -> None:
    executor = ToolExecutor([], workspace=workspace, journal=False)
    keep(workspace, CHANGES, call_id="90")

    undone = executor.undo("90")
    executor.undo(undone)

    assert undone.call_id not in ("", "90")
    assert texts(workspace) == AFTER


def test_a_journal_that_begins_anew_does_not_keep_a_call_from_being_undone(
    executor: ToolExecutor, workspace: Path
) -> None:
    keep(workspace, CHANGES, call_id="1")  # as the undo itself is numbered

    undone = executor.undo("1")
    restored = texts(workspace)
    executor.undo(undone)

    assert (restored, texts(workspace)) == (BEFORE, AFTER)
    assert entries()[0].call_id == undone.call_id != "1"
