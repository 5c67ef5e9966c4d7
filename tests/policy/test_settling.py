"""What becomes of the changes of a call: applied, staged or refused, whatever its outcome."""

import asyncio
import json
import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from skillpouch import Limits, Policy, ScriptedTool, SkillManager
from skillpouch.environment import state_directory
from skillpouch.errors import CallDeniedError
from skillpouch.execution.zygote_client import probe
from skillpouch.journal.reading import JournalReader
from skillpouch.journal.records import Entry
from skillpouch.needs import Need
from skillpouch.policy import Answer, ChangeConditions, LimitRule, Question, Rule
from skillpouch.policy.settling import WritesUnavailableError, share_gone
from skillpouch.results import ToolResult
from skillpouch.trust.grants import Grants
from skillpouch.workspace.change_store import ChangeStore, StoreFullError
from tests.conftest import WriteSkill

OVERLAY = getattr(probe(), "overlay", "")
pytestmark = pytest.mark.skipif(not OVERLAY, reason="this machine has no overlay")

MakeManager = Callable[..., SkillManager]
SCRIPTS = {
    "scripts/make.sh": "echo new > made.txt; echo changed > old.txt\n",
    "scripts/clean.sh": "rm -f many/*\n",
    "scripts/encrypt.sh": "for f in many/*; do head -c 40 /dev/urandom > $f; done\n",
    "scripts/hidden.sh": "echo x > 'zero\u200bwidth.txt'; echo x > 'back\\slash.tar.gz'\n",
    "scripts/nothing.sh": "echo done\n",
    "scripts/fail.sh": "echo half > half.txt; exit 3\n",
    "scripts/hang.sh": "echo late > late.txt; echo ready; sleep 1000\n",
    "scripts/hook.sh": "mkdir -p .husky; echo evil > .husky/pre-commit\n",
    "scripts/leak.sh": 'echo "$API_KEY" > many/0; rm -f many/1*\n',
    "scripts/turn.sh": "mkdir -p keep; mv keep kept\n",
    "scripts/wait.sh": (
        "echo mine > both.txt; echo only > mine.txt; touch /tmp/x; echo ready\n"
        "while ! [ -e go ]; do sleep 0.01; done\n"
    ),
    "scripts/apart.py": "raise OSError(18, 'Invalid cross-device link')\n",
}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    (made / "many").mkdir(parents=True)
    for number in range(20):
        (made / f"many/{number}").write_text(f"text {number}\n" * 5)
    (made / "old.txt").write_text("old\n")
    return made


@pytest.fixture
def manager_of(write_skill: WriteSkill, workspace: Path) -> MakeManager:
    root = write_skill(files=SCRIPTS).parent

    def make(**options: Any) -> SkillManager:
        usual = {"workspace": workspace, "cache": False, "writes": "undoable"}
        return SkillManager(root, **{**usual, **options})

    return make


def call(manager: SkillManager, tool: str, *words: Any, **options: Any) -> ToolResult:
    return manager.executor.execute_sync(tool, *words, **options)


def started(manager: SkillManager, tool: str) -> tuple["asyncio.Task[ToolResult]", asyncio.Event]:
    """Start a call; the event is set when it prints something."""
    loop, ready = asyncio.get_running_loop(), asyncio.Event()

    def hear(_stream: str, _data: bytes) -> None:
        loop.call_soon_threadsafe(ready.set)

    return asyncio.create_task(manager.executor.execute(tool, on_output=hear)), ready


def last_row() -> Entry:
    with JournalReader(state_directory()) as reader:
        return reader.get(reader.latest())


