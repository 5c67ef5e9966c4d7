"""Applying against a process that races with it, and on file systems that cannot take it."""

import ctypes
import errno
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from skillpouch.workspace import file_state
from skillpouch.workspace.change_store import ChangesError, ChangeStore, KeptCall, StoreFullError
from tests.effort import few_or_many
from tests.workspace.overlays import Operation, OverlayHelper, overlay_helper
from tests.workspace.trees import differences, tree_of

# Swaps folders and files of a workspace with links that lead out of it, as fast as it can.
_RACER = """
import ctypes, os, sys
workspace, outside = sys.argv[1:]
swap = ctypes.CDLL(None, use_errno=True).renameat2
top = os.open(workspace, os.O_RDONLY)
inner = os.open("d", os.O_RDONLY, dir_fd=top)  # not by its path, which leads outside half the time
for name, target in ((b"1", outside), (b"2", outside), (b"3", outside + "/victim")):
    os.symlink(target, b".aside" + name, dir_fd=top)
print("ready", flush=True)
while True:
    swap(top, b"d", top, b".aside1", 2)
    swap(inner, b"e", top, b".aside2", 2)
    swap(top, b"file", top, b".aside3", 2)
"""


@pytest.fixture(scope="module")
def helper() -> Iterator[OverlayHelper]:
    with overlay_helper("user") as found:
        yield found


@contextmanager
def racing(workspace: Path, outside: Path) -> Iterator[None]:
    words = [sys.executable, "-I", "-c", _RACER, str(workspace), str(outside)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            process.kill()


WRITES: list[Operation] = [
    ("append", "d/e/a", "!"),
    ("write", "d/e/made", "made"),
    ("delete", "d/b"),
    ("chmod", "d/c", 0o777),
    ("append", "file", "!"),
    ("mkdir", "d/new"),
    ("write", "d/new/x", "x"),
]


@pytest.mark.promise("undo-14")
@few_or_many("attempts", 200, 5_000)
@pytest.mark.timeout(1_200)
def test_nothing_is_written_outside_whoever_races_with_the_apply(
    tmp_path: Path, helper: OverlayHelper, attempts: int
) -> None:
    workspace, outside = tmp_path / "workspace", tmp_path / "outside"
    for folder in (workspace, outside, outside / "e", outside / "new"):
        folder.mkdir()
    for name in ("victim", "a", "b", "c", "e/a", "made"):
        (outside / name).write_text(f"outside {name}")
    helper.directly(
        workspace,
        [
            *(("mkdir", name) for name in ("d", "d/e")),
            *(("write", name, name) for name in ("d/e/a", "d/b", "d/c", "file")),
        ],
    )
    started = time.time_ns()
    upper = helper.layer(workspace, tmp_path / "layer", WRITES)
    before = tree_of(outside)
    store = ChangeStore(tmp_path / "store")
    kept = store.begin("1", workspace, tool="demo.tool", started_ns=started)
    kept.take(upper)
    moved = 0

    with racing(workspace, outside):
        for _ in range(attempts):
            outcome = kept.apply()
            moved += len(outcome.changes)
            kept.undo()

    assert differences(before, tree_of(outside)) == []
    assert moved > 0


@contextmanager
def mounted(folder: Path, options: str) -> Iterator[tuple[Path, OverlayHelper]]:
    """Mount a small file system, as root; start a helper that sees it."""
    if os.geteuid():
        pytest.skip("needs root")
    folder.mkdir()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, options.encode()):
        pytest.skip("nothing can be mounted here")
    try:
        with overlay_helper("user") as helper:
            yield folder, helper
    finally:
        libc.umount2(os.fsencode(folder), 2)


def staged(
    helper: OverlayHelper, workspace: Path, scratch: Path, store: Path, *calls: Operation
) -> KeptCall:
    started = time.time_ns()
    upper = helper.layer(workspace, scratch, list(calls))
    assert not any(helper.said), helper.said
    kept = ChangeStore(store).begin("1", workspace, tool="demo.tool", started_ns=started)
    kept.take(upper)
    return kept


