"""Any sequence of file operations: applied it is as if done directly, undone as if never done."""

import itertools
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from skillpouch.workspace.change_store import ChangeStore
from tests.workspace.overlays import Operation, OverlayHelper, overlay_helper
from tests.workspace.trees import differences, tree_of, wait_for_tick

PLACES = ["", "d/", "d/e/", "f/", "n/"]
PATHS = [f"{place}{name}" for place in PLACES for name in ("a", "b", "c")]
FOLDERS = ["d", "d/e", "f", "n", "d/m", "f/d", "n/e"]
ANY = st.sampled_from(PATHS + FOLDERS)
FILES = st.sampled_from(PATHS)
TEXTS = st.text(st.characters(min_codepoint=1, max_codepoint=0x2FF), max_size=20)


def operation(*strategies: st.SearchStrategy[object] | str) -> st.SearchStrategy[Operation]:
    return st.tuples(*(st.just(each) if isinstance(each, str) else each for each in strategies))


OPERATIONS = st.one_of(
    operation("write", FILES, TEXTS),
    operation("append", FILES, TEXTS),
    operation("truncate", FILES, st.integers(0, 10_000)),
    operation("open", FILES),
    operation("delete", FILES),
    operation("rename", ANY, ANY),
    operation("move", st.sampled_from(FOLDERS), st.sampled_from(FOLDERS)),
    operation("swap", ANY, ANY),
    operation("chmod", ANY, st.sampled_from([0o600, 0o644, 0o700, 0o755, 0o444, 0o555])),
    operation("symlink", FILES, st.sampled_from(["a", "/etc/passwd", "../..", "d"])),
    operation("link", FILES, FILES),
    operation("mkdir", st.sampled_from(FOLDERS)),
    operation("rmdir", st.sampled_from(FOLDERS)),
    operation("rmtree", st.sampled_from(FOLDERS)),
    operation("fifo", FILES),
    operation("xattr", ANY, st.just("user.note"), TEXTS),
    operation("utime", ANY, st.integers(10**18, 10**18 + 10)),
)
# Files with two names. An overlay does not tell whether such a file was written or replaced, so
# the call writes only one of the names.
TWICE = st.one_of(
    operation("append", "one", TEXTS),
    operation("chmod", "one", st.sampled_from([0o600, 0o755])),
    operation("delete", "other"),
    operation("open", "one"),
)
GIVEN: list[Operation] = [
    *(("mkdir", each) for each in ("d", "d/e", "f")),
    *(("write", path, f"this was {path}") for path in PATHS[::2] if not path.startswith("n/")),
    ("symlink", "d/s", "../a"),
    ("xattr", "a", "user.note", "given"),
    ("write", "one", "two names"),
    ("link", "one", "other"),
    ("utime", "d/e", 10**18),
]
STARTS = st.lists(OPERATIONS, max_size=6)
CALLS = st.lists(st.one_of(OPERATIONS, TWICE), min_size=1, max_size=14)

_numbers = itertools.count()


@pytest.fixture(scope="module", params=["root", "user"])
def helper(request: pytest.FixtureRequest) -> Iterator[OverlayHelper]:
    with overlay_helper(request.param) as found:
        yield found


def writes_two_names(workspace: Path, call: list[Operation]) -> bool:
    """Tell whether a call changes a file under two of its names: a layer makes two files of it."""
    ways = {"write", "append", "truncate", "open", "chmod", "xattr", "utime", "rename", "swap"}
    touched = {name for way, *names in call if way in {*ways, "link"} for name in names[:2]}
    files: dict[int, set[object]] = {}
    for path in workspace.rglob("*"):
        if not path.is_dir():
            files.setdefault(path.lstat().st_ino, set()).add(str(path.relative_to(workspace)))
    return any(len(names & touched) > 1 for names in files.values())


def check(
    folder: Path, helper: OverlayHelper, start: list[Operation], call: list[Operation]
) -> None:
    home = folder / str(next(_numbers))
    workspace, direct = home / "workspace", home / "direct"
    for each in (workspace, direct):
        each.mkdir(parents=True)
        helper.directly(each, GIVEN + start)
    assume(not writes_two_names(workspace, call))
    before = tree_of(workspace)
    wait_for_tick()
    started = time.time_ns()
    upper = helper.layer(workspace, home / "layer", call)
    assume(helper.directly(direct, call) == helper.said)
    store = ChangeStore(home / "store")
    kept = store.begin("1", workspace, tool="demo.tool", started_ns=started)
    kept.take(upper)

    assert differences(before, tree_of(workspace)) == []
    assert kept.apply().conflicts == ()
    applied = tree_of(workspace)
    assert differences(tree_of(direct, times=False), tree_of(workspace, times=False)) == []
    undo = kept.undo()
    assert undo.conflicts == ()
    assert differences(before, tree_of(workspace)) == []
    assert undo.call.undo().conflicts == ()
    assert differences(applied, tree_of(workspace)) == []
    shutil.rmtree(home)


def check_copy(
    folder: Path, helper: OverlayHelper, start: list[Operation], call: list[Operation]
) -> None:
    home = folder / str(next(_numbers))
    workspace = home / "workspace"
    workspace.mkdir(parents=True)
    helper.directly(workspace, GIVEN + start)
    before = tree_of(workspace)
    store = ChangeStore(home / "store")
    kept = store.begin("1", workspace, tool="demo.tool", started_ns=time.time_ns())
    kept.copy_workspace()
    helper.directly(workspace, call)
    after = tree_of(workspace)
    kept.take_copy()

    assert differences(after, tree_of(workspace)) == []
    undo = kept.undo()
    assert undo.conflicts == ()
    assert differences(before, tree_of(workspace)) == []
    assert undo.call.undo().conflicts == ()
    assert differences(after, tree_of(workspace)) == []
    shutil.rmtree(home)


Check = Callable[[Path, OverlayHelper, list[Operation], list[Operation]], None]


def property_of(check: Check, examples: int) -> Callable[[Path, OverlayHelper], None]:
    def run(tmp_path: Path, helper: OverlayHelper) -> None:
        @given(start=STARTS, call=CALLS)
        @example(start=[], call=[("rename", "d/b", "a"), ("rmtree", "d")])
        @example(start=[("link", "d/b", "b")], call=[("rmtree", "d")])
        @example(start=[("link", "d/b", "b")], call=[("write", "b", "")])
        @example(start=[("link", "d/b", "b")], call=[("swap", "a", "d")])
        @example(start=[("link", "d/b", "b")], call=[("swap", "f/b", "d")])
        @example(start=[], call=[("delete", "c"), ("chmod", "a", 0o600), ("link", "a", "c")])
        @settings(
            max_examples=examples,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
        )
        def holds(start: list[Operation], call: list[Operation]) -> None:
            check(tmp_path, helper, start, call)

        holds()

    return run


long = pytest.mark.timeout(1_500)

test_applied_is_as_if_done_directly_and_undone_as_if_never_done = pytest.mark.promise("undo-12")(
    property_of(check, 25)
)
test_the_same_for_many_more = pytest.mark.exhaustive(long(property_of(check, 2_000)))
test_what_a_copy_kept_is_undone_and_done_again = property_of(check_copy, 25)
test_a_copy_for_many_more = pytest.mark.exhaustive(long(property_of(check_copy, 2_000)))
