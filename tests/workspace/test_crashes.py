"""kill -9 at any moment of taking, applying, undoing and discarding changes."""

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from skillpouch.errors import SkillpouchError
from skillpouch.workspace.change_store import ChangeStateError, ChangeStore, KeptCall
from tests.effort import few_or_many
from tests.workspace.overlays import Operation, OverlayHelper, overlay_helper
from tests.workspace.trees import differences, tree_of

# For every line it forks a child that does the work of a host, and kills itself with SIGKILL when
# it has made so many calls of functions: between any two steps. Prints how it ended.
_HOST = """
import json, os, signal, sys, time
from pathlib import Path
from skillpouch.workspace.change_store import ChangeStore

def work(home, store):
    changes = ChangeStore(store)
    if order["ahead"]:
        changes.prepare()
    kept = changes.begin("1", home / "workspace", tool="t", started_ns=time.time_ns())
    # The folder of a sandbox, which gets it back empty.
    lent = {home / "upper": bool} if order["lend"] else {}
    (kept.take if order["stage"] else kept.adopt)(home / "upper", lent=lent)
    if order["discard"]:
        kept.discard()
        return
    kept.apply()
    kept.undo(as_id="2")

for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if not child:
        left = order["calls"]
        def count(frame, event, argument):
            global left
            left -= 1
            if not left:
                os.kill(os.getpid(), signal.SIGKILL)
        sys.setprofile(count)
        work(Path(order["home"]), Path(order["store"]))
        sys.setprofile(None)
        os.write(1, b"%d\\n" % (order["calls"] - left))
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
        os.write(1, b"0\\n")
"""

GIVEN: list[Operation] = [
    *(("mkdir", each) for each in ("d", "d/e", "gone", "gone/inner", "kept")),
    *(("write", f"d/{name}", f"this was {name}" * 50) for name in "abc"),
    *(("write", f"gone/inner/{name}", name) for name in "abc"),
    ("write", "one", "two names"),
    ("link", "one", "other"),
    ("write", "old", "renamed"),
    ("write", "kept/mode", "mode"),
    ("symlink", "link", "d/a"),
]
CALL: list[Operation] = [
    *(("write", f"new-{name}", name) for name in "abc"),
    ("append", "d/a", "more"),
    ("write", "d/b", "else"),
    ("delete", "d/c"),
    ("rmtree", "gone"),
    ("mkdir", "made"),
    ("write", "made/x", "x"),
    ("mkdir", "made/in"),
    ("write", "made/in/y", "y"),
    ("rename", "old", "made/in/new"),
    ("append", "one", "!"),
    ("chmod", "kept/mode", 0o600),
    ("delete", "link"),
    ("symlink", "link", "d/b"),
    ("rmdir", "d/e"),
    ("write", "d/e", "a file now"),
]