GIVEN: list[Operation] = [
    ("mkdir", "d"),
    ("write", "d/a", "a"),
    ("write", "one", "1"),
    ("link", "one", "other"),
    ("xattr", "d/a", "user.note", "x"),
    ("symlink", "link", "d"),
]
CALL: list[Operation] = [
    ("append", "d/a", "more"),
    ("delete", "one"),
    ("write", "made", "x" * 5_000),
    ("truncate", "made", 3_000_000),
    ("rename", "link", "renamed"),
    ("fifo", "pipe"),
]


@pytest.mark.parametrize("other", ["workspace", "store", "layer"])
def test_workspace_store_and_layer_may_be_on_different_file_systems(
    tmp_path: Path, other: str
) -> None:
    with mounted(tmp_path / "other", "size=32m") as (mount, helper):
        at = {name: tmp_path / name for name in ("workspace", "store", "layer")}
        at[other] = mount / other
        at["workspace"].mkdir()
        assert not any(helper.directly(at["workspace"], GIVEN))
        before = tree_of(at["workspace"])
        kept = staged(helper, at["workspace"], at["layer"], at["store"], *CALL)

        assert kept.apply().conflicts == ()
        applied = tree_of(at["workspace"])
        undo = kept.undo()

        assert sorted(applied) == [".", "d", "d/a", "made", "other", "pipe", "renamed"]
        assert applied["d/a"].content == b"amore"
        assert undo.conflicts == ()
        assert differences(before, tree_of(at["workspace"])) == []
        undo.call.undo()
        assert differences(applied, tree_of(at["workspace"])) == []


def test_holes_stay_holes_on_another_file_system(tmp_path: Path) -> None:
    with mounted(tmp_path / "other", "size=32m") as (mount, helper):
        workspace = mount / "workspace"
        workspace.mkdir()
        kept = staged(
            helper,
            workspace,
            tmp_path / "layer",
            tmp_path / "store",
            ("write", "sparse", "x"),
            ("truncate", "sparse", 10**9),
        )

        kept.apply()

        status = (workspace / "sparse").stat()
        assert status.st_size == 10**9
        assert status.st_blocks < 100


def test_a_full_workspace_is_as_it_was(tmp_path: Path) -> None:
    with mounted(tmp_path / "other", "size=1m") as (mount, helper):
        workspace = mount / "workspace"
        workspace.mkdir()
        (workspace / "kept").write_text("kept")
        before = tree_of(workspace)
        kept = staged(
            helper,
            workspace,
            tmp_path / "layer",
            tmp_path / "store",
            ("write", "kept", "new"),
            ("write", "large", "x" * 2_000_000),
        )

        with pytest.raises(ChangesError, match="no space left on device") as caught:
            kept.apply()

        assert "free some space" in caught.value.hint
        assert differences(before, tree_of(workspace)) == []
        assert ChangeStore(tmp_path / "store").get("1").state == "staged"


def test_a_workspace_whose_quota_is_used_up_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with mounted(tmp_path / "other", "size=1m") as (mount, helper):
        workspace = mount / "workspace"
        workspace.mkdir()
        (workspace / "kept").write_text("kept")
        before = tree_of(workspace)
        calls: list[Operation] = [("write", "kept", "new"), ("write", "large", "x" * 9_000)]
        kept = staged(helper, workspace, tmp_path / "layer", tmp_path / "store", *calls)

        def refuse(*_: object) -> int:
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))

        def write(file: int, data: bytes, place: int) -> int:
            return refuse() if len(data) > 5_000 else os.pwritev(file, [data], place)

        # As a file system answers whose user has a quota.
        monkeypatch.setattr(os, "copy_file_range", refuse)
        monkeypatch.setattr(os, "pwrite", write)

        with pytest.raises(ChangesError, match="quota exceeded") as caught:
            kept.apply()

        assert "your quota is used up" in caught.value.hint
        assert differences(before, tree_of(workspace)) == []
        assert ChangeStore(tmp_path / "store").get("1").state == "staged"
        monkeypatch.undo()
        assert kept.apply().conflicts == ()
        assert (workspace / "kept").read_text() == "new"


