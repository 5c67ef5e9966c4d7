"""What calls changed is kept, applied, undone, discarded and pruned."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skillpouch.results import Conflict, FileChange
from skillpouch.runtime.removal import remove_tree
from skillpouch.workspace.change_store import (
    ChangeRetention,
    ChangesError,
    ChangeStateError,
    ChangeStore,
    KeptCall,
    StoreFullError,
    UnknownCallError,
)
from tests.workspace.overlays import Operation, OverlayHelper, overlay_helper
from tests.workspace.trees import differences, tree_of, wait_for_tick


@pytest.fixture(scope="module", params=["root", "user"])
def helper(request: pytest.FixtureRequest) -> Iterator[OverlayHelper]:
    with overlay_helper(request.param) as found:
        yield found


class Bench:
    """A workspace, a store, and calls that change the one and are kept in the other."""

    def __init__(self, folder: Path, helper: OverlayHelper) -> None:
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        self.store = ChangeStore(folder / "store")
        self.helper = helper
        self._folder = folder
        self._calls = 0

    def given(self, *operations: Operation) -> None:
        assert not any(self.helper.directly(self.workspace, list(operations)))

    def call(self, *operations: Operation) -> KeptCall:
        """Run a call that does these operations; what it changed is staged."""
        self._calls += 1
        started = time.time_ns()
        upper = self.helper.layer(
            self.workspace, self._folder / f"layer-{self._calls}", list(operations)
        )
        assert not any(self.helper.said), self.helper.said
        kept = self.store.begin(
            str(self._calls), self.workspace, tool="demo.tool", started_ns=started
        )
        kept.take(upper)
        return kept


@pytest.fixture
def bench(tmp_path: Path, helper: OverlayHelper) -> Bench:
    return Bench(tmp_path, helper)


def names_in(folder: Path) -> list[str]:
    return sorted(each.name for each in folder.iterdir())


def files_in(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def said(kept: KeptCall) -> list[tuple[str, str]]:
    return [(each.change, each.path) for each in kept.changes.files]


def test_nothing_reaches_the_workspace_before_it_is_applied(bench: Bench) -> None:
    bench.given(("write", "kept.txt", "old"))
    before = tree_of(bench.workspace)

    kept = bench.call(("write", "kept.txt", "new"), ("write", "made.txt", "made"))

    assert kept.state == "staged"
    assert differences(before, tree_of(bench.workspace)) == []
    assert said(kept) == [("changed", "kept.txt"), ("created", "made.txt")]


def test_a_call_is_applied_undone_and_applied_again(bench: Bench) -> None:
    bench.given(("mkdir", "data"), ("write", "data/a", "old"), ("write", "gone", "gone"))
    before = tree_of(bench.workspace)
    kept = bench.call(("append", "data/a", "er"), ("delete", "gone"), ("mkdir", "made"))

    outcome = kept.apply()
    applied = tree_of(bench.workspace)
    undo = kept.undo(as_id="99")
    undone = tree_of(bench.workspace)
    redo = bench.store.get("99").undo()

    assert outcome.conflicts == ()
    assert outcome.changes == kept.changes.files
    assert applied["data/a"].content == b"older"
    assert differences(before, undone) == []
    assert differences(applied, tree_of(bench.workspace)) == []
    assert (undo.call.id, undo.call.reverses) == ("99", kept.id)
    assert {each.id: each.state for each in bench.store.calls()} == {
        kept.id: "applied",
        "99": "undone",
        redo.call.id: "applied",
    }


def test_calls_are_undone_one_after_the_other(bench: Bench) -> None:
    bench.given(("write", "a", "0"))
    trees = [tree_of(bench.workspace)]
    for number in range(1, 4):
        bench.call(("append", "a", str(number)), ("write", f"made{number}", "x")).apply()
        trees.append(tree_of(bench.workspace))

    while (last := bench.store.last(bench.workspace)) is not None:
        trees.pop()
        assert last.undo().conflicts == ()
        assert differences(trees[-1], tree_of(bench.workspace)) == []

    assert len(trees) == 1


def test_only_some_of_the_changes_are_applied_and_undone(bench: Bench) -> None:
    bench.given(("write", "a", "1"), ("write", "b", "1"))
    kept = bench.call(("append", "a", "2"), ("append", "b", "2"), ("write", "c", "2"))

    first = kept.apply(["a"])

    assert [each.path for each in first.changes] == ["a"]
    assert (bench.workspace / "b").read_text() == "1"
    assert bench.store.get("1").state == "staged"
    kept.apply()
    assert bench.store.get("1").state == "applied"
    kept.undo(["b"])
    assert [(bench.workspace / name).read_text() for name in "abc"] == ["12", "1", "2"]


def test_a_file_of_a_new_folder_comes_and_goes_without_the_rest(bench: Bench) -> None:
    bench.given(("write", "here.txt", "old"))
    before = tree_of(bench.workspace)
    kept = bench.call(
        ("mkdir", "made"),
        ("mkdir", "made/deep"),
        ("write", "made/one", "1"),
        ("write", "made/deep/two", "2"),
        ("write", "made/deep/three", "3"),
        ("chmod", "made/deep", 0o750),
    )

    some = kept.apply(["made/deep/two"])
    state, first = kept.state, files_in(bench.workspace)
    rest = kept.apply()
    second = files_in(bench.workspace)
    back = kept.undo(["made/one"])
    third = files_in(bench.workspace)
    kept.undo()

    assert (some.conflicts, rest.conflicts, back.conflicts) == ((), (), ())
    assert (state, first) == ("staged", ["here.txt", "made/deep/two"])
    assert second == ["here.txt", "made/deep/three", "made/deep/two", "made/one"]
    assert third == ["here.txt", "made/deep/three", "made/deep/two"]
    assert differences(before, tree_of(bench.workspace)) == []


def test_a_file_of_a_folder_that_was_applied_whole_is_undone_alone(bench: Bench) -> None:
    kept = bench.call(
        ("mkdir", "made"),
        ("mkdir", "made/deep"),
        ("write", "made/deep/a", "a"),
        ("mkdir", "made/b"),
    )
    kept.apply()
    after = tree_of(bench.workspace)

    undone = kept.undo(["made/deep/a"])
    left = sorted(p.name for p in bench.workspace.rglob("*"))
    undone.call.undo()

    assert left == ["b", "made"]  # a folder goes when nothing of the call is left in it
    assert differences(after, tree_of(bench.workspace)) == []


def test_the_workspace_itself_is_changed_and_restored(bench: Bench) -> None:
    bench.given(("write", "file", "text"), ("xattr", ".", "user.kept", "kept"))
    before = tree_of(bench.workspace)
    kept = bench.call(
        ("xattr", ".", "user.kept", "kept"),  # as a sandbox gives it to the root of a layer
        ("xattr", ".", "user.made", "made"),
        ("chmod", ".", 0o711),
        ("utime", ".", 10**18),
    )

    applied = kept.apply()
    status = bench.workspace.stat()
    after = tree_of(bench.workspace)
    undone = kept.undo()
    restored = tree_of(bench.workspace)
    undone.call.undo()

    assert said(kept) == [("mode", ".")]
    assert (applied.conflicts, undone.conflicts) == ((), ())
    assert (status.st_mode & 0o777, status.st_mtime_ns) == (0o711, 10**18)
    assert os.getxattr(bench.workspace, "user.made") == b"made"
    assert differences(before, restored) == []
    assert differences(after, tree_of(bench.workspace)) == []


class Loan:
    """A layer whose folder goes back to `home`; `ended` is what its sandbox is told."""

    def __init__(self, bench: Bench, *operations: Operation) -> None:
        layer = bench.helper.layer(bench.workspace, bench.workspace.parent / "lent", [*operations])
        self.home = layer
        self.inode = layer.stat().st_ino
        self.ended: list[bool] = []
        self.kept = bench.store.begin("lent", bench.workspace, tool="t", started_ns=time.time_ns())
        self.kept.adopt(layer, lent={layer: self.ended.append})
        assert (self.ended, self.home.exists()) == ([], False)

    def is_back(self) -> bool:
        """Whether the same folder is in its place again, and empty."""
        is_same = self.home.exists() and self.home.stat().st_ino == self.inode
        return self.ended == [True] and is_same and not names_in(self.home)


LENT: tuple[Operation, ...] = (
    *(("write", f"new-{number}", "x") for number in range(3)),
    ("append", "old", "er"),
    ("write", "folder/inner", "in"),
    ("delete", "gone"),
)


def lent_to(bench: Bench) -> Loan:
    bench.given(("write", "old", "old"), ("write", "gone", "x"), ("mkdir", "folder"))
    return Loan(bench, *LENT)


@pytest.mark.promise("undo-13")
def test_a_lent_layer_is_back_and_empty_when_its_changes_have_arrived(bench: Bench) -> None:
    loan = lent_to(bench)
    before = tree_of(bench.workspace)

    outcome = loan.kept.apply()

    assert loan.is_back()
    assert outcome.conflicts == ()
    arrived = ["folder/inner", "new-0", "new-1", "new-2", "old"]
    assert files_in(bench.workspace) == arrived
    assert loan.kept.undo().conflicts == ()
    assert differences(before, tree_of(bench.workspace)) == []


@pytest.mark.parametrize("way", ["stage", "refuse", "discard"])
def test_a_lent_layer_is_back_when_its_changes_are_kept_or_discarded(
    bench: Bench, way: str
) -> None:
    loan = lent_to(bench)
    before = tree_of(bench.workspace)

    getattr(loan.kept, way)()

    assert loan.is_back()
    assert differences(before, tree_of(bench.workspace)) == []
    if way != "discard":
        again = ChangeStore(bench.store.directory).get("lent")
        assert again.apply().conflicts == ()
        assert files_in(bench.workspace)[-1] == "old"
        assert (bench.workspace / "old").read_text() == "older"


def test_a_lent_layer_that_cannot_go_back_stays_with_its_call(bench: Bench) -> None:
    loan = lent_to(bench)
    before = tree_of(bench.workspace)
    loan.home.parent.rename(loan.home.parent.with_name("elsewhere"))

    loan.kept.apply()

    assert loan.ended == [False]
    assert names_in(bench.store.directory / "lent" / "upper") == ["0"]
    assert (bench.workspace / "old").read_text() == "older"
    assert loan.kept.undo().conflicts == ()
    assert differences(before, tree_of(bench.workspace)) == []


def test_of_the_facts_of_a_call_the_last_whole_line_counts(bench: Bench) -> None:
    kept = bench.call(("write", "a", "1"))
    kept.apply()
    facts = bench.store.directory / kept.id / "call.json"
    facts.write_bytes(facts.read_bytes() + facts.read_bytes()[:40])  # the disk was full

    found = ChangeStore(bench.store.directory).get(kept.id)

    assert found.state == "applied"
    found.undo()
    assert ChangeStore(bench.store.directory).get(kept.id).state == "undone"
    assert files_in(bench.workspace) == []


def test_the_time_of_a_folder_alone_is_a_change(bench: Bench) -> None:
    bench.given(("mkdir", "docs"), ("write", "docs/a", "a"))
    before = tree_of(bench.workspace)
    kept = bench.call(("utime", "docs", 10**18))

    kept.apply()
    time_ns = (bench.workspace / "docs").stat().st_mtime_ns
    kept.undo()

    assert (said(kept), time_ns) == ([], 10**18)
    assert differences(before, tree_of(bench.workspace)) == []


def test_the_copy_of_a_workspace_counts_in_the_room_that_is_kept(bench: Bench) -> None:
    bench.given(("write", "large", "x" * 300_000), ("write", "small", "y"))
    store = ChangeStore(bench.store.directory, retention=ChangeRetention(megabytes=0.5, days=30))

    for number in range(3):
        kept = store.begin(str(number), bench.workspace, tool="demo", started_ns=time.time_ns())
        kept.copy_workspace()
        bench.given(("write", "small", f"y{number}"))
        kept.take_copy()
        store.check_room()

    (left,) = store.calls()
    assert (left.id, left.bytes > 300_000) == ("2", True)


@pytest.mark.promise("undo-10")
def test_a_file_that_changed_meanwhile_is_named_and_left_alone(bench: Bench) -> None:
    bench.given(*(("write", name, "old") for name in ("same", "edited", "removed", "kept")))
    bench.given(("mkdir", "folder"), ("write", "folder/a", "a"), ("write", "folder/b", "b"))
    started = time.time_ns()
    wait_for_tick()
    work = [("append", name, " by the call") for name in ("same", "edited", "removed")]
    upper = bench.helper.layer(
        bench.workspace,
        bench.workspace.parent / "layer",
        [*work, ("write", "made", "by the call"), ("delete", "kept"), ("rmtree", "folder")],
    )
    (bench.workspace / "edited").write_text("by somebody else")
    (bench.workspace / "removed").unlink()
    (bench.workspace / "made").write_text("by somebody else")
    (bench.workspace / "folder/new").write_text("by somebody else")
    kept = bench.store.begin("1", bench.workspace, tool="demo.tool", started_ns=started)
    kept.take(upper)

    outcome = kept.apply()

    named = {each.path for each in outcome.conflicts}
    is_root = bench.helper.way == "root"
    assert named == {"edited", "made", "folder/new"} | ({"removed"} if is_root else set())
    assert (bench.workspace / "edited").read_text() == "by somebody else"
    assert (bench.workspace / "made").read_text() == "by somebody else"
    assert (bench.workspace / "same").read_text() == "old by the call"
    assert names_in(bench.workspace / "folder") == ["new"]
    kept.undo()
    assert (bench.workspace / "kept").read_text() == "old"
    assert names_in(bench.workspace / "folder") == ["a", "b", "new"]


@pytest.mark.promise("undo-10")
def test_what_changed_after_the_call_is_not_undone(bench: Bench) -> None:
    bench.given(("write", "a", "old"), ("write", "b", "old"))
    kept = bench.call(
        ("write", "a", "new"),
        ("write", "b", "new"),
        ("mkdir", "made"),
        ("write", "made/one", "1"),
        ("write", "made/two", "2"),
    )
    kept.apply()
    wait_for_tick()
    (bench.workspace / "a").write_text("newer")
    (bench.workspace / "made/mine").write_text("mine")

    undo = kept.undo()

    assert {each.path for each in undo.conflicts} == {"a", "made/mine"}
    assert (bench.workspace / "a").read_text() == "newer"
    assert (bench.workspace / "b").read_text() == "old"
    assert names_in(bench.workspace / "made") == ["mine"]
    undo.call.undo()
    assert names_in(bench.workspace / "made") == ["mine", "one", "two"]
    assert (bench.workspace / "b").read_text() == "new"


def test_changes_of_another_workspace_under_the_same_name_are_refused(bench: Bench) -> None:
    kept = bench.call(("write", "a", "1"))
    bench.workspace.rename(bench.workspace.with_name("moved"))
    bench.workspace.mkdir()

    with pytest.raises(ChangesError, match="is not the folder in which call 1 ran"):
        kept.apply()

    assert names_in(bench.workspace) == []


def test_what_is_done_twice_is_an_error(bench: Bench) -> None:
    kept = bench.call(("write", "a", "1"))
    kept.apply()

    with pytest.raises(ChangeStateError, match="call 1 cannot be applied: it is applied"):
        kept.apply()
    kept.undo()
    with pytest.raises(ChangeStateError, match="it is undone"):
        bench.store.get("1").undo()


def test_discarded_changes_are_gone(bench: Bench) -> None:
    kept = bench.call(("write", "a", "secret"))

    kept.discard()

    assert bench.store.get("1").state == "discarded"
    assert not (bench.store.directory / "1/upper").exists()
    with pytest.raises(ChangeStateError, match="it was discarded"):
        kept.apply()


def test_an_id_is_used_once_and_an_unknown_one_is_said(bench: Bench) -> None:
    bench.call(("write", "a", "1"))

    with pytest.raises(FileExistsError):
        bench.store.begin("1", bench.workspace, tool="demo.tool", started_ns=0)
    for name in ("nope", "../1", ".active", ""):
        with pytest.raises(UnknownCallError):
            bench.store.get(name)


@pytest.mark.promise("undo-11")
def test_the_store_is_private(bench: Bench) -> None:
    kept = bench.call(("write", "a", "1"))

    modes = {path.stat().st_mode & 0o777 for path in bench.store.directory.glob("**/call.json")}

    assert bench.store.directory.stat().st_mode & 0o777 == 0o700
    assert (bench.store.directory / kept.id).stat().st_mode & 0o777 == 0o700
    assert modes == {0o600}


def test_the_oldest_applied_calls_are_removed_first(bench: Bench) -> None:
    for number in range(5):
        kept = bench.call(("write", f"file{number}", "x" * 100_000))
        if number != 1:
            kept.apply()

    removed = bench.store.prune(ChangeRetention(megabytes=0.27))

    assert removed == 3
    assert {each.id for each in bench.store.calls()} == {"2", "5"}


def test_what_is_too_old_is_removed_in_every_state(bench: Bench) -> None:
    bench.call(("write", "a", "1"))
    bench.call(("write", "b", "1")).apply()

    removed = bench.store.prune(ChangeRetention(days=0))

    assert removed == 2
    assert bench.store.calls() == []


def test_a_store_full_of_staged_changes_lets_no_call_start(bench: Bench) -> None:
    bench.call(("write", "a", "x" * 200_000))
    store = ChangeStore(bench.store.directory, retention=ChangeRetention(megabytes=0.1))

    with pytest.raises(StoreFullError, match="changes that wait") as caught:
        store.check_room()
    bench.store.get("1").discard()
    store.check_room()

    assert "skillpouch discard" in caught.value.hint


def test_a_diff_shows_lines_modes_and_binary_files(bench: Bench) -> None:
    bench.given(("write", "text", "one\ntwo\n"), ("write", "old", "same"), ("write", "m", "m"))
    kept = bench.call(
        ("append", "text", "three\n"),
        ("write", "data", "a\0b"),
        ("rename", "old", "new"),
        ("chmod", "m", 0o700),
    )
    expected = (
        "created data\n"
        "  binary: 0 bytes before, 3 bytes now, sha256 "
        "59c73e0b9d11b54e3c8a7cc0ebf0d5dcdc5dc54bbae20e7ac68a1ac4a0cd6a37\n"
    )

    staged = kept.diff(most_bytes=10_000)
    kept.apply()
    applied = kept.diff(most_bytes=10_000)

    assert staged == applied
    assert "changed text\n@@ -1,2 +1,3 @@\n one\n two\n+three\n" in staged
    assert "renamed new from old\n" in staged
    assert "mode m (mode 644 -> 700)\n" in staged
    assert staged.startswith(expected.partition("sha256")[0])
    assert len(kept.diff(most_bytes=40)) < 90


def test_what_is_only_opened_is_no_change(bench: Bench) -> None:
    bench.given(("write", "a", "1"))

    kept = bench.call(("open", "a"))

    assert kept.is_empty
    assert kept.changes.files == ()


def test_every_file_of_a_deleted_folder_is_listed(bench: Bench) -> None:
    bench.given(("mkdir", "d"), ("mkdir", "d/e"), ("write", "d/a", "1"), ("write", "d/e/b", "22"))

    kept = bench.call(("rmtree", "d"))

    assert kept.changes.files == (
        FileChange(path="d/a", change="deleted", size_before=1, mode_before=0o644),
        FileChange(path="d/e/b", change="deleted", size_before=2, mode_before=0o644),
    )
    assert kept.changes.counts == {"deleted": 2}


def test_a_conflict_says_where_and_why() -> None:
    assert str(Conflict(path="a/b", reason="it is not there any more")) == (
        "a/b: it is not there any more"
    )


_AHEAD = """
import os, signal, sys
from pathlib import Path
from skillpouch.workspace.change_store import ChangeStore