class Host:
    """Processes that die at a given moment, each with a workspace of its own."""

    def __init__(self, folder: Path, stores: Path, helper: OverlayHelper) -> None:
        self._template = folder / "template"
        self._folder = folder
        self._stores = stores
        self._count = 0
        workspace = self._template / "workspace"
        workspace.mkdir(parents=True)
        assert not any(helper.directly(workspace, GIVEN))
        upper = helper.layer(workspace, folder / "layer", CALL)
        assert not any(helper.said)
        upper.rename(self._template / "upper")
        self._process = subprocess.Popen(
            [sys.executable, "-c", _HOST], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.before = tree_of(workspace)
        home, store = self.run(10**9, lend=True)
        self.calls = self.last
        kept = ChangeStore(store).get("1")
        kept.apply()
        self.after = tree_of(home / "workspace")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()

    def run(self, calls: int, **order: Any) -> tuple[Path, Path]:
        """Run a host that dies after so many calls of functions; return its two folders."""
        self._count += 1
        home = self._folder / str(self._count)
        store = self._stores / f"store-{self._count}"
        subprocess.run(["cp", "-a", self._template, home], check=True)
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        words = {"home": str(home), "store": str(store), "calls": calls, **order}
        words = {"discard": False, "stage": True, "lend": False, "ahead": False, **words}
        stdin.write(json.dumps(words) + "\n")
        stdin.flush()
        self.last = int(stdout.readline())
        return home, store


@pytest.fixture(scope="module", params=["same file system", "another one"])
def host(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Host]:
    folder = tmp_path_factory.mktemp("crashes")
    stores = folder
    if request.param == "another one":
        stores = Path("/dev/shm") / f"skillpouch-{os.getpid()}-{time.time_ns():x}"
        if (
            not os.access("/dev/shm", os.W_OK)
            or Path("/dev/shm").stat().st_dev == folder.stat().st_dev
        ):
            pytest.skip("there is no other file system")
        stores.mkdir()
    with overlay_helper("user") as helper:
        found = Host(folder, stores, helper)
        try:
            yield found
        finally:
            found.close()
            if stores != folder:
                subprocess.run(["rm", "-rf", stores], check=True)


def found_after(store: Path) -> KeptCall | None:
    """Start anew after a crash: the next process repairs what it finds."""
    try:
        kept = ChangeStore(store).get("1")
    except SkillpouchError:
        kept = None
    assert list(store.glob(".spare-*")) == []
    return kept


@pytest.mark.promise("undo-13")
@few_or_many("moments", 100, 1_000)
@pytest.mark.timeout(600)
def test_a_host_that_is_killed_leaves_no_half_and_loses_nothing(host: Host, moments: int) -> None:
    numbers = random.Random(moments)
    states = set[str]()
    for _ in range(moments):
        moment, is_staged = numbers.randint(1, host.calls), numbers.random() < 0.5
        is_lent, is_ahead = numbers.random() < 0.5, numbers.random() < 0.5
        home, store = host.run(moment, stage=is_staged, lend=is_lent, ahead=is_ahead)

        kept = found_after(store)

        if kept is None:  # it died before the layer was taken
            assert differences(host.before, tree_of(home / "workspace")) == []
            continue
        states.add(kept.state)
        expected = host.after if kept.state == "applied" else host.before
        assert differences(expected, tree_of(home / "workspace")) == []
        if kept.state != "applied":
            assert kept.apply().conflicts == ()
        assert differences(host.after, tree_of(home / "workspace")) == []
        assert kept.undo().conflicts == ()
        assert differences(host.before, tree_of(home / "workspace")) == []
    assert states == {"staged", "applied", "undone"}


@pytest.mark.promise("undo-13")
@few_or_many("moments", 20, 300)
def test_a_host_that_is_killed_while_it_discards_changes(host: Host, moments: int) -> None:
    home, _ = host.run(10**9, discard=True)
    most = host.last
    numbers = random.Random(moments)
    for _ in range(moments):
        moment, is_staged = numbers.randint(most // 2, most), numbers.random() < 0.5
        is_lent = numbers.random() < 0.5
        home, store = host.run(moment, discard=True, stage=is_staged, lend=is_lent)

        kept = found_after(store)

        assert differences(host.before, tree_of(home / "workspace")) == []
        if kept is not None and kept.state == "staged":
            kept.apply()
            assert differences(host.after, tree_of(home / "workspace")) == []
        elif kept is not None:
            assert kept.state == "discarded"
            assert not (store / "1/upper").exists()


def test_of_two_that_apply_the_same_changes_one_does(host: Host) -> None:
    home, store = host.run(10**9)
    calls = [ChangeStore(store).get("1") for _ in range(8)]

    def apply(kept: KeptCall) -> str:
        try:
            kept.apply()
        except ChangeStateError as error:
            return error.state
        return "done"

    with ThreadPoolExecutor(8) as threads:
        ended = list(threads.map(apply, calls))

    assert sorted(ended) == ["applied"] * 7 + ["done"]
    assert differences(host.after, tree_of(home / "workspace")) == []
