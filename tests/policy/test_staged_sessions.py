"""Sessions that work in a preview: each call sees what the calls before it staged."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch import SessionManager, SkillManager
from skillpouch.execution.zygote_client import probe
from skillpouch.policy.settling import StagedChangesError
from skillpouch.results import ToolResult
from skillpouch.workspace.change_store import ChangeStore
from tests.conftest import WriteSkill

OVERLAY = getattr(probe(), "overlay", "")
pytestmark = pytest.mark.skipif(not OVERLAY, reason="this machine has no overlay")

Preview = Callable[..., ToolResult]
SCRIPTS = {"scripts/list.sh": "find . -type f | sort; cat *.txt\n"}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    made = tmp_path / "workspace"
    (made / "docs/inner").mkdir(parents=True)
    (made / "docs/a.txt").write_text("a\n")
    (made / "docs/inner/b.txt").write_text("b\n")
    (made / "old.txt").write_text("old\n")
    return made


@pytest.fixture
def manager(write_skill: WriteSkill, workspace: Path) -> SkillManager:
    root = write_skill(files=SCRIPTS).parent
    return SkillManager(root, workspace=workspace, cache=False, writes="staged", builtins=True)


@pytest.fixture
def call(manager: SkillManager) -> Preview:
    return manager.executor.execute_sync


@pytest.fixture
def bash(call: Preview) -> Callable[[str], ToolResult]:
    return lambda line: call("bash", {"command": line})


def tree(folder: Path) -> dict[str, str]:
    return {str(p.relative_to(folder)): p.read_text() for p in folder.rglob("*") if p.is_file()}


def changed(result: ToolResult) -> dict[str, str]:
    return {each.path: each.change for each in result.changes}


Bash = Callable[[str], ToolResult]


def test_a_call_sees_what_the_calls_before_it_staged(bash: Bash, workspace: Path) -> None:
    before = tree(workspace)

    first = bash("echo one > new.txt; rm old.txt; mv docs/a.txt docs/moved.txt")
    second = bash("cat new.txt docs/moved.txt; ls; echo two >> new.txt")
    third = bash("cat new.txt; rm -r docs; mkdir docs; echo fresh > docs/a.txt")
    fourth = bash("cat docs/a.txt; ls docs")

    assert tree(workspace) == before
    assert second.stdout == "one\na\ndocs\nnew.txt\n"
    assert third.stdout == "one\ntwo\n"
    assert fourth.stdout == "fresh\na.txt\n"
    assert changed(first) == {
        "new.txt": "created",
        "old.txt": "deleted",
        "docs/moved.txt": "renamed",
    }
    assert changed(second) == {"new.txt": "changed"}
    assert changed(third) == {
        "docs/a.txt": "created",
        "docs/moved.txt": "deleted",
        "docs/inner/b.txt": "deleted",
    }
    assert changed(fourth) == {}


def test_calls_applied_in_their_order_give_what_the_last_one_saw(
    bash: Bash, manager: SkillManager, workspace: Path
) -> None:
    steps = (
        "echo one > new.txt; rm old.txt; mv docs/a.txt docs/moved.txt; chmod 755 docs/moved.txt",
        "echo two >> new.txt; mkdir -p made/deep; echo x > made/deep/x; touch -d 2001-01-01 docs",
        "echo y > made/deep/y; mv made/deep/x made/x; ln -s x made/link; rm -r docs/inner",
        "rm -r docs; mkdir docs; echo fresh > docs/a.txt; mv new.txt made/new.txt",
    )
    before = tree(workspace)
    results = [bash(line) for line in steps]
    seen = bash("find . -type f | sort | xargs tail -n +1; stat -c '%n %a' docs made")

    applied = [manager.apply(result) for result in results]

    assert [each.conflicts for each in applied] == [()] * 4
    assert tree(workspace) == {
        "docs/a.txt": "fresh\n",
        "made/new.txt": "one\ntwo\n",
        "made/x": "x\n",
        "made/link": "x\n",
        "made/deep/y": "y\n",
    }
    again = bash("find . -type f | sort | xargs tail -n +1; stat -c '%n %a' docs made")
    assert again.stdout == seen.stdout
    for result in reversed(results):
        assert manager.undo(result).conflicts == ()
    assert tree(workspace) == before


def test_a_later_call_waits_for_the_one_that_it_builds_on(
    bash: Bash, manager: SkillManager, workspace: Path
) -> None:
    first = bash("echo one > new.txt; mkdir made")
    second = bash("echo two >> new.txt; echo x > made/x; echo free > free.txt")

    early = manager.apply(second)
    waits = ChangeStore().get(second.call_id).state
    manager.apply(first)
    late = manager.apply(second)

    reason = f"it builds on call {first.call_id}, which waits: apply that one first"
    assert (early.outcome, early.code) == ("failed", "conflicts")
    assert {str(each) for each in early.conflicts} == {f"new.txt: {reason}", f"made/x: {reason}"}
    assert changed(early) == {"free.txt": "created"}
    assert waits == "staged"
    assert late.conflicts == ()
    assert tree(workspace)["new.txt"] == "one\ntwo\n"
    assert tree(workspace)["made/x"] == "x\n"


def test_what_builds_on_a_discarded_call_is_named_and_left_alone(
    bash: Bash, manager: SkillManager, workspace: Path
) -> None:
    first = bash("echo one > new.txt")
    second = bash("echo two >> new.txt; echo free > free.txt")

    manager.discard(first)
    applied = manager.apply(second)

    assert [str(each) for each in applied.conflicts] == [
        f"new.txt: it builds on call {first.call_id}, which was discarded"
    ]
    assert "new.txt" not in tree(workspace)
    assert tree(workspace)["free.txt"] == "free\n"


def test_a_diff_is_against_what_the_call_saw(bash: Bash, manager: SkillManager) -> None:
    bash("printf 'one\\ntwo\\n' > new.txt; echo changed > old.txt")
    second = bash("echo three >> new.txt; rm old.txt")

    diff = manager.diff(second)

    assert "+three" in diff
    assert "+one" not in diff
    assert "-changed" in diff
    assert "-old" not in diff


def test_tools_of_the_host_see_what_is_staged(call: Preview, bash: Bash, workspace: Path) -> None:
    call("write", {"file_path": "made/a.txt", "content": "hello\nworld\n"})
    edited = call("edit", {"file_path": "made/a.txt", "old_string": "world", "new_string": "you"})
    bash("rm old.txt; mkdir -p made/more; echo needle > made/more/b.txt")

    read = call("read", {"file_path": "made/a.txt"})
    gone = call("read", {"file_path": "old.txt"})
    listed = call("ls", {"depth": 3})
    globbed = call("glob", {"pattern": "made/**"})
    found = call("grep", {"pattern": "needle|you"})
    appended = call("write", {"file_path": "made/more/b.txt", "content": "2\n", "append": True})
    again = call("edit", {"file_path": "made/a.txt", "old_string": "you", "new_string": "all"})
    shown = bash("cat made/a.txt made/more/b.txt")

    assert changed(edited) == {"made/a.txt": "changed"}
    assert read.content.split() == ["1", "hello", "2", "you"]
    assert gone.code == "not_found"
    assert listed.stdout.split() == [
        *("docs", "docs/inner", "docs/inner/b.txt", "docs/a.txt"),
        *("made", "made/more", "made/more/b.txt", "made/a.txt"),
    ]
    assert globbed.stdout.split() == ["made/a.txt", "made/more/b.txt"]
    assert found.stdout.split() == ["made/a.txt:2:you", "made/more/b.txt:1:needle"]
    assert (appended.outcome, again.outcome) == ("ok", "ok")
    assert shown.stdout == "hello\nall\nneedle\n2\n"
    assert sorted(tree(workspace)) == ["docs/a.txt", "docs/inner/b.txt", "old.txt"]


def test_a_shell_goes_on_in_a_folder_that_is_staged(bash: Bash, workspace: Path) -> None:
    bash("mkdir deep && cd deep && echo x > x")

    shown = bash("pwd; ls")

    assert shown.stdout == f"{workspace}/deep\nx\n"


def test_a_script_of_a_skill_sees_what_is_staged(call: Preview, bash: Bash) -> None:
    bash("echo new > new.txt; rm -r docs")

    listed = call("demo.list")

    assert listed.stdout == "./new.txt\n./old.txt\nnew\nold\n"


def test_a_layer_that_waits_is_never_changed_by_a_later_call(bash: Bash) -> None:
    first = bash("echo one > new.txt; mkdir made; echo x > made/x")
    kept = ChangeStore().get(first.call_id)
    before = {layer: tree(layer) for layer in kept.layers}

    bash("echo two > new.txt; rm -r made; chmod 600 old.txt")

    assert {layer: tree(layer) for layer in kept.layers} == before
    assert list(before.values()) == [{"new.txt": "one\n", "made/x": "x\n"}]


def test_a_call_of_which_a_part_was_applied_lets_the_next_one_wait(
    bash: Bash, manager: SkillManager
) -> None:
    first = bash("echo one > one.txt; echo two > two.txt")
    manager.apply(first, ["one.txt"])

    with pytest.raises(StagedChangesError, match=f"a part of call {first.call_id} was applied"):
        bash("ls")
    manager.apply(first)

    assert bash("cat one.txt two.txt").stdout == "one\ntwo\n"


async def test_calls_side_by_side_build_on_the_same_and_both_are_seen(
    manager: SkillManager,
) -> None:
    execute = manager.executor.execute
    await execute("bash", {"command": "echo base > base.txt"})

    await asyncio.gather(
        execute("bash", {"command": "cat base.txt > left.txt"}),
        execute("bash", {"command": "cat base.txt > right.txt"}),
    )
    seen = await execute("bash", {"command": "cat left.txt right.txt"})

    assert seen.stdout == "base\nbase\n"


@pytest.mark.promise("undo-6")
async def test_a_session_sees_nothing_that_another_staged(
    manager: SkillManager, tmp_path: Path
) -> None:
    folders = tmp_path / "sessions"
    sessions = SessionManager(manager, writes="staged", workspaces=folders, builtins=True)
    first, second = await sessions.create_session(), await sessions.create_session()
    secret = {"command": "echo secret > secret.txt; ls"}

    made = await sessions.execute(first, "bash", secret)
    own = await sessions.execute(first, "bash", {"command": "cat secret.txt"})
    other = await sessions.execute(second, "bash", {"command": "ls; cat secret.txt"})
    search = "find / -xdev -path /usr -prune -o -name 'secret*' -print; find /dev /tmp; cat"
    search += " /proc/self/mountinfo; ls -l /proc/self/fd"
    searched = await sessions.execute(second, "bash", {"command": search})

    assert made.writes == "staged"
    assert own.stdout == "secret\n"
    assert "secret.txt" not in other.stdout
    assert "secret" not in searched.stdout
    assert "/changes/" not in searched.stdout


def test_single_calls_that_are_staged_stand_for_themselves(
    write_skill: WriteSkill, workspace: Path
) -> None:
    root = write_skill(files=SCRIPTS).parent
    manager = SkillManager(root, workspace=workspace, cache=False, builtins=True)
    words: Any = {"command": "echo x > x.txt; ls *.txt"}

    first = manager.executor.execute_sync("bash", words, writes="staged")
    second = manager.executor.execute_sync("bash", {"command": "ls *.txt"}, writes="staged")

    assert first.stdout == "old.txt\nx.txt\n"
    assert second.stdout == "old.txt\n"


async def test_a_whole_session_is_applied_in_order_or_discarded(
    manager: SkillManager, tmp_path: Path
) -> None:
    folders = tmp_path / "sessions"
    sessions = SessionManager(manager, writes="staged", workspaces=folders, builtins=True)
    first, second = await sessions.create_session(), await sessions.create_session()
    lines = ("echo one > new.txt", "echo two >> new.txt", "mkdir made; mv new.txt made/new.txt")
    for session in (first, second):
        for line in lines:
            await sessions.execute(session, "bash", {"command": line})

    applied = await sessions.apply(first)
    discarded = await sessions.discard(second)
    shown = await sessions.execute(first, "bash", {"command": "cat made/new.txt"})
    empty = await sessions.execute(second, "bash", {"command": "ls"})

    assert (applied.outcome, applied.conflicts) == ("ok", ())
    assert len(applied.structured["calls"]) == len(discarded.structured["calls"]) == 3
    assert shown.stdout == "one\ntwo\n"
    assert (discarded.outcome, empty.stdout) == ("ok", "")


def test_a_call_is_applied_with_the_earlier_ones_that_it_builds_on(
    bash: Bash, manager: SkillManager, workspace: Path
) -> None:
    bash("echo one > new.txt")
    bash("echo two >> new.txt")
    third = bash("echo three >> new.txt")

    applied = manager.apply(third, earlier=True)

    assert (applied.outcome, len(applied.structured["calls"])) == ("ok", 3)
    assert tree(workspace)["new.txt"] == "one\ntwo\nthree\n"