def tree(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def changed(result: ToolResult) -> dict[str, str]:
    return {each.path: each.change for each in result.changes}


def test_the_changes_of_an_undoable_call_arrive_and_can_be_undone(
    manager_of: MakeManager, workspace: Path
) -> None:
    before = tree(workspace)

    result = call(manager_of(), "demo.make")

    assert (result.outcome, result.writes) == ("ok", "undoable")
    assert result.protections["writes"] == "undoable (overlay)"
    assert changed(result) == {"made.txt": "created", "old.txt": "changed"}
    assert {(f.path, f.change) for f in result.files} == {
        ("made.txt", "created"),
        ("old.txt", "modified"),
    }
    assert (workspace / "old.txt").read_text() == "changed\n"
    assert result.notes == ()
    ChangeStore().get(result.call_id).undo()
    assert tree(workspace) == before


@pytest.mark.parametrize("line", ["chmod 711 .", "touch -d 2001-02-03 .", "chmod 711 . && ls > x"])
def test_what_a_call_makes_of_the_workspace_itself_arrives_and_is_undone(
    manager_of: MakeManager, workspace: Path, line: str
) -> None:
    manager = manager_of(builtins=True)
    before = workspace.stat()

    result = call(manager, "bash", {"command": line})
    after = workspace.stat()
    undone = manager.undo()

    assert result.outcome == "ok"
    if "chmod" in line:
        assert changed(result)["."] == "mode"
        assert after.st_mode & 0o777 == 0o711
    else:
        assert after.st_mtime < 1_000_000_000
    assert (undone.outcome, undone.conflicts) == ("ok", ())
    restored = workspace.stat()
    assert (restored.st_mode, restored.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


def test_writing_a_file_leaves_the_times_of_the_folders_around_its_own(
    manager_of: MakeManager, workspace: Path
) -> None:
    (workspace / "many/inner").mkdir()
    paths = (workspace, workspace / "many")
    before = [path.stat().st_mtime_ns for path in paths]

    call(manager_of(builtins=True), "write", {"file_path": "many/inner/x", "content": "x"})

    assert [path.stat().st_mtime_ns for path in paths] == before
    assert (workspace / "many/inner/x").read_text() == "x"


@pytest.mark.parametrize("writes", ["undoable", "direct"])
def test_hidden_characters_of_names_are_written_out_once(
    manager_of: MakeManager, writes: str
) -> None:
    result = call(manager_of(writes=writes), "hidden")

    assert [(file.path, file.type) for file in result.files] == [
        ("back\\\\slash.tar.gz", "application/x-tar"),
        ("zero\\u200bwidth.txt", "text/plain"),
    ]


def test_a_call_that_writes_nothing_keeps_nothing(manager_of: MakeManager) -> None:
    result = call(manager_of(), "demo.nothing")

    assert result.protections["writes"] == "undoable (overlay)"
    assert (result.changes, result.call_id, result.writes) == ((), "", "undoable")
    assert ChangeStore().calls() == []


def test_the_id_of_a_call_is_its_number_in_the_journal(manager_of: MakeManager) -> None:
    with_journal = call(manager_of(), "demo.make")
    without = call(manager_of(journal=False), "demo.fail")

    assert with_journal.call_id.isdecimal()
    assert without.call_id.startswith("c")
    assert ChangeStore().get(without.call_id).state == "applied"


def test_nothing_of_a_staged_call_arrives_and_its_note_says_how_to_get_it(
    manager_of: MakeManager, workspace: Path
) -> None:
    before = tree(workspace)

    result = call(manager_of(), "demo.make", writes="staged")

    assert tree(workspace) == before
    assert (result.outcome, result.writes, result.files) == ("ok", "staged", ())
    assert result.protections["writes"] == "staged (overlay)"
    assert result.notes == (
        (
            "note: its 2 changes are staged, and not yet in the workspace: "
            f"`skillpouch diff {result.call_id}` shows, `skillpouch apply {result.call_id}` applies"
        ),
    )
    ChangeStore().get(result.call_id).apply()
    assert (workspace / "made.txt").read_text() == "new\n"


@pytest.mark.promise("writes-1")
@pytest.mark.parametrize("tool", ["demo.clean", "demo.encrypt"])
def test_a_destructive_call_without_an_approver_changes_nothing(
    manager_of: MakeManager, workspace: Path, tool: str
) -> None:
    before = tree(workspace)

    result = call(manager_of(), tool)

    assert tree(workspace) == before
    assert (result.outcome, result.code, result.files) == ("denied", "changes_refused", ())
    assert len(result.changes) == 20
    note = result.notes[-1]
    assert "did not reach the workspace: it " in note
    assert "there is nobody to ask" in note
    assert f"`skillpouch apply {result.call_id}`" in note
    kept = ChangeStore().get(result.call_id)
    assert kept.state == "refused"
    kept.apply()
    assert tree(workspace) != before


def test_an_approver_sees_the_changes_and_a_diff(manager_of: MakeManager, workspace: Path) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        assert (workspace / "many/1").exists()  # nothing has arrived yet
        return True

    result = call(manager_of(approver=approve), "demo.clean")

    assert (result.outcome, len(asked)) == ("ok", 1)
    assert not (workspace / "many/1").exists()
    assert {each.change for each in asked[0].changes} == {"deleted"}
    assert "-text 1\n" in asked[0].diff
    assert asked[0].reasons[0].startswith("it deletes 20 files that existed")


@pytest.mark.parametrize("reply", [False, Answer(yes=False, reason="no, thanks")])
def test_a_no_keeps_the_changes_away(
    manager_of: MakeManager, workspace: Path, reply: bool | Answer
) -> None:
    result = call(manager_of(approver=lambda _: reply), "demo.clean")

    assert (result.outcome, result.code) == ("denied", "changes_refused")
    assert (workspace / "many/1").exists()


def test_secrets_are_redacted_from_the_diff_that_is_shown(
    write_skill: WriteSkill, workspace: Path
) -> None:
    front = "name: demo\ndescription: x\nmetadata: {skillpouch: {secrets: [API_KEY]}}\n"
    root = write_skill(files=SCRIPTS, front=front).parent
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    manager = SkillManager(
        root,
        workspace=workspace,
        cache=False,
        writes="undoable",
        secrets=lambda _session, _name: "hunter2-and-more",
        approver=approve,
    )
    Grants().grant(manager.get_skill("demo"), [Need(kind="secret", value="API_KEY")], by="user")

    result = call(manager, "demo.leak")

    assert result.outcome == "ok"
    assert "hunter2" in (workspace / "many/0").read_text()
    shown = [question.diff for question in asked if question.diff]
    assert "-text 1" in shown[0]
    assert "hunter2" not in shown[0]


def test_a_rule_denies_whatever_an_approver_says(manager_of: MakeManager, workspace: Path) -> None:
    rule = Rule(verdict="deny", changes=ChangeConditions(paths=["old.txt"]), reason="keep it")
    manager = manager_of(policy=Policy(rules=[rule]), approver=lambda _: True)

    result = call(manager, "demo.make")

    assert result.code == "changes_refused"
    assert "denies it: keep it" in result.notes[-1]
    assert not (workspace / "made.txt").exists()


def test_a_rule_refuses_what_other_programs_would_run(
    manager_of: MakeManager, workspace: Path
) -> None:
    rule = Rule(verdict="deny", changes=ChangeConditions(run_later=True))

    told = call(manager_of(), "demo.hook")
    (workspace / ".husky/pre-commit").unlink()
    (workspace / ".husky").rmdir()
    refused = call(manager_of(policy=Policy(rules=[rule])), "demo.hook")

    assert told.run_later == (".husky",)
    assert "look at it first" in told.content
    assert (refused.code, refused.run_later) == ("changes_refused", ())
    assert not (workspace / ".husky").exists()


def test_a_rule_allows_what_the_bounds_ask_about(manager_of: MakeManager, workspace: Path) -> None:
    rule = Rule(verdict="allow", tools=["demo.*"], changes=ChangeConditions(paths=["many/**"]))

    result = call(manager_of(policy=Policy(rules=[rule])), "demo.clean")

    assert result.outcome == "ok"
    assert list((workspace / "many").iterdir()) == []


def test_the_changes_of_a_call_that_failed_arrive_too(
    manager_of: MakeManager, workspace: Path
) -> None:
    result = call(manager_of(), "demo.fail")

    assert (result.outcome, result.exit_code) == ("failed", 3)
    assert changed(result) == {"half.txt": "created"}
    assert (workspace / "half.txt").read_text() == "half\n"


@pytest.mark.parametrize(("writes", "arrives"), [("undoable", True), ("staged", False)])
def test_the_changes_of_a_call_that_timed_out_are_settled(
    manager_of: MakeManager, workspace: Path, writes: Any, arrives: bool
) -> None:
    manager = manager_of(writes=writes, limits=Limits(timeout_seconds=0.5))

    result = call(manager, "demo.hang")

    assert result.outcome == "timed_out"
    assert changed(result) == {"late.txt": "created"}
    assert (workspace / "late.txt").exists() is arrives
    row = last_row()
    assert (row.outcome, row.call_id) == ("timed_out", str(row.id))
    assert [each["path"] for each in row.changes] == ["late.txt"]
    assert "+late" in manager.diff(row.id)


@pytest.mark.parametrize(("writes", "state"), [("undoable", "applied"), ("staged", "staged")])
async def test_the_changes_of_a_cancelled_call_are_settled(
    manager_of: MakeManager, workspace: Path, writes: Any, state: str
) -> None:
    running, ready = started(manager_of(writes=writes), "demo.hang")
    await ready.wait()
    running.cancel()

    with pytest.raises(asyncio.CancelledError):
        await running

    assert (workspace / "late.txt").exists() is (state == "applied")
    assert [kept.state for kept in ChangeStore().calls()] == [state]
    row = last_row()
    assert (row.outcome, row.writes, row.call_id) == ("cancelled", writes, str(row.id))
    assert [each["path"] for each in row.changes] == ["late.txt"]


async def test_a_file_that_changed_meanwhile_is_named_and_left_alone(
    manager_of: MakeManager, workspace: Path
) -> None:
    (workspace / "both.txt").write_text("before\n")
    running, ready = started(manager_of(), "demo.wait")
    await ready.wait()
    (workspace / "both.txt").write_text("theirs\n")
    (workspace / "go").touch()

    result = await running

    assert (workspace / "both.txt").read_text() == "theirs\n"
    assert (workspace / "mine.txt").read_text() == "only\n"
    assert [each.path for each in result.conflicts] == ["both.txt"]
    assert "1 file changed meanwhile" in result.notes[-1]
    assert "both.txt" in result.notes[-1]


async def test_calls_side_by_side_settle_one_by_one(
    manager_of: MakeManager, workspace: Path
) -> None:
    manager = manager_of()

    results = await asyncio.gather(*(manager.executor.execute("demo.make") for _ in range(5)))

    assert {result.outcome for result in results} == {"ok"}
    assert (workspace / "old.txt").read_text() == "changed\n"
    assert len({result.call_id for result in results}) == 5


@pytest.mark.promise("writes-3")
def test_a_way_that_was_asked_for_and_cannot_be_had_runs_nothing(
    manager_of: MakeManager, workspace: Path
) -> None:
    manager = manager_of(sandbox="off", writes=None, policy=Policy(writes="staged"))

    with pytest.raises(WritesUnavailableError, match="it runs unconfined") as raised:
        call(manager, "demo.make")

    assert raised.value.code == "writes_unavailable"
    assert 'writes = "direct"' in raised.value.hint
    assert not (workspace / "made.txt").exists()


def test_an_unconfined_call_is_direct_unless_somebody_asked(manager_of: MakeManager) -> None:
    result = call(manager_of(sandbox="off", writes=None), "demo.make")

    assert (result.writes, result.protections["writes"]) == ("direct", "direct")
    assert {f.path for f in result.files} == {"made.txt", "old.txt"}


def test_an_unconfined_call_can_be_undone_by_a_copy(
    manager_of: MakeManager, workspace: Path
) -> None:
    before = tree(workspace)

    result = call(manager_of(sandbox="off"), "demo.make")

    assert result.protections["writes"] == "undoable (copy)"
    assert changed(result) == {"made.txt": "created", "old.txt": "changed"}
    ChangeStore().get(result.call_id).undo()
    assert tree(workspace) == before


@pytest.mark.promise("writes-1")
def test_what_a_copied_call_did_is_taken_back_if_it_is_refused(
    manager_of: MakeManager, workspace: Path
) -> None:
    before = tree(workspace)

    result = call(manager_of(sandbox="off"), "demo.clean")

    assert (result.outcome, result.code) == ("denied", "changes_refused")
    assert tree(workspace) == before


@pytest.mark.promise("writes-3")
def test_a_workspace_that_is_too_large_to_copy_refuses_the_call(
    manager_of: MakeManager, workspace: Path
) -> None:
    for number in range(2_001):
        (workspace / f"many/more-{number}").touch()

    with pytest.raises(WritesUnavailableError, match="it runs unconfined; and "):
        call(manager_of(sandbox="off"), "demo.make")

    assert not (workspace / "made.txt").exists()


@pytest.mark.promise("writes-3")
def test_a_call_whose_changes_could_not_be_kept_does_not_start(
    manager_of: MakeManager, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = os.statvfs_result((4096, 4096, 10_000_000, 10, 10, 9, 9, 9, 0, 255))
    monkeypatch.setattr(os, "statvfs", lambda _: full)

    with pytest.raises(StoreFullError, match="nearly full"):
        call(manager_of(), "demo.make")

    assert not (workspace / "made.txt").exists()


def test_a_caller_cannot_loosen_and_a_policy_can(manager_of: MakeManager, workspace: Path) -> None:
    direct = Policy(limits=[LimitRule(tools=["demo.make"], writes="direct")])

    with pytest.raises(CallDeniedError, match="looser than 'undoable'"):
        call(manager_of(), "demo.make", writes="direct")
    assert not (workspace / "made.txt").exists()
    result = call(manager_of(writes=None, policy=direct), "demo.make")

    assert (result.writes, result.changes) == ("direct", ())


def test_a_folder_that_overlayfs_refuses_to_rename_is_explained(manager_of: MakeManager) -> None:
    result = call(manager_of(), "demo.apart")

    assert result.outcome == "failed"
    assert "a folder that existed cannot be renamed in one step" in result.notes[-1]
    assert '`tools = ["demo.apart"]`' in result.notes[-1]


def test_write_and_edit_go_the_same_way(manager_of: MakeManager, workspace: Path) -> None:
    manager = manager_of(builtins=True)

    made = call(manager, "write", {"file_path": "a/b/c.txt", "content": "one\n"})
    edited = call(
        manager, "edit", {"file_path": "a/b/c.txt", "old_string": "one", "new_string": "two"}
    )
    added = call(manager, "write", {"file_path": "a/b/c.txt", "content": "3\n", "append": True})

    assert (workspace / "a/b/c.txt").read_text() == "two\n3\n"
    assert [changed(each) for each in (made, edited, added)] == [
        {"a/b/c.txt": "created"},
        {"a/b/c.txt": "changed"},
        {"a/b/c.txt": "changed"},
    ]
    assert made.protections == {"fs": "openat", "writes": "undoable (layer)"}
    ChangeStore().get(added.call_id).undo()
    assert (workspace / "a/b/c.txt").read_text() == "two\n"


def test_a_staged_edit_leaves_the_file_alone(manager_of: MakeManager, workspace: Path) -> None:
    manager = manager_of(builtins=True)
    words = {"file_path": "old.txt", "old_string": "old", "new_string": "new"}

    result = call(manager, "edit", words, writes="staged")

    assert (workspace / "old.txt").read_text() == "old\n"
    assert changed(result) == {"old.txt": "changed"}
    ChangeStore().get(result.call_id).apply()
    assert (workspace / "old.txt").read_text() == "new\n"


def test_an_edit_that_fails_settles_nothing(manager_of: MakeManager) -> None:
    manager = manager_of(builtins=True)
    wrong = {"file_path": "old.txt", "content": "x", "expected_sha256": "0" * 64}

    result = call(manager, "write", wrong)

    assert (result.outcome, result.changes) == ("failed", ())
    assert ChangeStore().calls() == []


def test_each_call_that_a_script_makes_settles_its_own_changes(
    manager_of: MakeManager, workspace: Path
) -> None:
    script = ScriptedTool.over(manager_of())

    ran = script.execute_sync("demo.make; cat /dev/null; demo.clean || echo refused")

    assert (workspace / "made.txt").exists()
    assert (workspace / "many/1").exists()
    assert "refused" in ran.stdout
    assert [(kept.tool, kept.state) for kept in ChangeStore().calls()] == [
        ("demo.clean", "refused"),
        ("demo.make", "applied"),
    ]


def test_the_next_command_begins_in_a_folder_that_the_last_one_made(
    manager_of: MakeManager, workspace: Path
) -> None:
    manager = manager_of(builtins=True)

    made = call(manager, "bash", {"command": "mkdir deep && cd deep"})
    called = call(manager, "bash", {"command": "pwd"})

    assert (made.content, called.stdout) == ("", f"{workspace}/deep\n")


def test_a_background_job_holds_its_own_layer_until_it_ends(
    manager_of: MakeManager, workspace: Path
) -> None:
    manager = manager_of(builtins=True)
    line = "echo early > early.txt; while ! [ -e go ]; do sleep 0.01; done; echo end"

    started = call(manager, "bash", {"command": line, "background": True})
    job = json.loads(started.stdout)["job"]
    assert not (workspace / "early.txt").exists()
    (workspace / "go").touch()
    looked = call(manager, "bash", {"job": job, "timeout": 30_000})

    assert json.loads(json.dumps(looked.structured))["running"] is False
    assert changed(looked) == {"early.txt": "created"}
    assert (workspace / "early.txt").read_text() == "early\n"
    ChangeStore().get(looked.call_id).undo()
    assert not (workspace / "early.txt").exists()


def destroyed_by_a_job(manager: SkillManager) -> ToolResult:
    started = call(manager, "bash", {"command": "rm many/*", "background": True})
    return call(manager, "bash", {"job": json.loads(started.stdout)["job"], "timeout": 30_000})


def test_a_job_that_destroys_asks_before_its_changes_arrive(
    manager_of: MakeManager, workspace: Path
) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return bool(question.diff)

    looked = destroyed_by_a_job(manager_of(builtins=True, approver=approve))

    assert ["-text 1\n" in question.diff for question in asked] == [True]
    assert not (workspace / "many/1").exists()
    assert ChangeStore().get(looked.call_id).state == "applied"


@pytest.mark.parametrize("approver", [None, lambda _: False], ids=["nobody", "no"])
def test_a_job_that_destroys_is_refused_without_an_approval_and_its_look_says_so(
    manager_of: MakeManager, workspace: Path, approver: Any
) -> None:
    looked = destroyed_by_a_job(manager_of(builtins=True, approver=approver))

    assert (workspace / "many/1").exists()
    assert "20 changes did not reach the workspace" in looked.notes[-1]
    assert f"`skillpouch apply {looked.call_id}`" in looked.notes[-1]
    assert ChangeStore().get(looked.call_id).state == "refused"


async def test_a_job_that_is_ended_asks_nobody_and_keeps_what_it_did(
    manager_of: MakeManager, workspace: Path
) -> None:
    asked: list[Question] = []

    def approve(question: Question) -> bool:
        asked.append(question)
        return True

    manager = manager_of(builtins=True, approver=approve)
    line = "rm many/*; echo ready; while :; do sleep 0.01; done"

    started = await manager.acall("bash", {"command": line, "background": True})
    job = json.loads(started.stdout)["job"]
    said = ""
    while "ready" not in said:
        said += (await manager.acall("bash", {"job": job, "timeout": 100})).stdout
    looked = await manager.acall("bash", {"job": job, "kill": True})

    assert asked == []
    assert (workspace / "many/1").exists()
    assert ChangeStore().get(looked.call_id).state == "refused"


@pytest.mark.parametrize(
    ("old", "new", "share"),
    [
        (b"a\nb\nc\nd\n", b"a\nb\nc\nd\ne\n", 0.0),
        (b"a\nb\nc\nd\n", b"d\nc\nb\na\n", 0.0),
        (b"a\nb\nc\nd\n", b"", 1.0),
        (b"a\nb\nc\nd\n", b"a\nb\n", 0.5),
        (b"one line", b"xone linex", 0.0),
        (b"", b"new", 0.0),
    ],
)
def test_how_much_of_a_file_is_gone(old: bytes, new: bytes, share: float) -> None:
    assert share_gone(BytesIO(old), BytesIO(new)) == pytest.approx(share, abs=0.12)