def test_a_file_that_somebody_has_open_and_mapped_stays_theirs_and_comes_back(
    tmp_path: Path, helper: OverlayHelper
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    for name in ("changed", "deleted"):
        (workspace / name).write_text(f"old {name}")
    calls: list[Operation] = [("write", "changed", "new"), ("delete", "deleted")]
    with ExitStack() as opened:
        files = [opened.enter_context((workspace / n).open("r+b")) for n in ("changed", "deleted")]
        seen = [opened.enter_context(mmap.mmap(file.fileno(), 0)) for file in files]
        inodes = [os.fstat(file.fileno()).st_ino for file in files]
        kept = staged(helper, workspace, tmp_path / "layer", tmp_path / "store", *calls)

        assert kept.apply().conflicts == ()

        assert [bytes(each) for each in seen] == [b"old changed", b"old deleted"]
        assert (workspace / "changed").read_text() == "new"
        assert kept.undo().conflicts == ()
        assert [(workspace / n).stat().st_ino for n in ("changed", "deleted")] == inodes
        for each in seen:
            each[:3] = b"OLD"  # what they write is in the workspace again
    assert (workspace / "changed").read_text() == "OLD changed"
    assert (workspace / "deleted").read_text() == "OLD deleted"


def test_a_read_only_workspace_is_said(tmp_path: Path) -> None:
    with mounted(tmp_path / "other", "size=1m") as (mount, helper):
        workspace = mount / "workspace"
        workspace.mkdir()
        kept = staged(
            helper, workspace, tmp_path / "layer", tmp_path / "store", ("write", "a", "1")
        )
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mount(None, os.fsencode(mount), None, 0x21, None) == 0  # remount, read-only

        with pytest.raises(ChangesError, match="read-only file system") as caught:
            kept.apply()

        assert "mount it for writing" in caught.value.hint


def test_a_nearly_full_or_read_only_store_lets_no_call_start(tmp_path: Path) -> None:
    with mounted(tmp_path / "other", "size=1m") as (mount, _):
        store = ChangeStore(mount / "store")

        with pytest.raises(StoreFullError, match="nearly full") as caught:
            store.check_room()

        assert "free some space" in caught.value.hint
        libc = ctypes.CDLL(None, use_errno=True)
        assert libc.mount(None, os.fsencode(mount), None, 0x21, None) == 0
        with pytest.raises(StoreFullError, match="read-only"):
            ChangeStore(mount / "another").check_room()


def test_file_systems_that_cannot_exchange_two_names(
    tmp_path: Path, helper: OverlayHelper, monkeypatch: pytest.MonkeyPatch
) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    assert not any(helper.directly(workspace, GIVEN))
    before = tree_of(workspace)
    kept = staged(helper, workspace, tmp_path / "layer", tmp_path / "store", *CALL)
    monkeypatch.setattr(file_state, "_rename", lambda *_: False)  # as NFS answers

    assert kept.apply().conflicts == ()
    applied = tree_of(workspace)
    undo = kept.undo()

    assert applied["d/a"].content == b"amore"
    assert undo.conflicts == ()
    assert differences(before, tree_of(workspace)) == []


def test_names_that_are_no_text_are_written_out(tmp_path: Path, helper: OverlayHelper) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    name = os.fsdecode(b"caf\xe9\n\\")

    kept = staged(helper, workspace, tmp_path / "layer", tmp_path / "store", ("write", name, "x"))

    assert [each.path for each in kept.changes.files] == ["caf\\xe9\\u000a\\\\"]
    assert kept.diff(most_bytes=1_000) == "created caf\\xe9\\u000a\\\\\n@@ -0,0 +1 @@\n+x\n"
    kept.apply(["caf\\xe9\\u000a\\\\"])
    assert (workspace / name).read_text() == "x"


def test_thousands_of_nested_folders_are_kept_and_undone(tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    upper = tmp_path / "layer"
    upper.mkdir()
    folder = os.open(upper, os.O_RDONLY)
    for _ in range(1_200):
        os.mkdir("n", dir_fd=folder)
        inner = os.open("n", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(os.open("leaf", os.O_CREAT | os.O_WRONLY, dir_fd=folder))
    os.close(folder)
    store = ChangeStore(tmp_path / "store")
    kept = store.begin("1", workspace, tool="demo.tool", started_ns=time.time_ns())

    changes = kept.take(upper)

    assert changes.counts == {"created": 1}
    kept.apply()
    assert (workspace / "n").is_dir()
    kept.undo()
    assert list(workspace.iterdir()) == []
    kept.discard()
    assert not (store.directory / "1/upper").exists()