store = ChangeStore(Path(sys.argv[1]))
store.prepare()
print("ready", flush=True)
sys.stdin.read()
if sys.argv[2] == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
"""


def spares_in(store: Path) -> int:
    return len(list(store.glob(".spare-*")))


def test_a_folder_made_ahead_becomes_that_of_the_next_call(bench: Bench) -> None:
    bench.store.prepare()
    bench.store.prepare()

    assert spares_in(bench.store.directory) == 1

    kept = bench.call(("write", "made.txt", "made"))

    assert spares_in(bench.store.directory) == 0
    assert [each.id for each in bench.store.calls()] == ["1"]
    kept.apply()
    assert names_in(bench.workspace) == ["made.txt"]


@pytest.mark.parametrize("end", ["killed", "ended"])
def test_a_folder_made_ahead_is_gone_with_its_process(end: str, tmp_path: Path) -> None:
    words = [sys.executable, "-c", _AHEAD, str(tmp_path), end]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        ChangeStore(tmp_path).recover()
        assert spares_in(tmp_path) == 1  # its process is alive
        other.communicate()

    ChangeStore(tmp_path).recover()

    assert spares_in(tmp_path) == 0


def test_a_folder_of_which_no_process_got_the_lock_is_removed(tmp_path: Path) -> None:
    (tmp_path / ".active").mkdir()
    (tmp_path / ".spare-1").mkdir()

    ChangeStore(tmp_path).recover()

    assert spares_in(tmp_path) == 0


def test_a_call_begins_when_the_folder_made_ahead_was_removed(bench: Bench) -> None:
    bench.store.prepare()
    remove_tree(bench.store.directory)

    bench.call(("write", "made.txt", "made")).apply()

    assert names_in(bench.workspace) == ["made.txt"]


def test_an_id_that_is_taken_changes_nothing_of_its_call(bench: Bench) -> None:
    kept = bench.call(("write", "made.txt", "made"))

    with pytest.raises(FileExistsError):
        bench.store.begin("1", bench.workspace, tool="other", started_ns=time.time_ns())

    assert bench.store.get("1").tool == "demo.tool"
    assert names_in(bench.store.directory / ".active") == []
    kept.apply()
    assert names_in(bench.workspace) == ["made.txt"]


def test_an_id_that_another_call_begins_with_is_taken(bench: Bench) -> None:
    first = bench.store.begin("1", bench.workspace, tool="demo.tool", started_ns=time.time_ns())
    (bench.store.directory / "1").rename(bench.store.directory / "elsewhere")

    with pytest.raises(FileExistsError):
        bench.store.begin("1", bench.workspace, tool="other", started_ns=time.time_ns())

    (bench.store.directory / "elsewhere").rename(bench.store.directory / "1")
    first.discard()
    assert names_in(bench.store.directory / ".active") == []


def test_a_forked_process_leaves_the_folder_made_ahead_to_its_parent(bench: Bench) -> None:
    bench.store.prepare()

    child = os.fork()
    if not child:
        try:
            bench.store.begin("2", bench.workspace, tool="child", started_ns=time.time_ns())
        finally:
            os._exit(0)
    os.waitpid(child, 0)

    assert spares_in(bench.store.directory) == 1
    bench.call(("write", "made.txt", "made")).apply()
    assert spares_in(bench.store.directory) == 0
    assert names_in(bench.workspace) == ["made.txt"]


def functions_called_by(work: Callable[[], object]) -> int:
    count = 0

    def called(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


def test_applying_and_undoing_cost_what_changed_and_not_what_is_there(bench: Bench) -> None:
    costs = list[tuple[int, int]]()
    for files in (10, 1_000):
        bench.given(("mkdir", f"{files}"), ("mkdir", f"{files}/inner"))
        bench.given(*(("write", f"{files}/inner/{n}", "old") for n in range(files)))
        kept = bench.call(
            ("write", f"{files}/inner/0", "new"),
            ("delete", f"{files}/inner/1"),
            ("write", f"{files}/made", "made"),
        )
        costs.append((functions_called_by(kept.apply), functions_called_by(kept.undo)))

    assert costs[0] == costs[1]
