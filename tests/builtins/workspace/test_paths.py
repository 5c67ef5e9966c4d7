"""No path leads out of the workspace: not by `..`, not by a link, not by a race."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skillpouch.errors import OutsideWorkspaceError, ToolFaultError
from skillpouch.untrusted_files import find_place
from skillpouch.workspace.files import WorkspaceFiles
from tests.builtins.workspace.conftest import Use

pytestmark = pytest.mark.slow

PATH_TOOLS = [
    ("read", "file_path", {}),
    ("write", "file_path", {"content": "x"}),
    ("edit", "file_path", {"old_string": "s", "new_string": "x"}),
    ("ls", "path", {}),
    ("grep", "path", {"pattern": "s"}),
    ("glob", "path", {"pattern": "*"}),
    ("bash", "cwd", {"command": "true"}),
]
WAYS_OUT = [
    "..",
    "../outside",
    "sub/../../outside/secret",
    "nope/../../outside/secret",
    "/etc",
    "/etc/passwd",
    "link",
    "link/secret",
    "sub/../link/secret",
    "sub/up/../../outside/secret",
    "chain/secret",
]


@pytest.fixture
def outside(workspace: Path) -> Path:
    """A folder beside the workspace, and links to it."""
    folder = workspace.parent / "outside"
    folder.mkdir()
    (folder / "secret").write_text("secret\n")
    (workspace / "sub").mkdir()
    (workspace / "sub" / "up").symlink_to("..")
    (workspace / "link").symlink_to(folder)
    (workspace / "chain").symlink_to("sub/up/link")
    (workspace / "one").symlink_to(folder / "secret")
    (workspace / "dangling").symlink_to(folder / "new")
    return folder


@pytest.mark.promise("tool-1")
@pytest.mark.parametrize("way", WAYS_OUT)
@pytest.mark.parametrize(("tool", "key", "others"), PATH_TOOLS, ids=[t[0] for t in PATH_TOOLS])
def test_no_path_leads_out_of_the_workspace(
    tool: str, key: str, others: dict[str, str], way: str, use: Use, outside: Path
) -> None:
    with pytest.raises(OutsideWorkspaceError):
        use(tool, **{key: way}, **others)

    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "secret\n"


@pytest.mark.promise("tool-1")
@pytest.mark.parametrize("name", ["one", "dangling"])
def test_nothing_is_written_through_a_link_that_leads_outside(
    name: str, use: Use, outside: Path
) -> None:
    with pytest.raises(OutsideWorkspaceError):
        use("write", file_path=name, content="mine")

    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert (outside / "secret").read_text() == "secret\n"


def test_a_link_inside_the_workspace_is_followed(use: Use, workspace: Path) -> None:
    (workspace / "v2").mkdir()
    (workspace / "v2" / "notes").write_text("two\n")
    (workspace / "latest").symlink_to("v2")
    (workspace / "absolute").symlink_to(workspace / "v2" / "notes")

    assert use("read", file_path="latest/notes").content == "     1\ttwo"
    assert use("write", file_path="absolute", content="three\n").structured["path"] == "v2/notes"
    assert (workspace / "absolute").is_symlink()
    assert (workspace / "v2" / "notes").read_text() == "three\n"


def test_links_in_a_circle_are_an_answer(use: Use, workspace: Path) -> None:
    (workspace / "a").symlink_to("b")
    (workspace / "b").symlink_to("a")

    result = use("read", file_path="a")

    assert (result.outcome, result.code) == ("failed", "invalid_argument")


@pytest.mark.parametrize("kind", ["fifo", "socket-like"])
def test_what_is_no_regular_file_is_not_opened(kind: str, use: Use, workspace: Path) -> None:
    if kind == "fifo":
        os.mkfifo(workspace / "thing")
    else:
        (workspace / "thing").mkdir()

    for tool, more in (("read", {}), ("write", {"content": "x"})):
        assert use(tool, file_path="thing", **more).code == "unsupported"


_SWAPPING = """
import ctypes, sys
swap = ctypes.CDLL(None).renameat2
here, exchange = -100, 2  # AT_FDCWD, RENAME_EXCHANGE
one, other = (word.encode() for word in sys.argv[1:])
print("swapping", flush=True)
while True:
    swap(here, one, here, other, exchange)
"""


@pytest.mark.promise("tool-1")
def test_a_folder_that_becomes_a_link_while_it_is_used_leads_nowhere(
    workspace: Path, outside: Path
) -> None:
    door, trap = workspace / "door", workspace / "trap"
    door.mkdir()
    (door / "secret").write_text("mine\n")
    trap.symlink_to(outside)
    words = [sys.executable, "-c", _SWAPPING, str(door), str(trap)]

    with subprocess.Popen(words, stdout=subprocess.PIPE) as swapping:
        assert swapping.stdout is not None
        swapping.stdout.readline()
        try:
            read = [read_or_none(WorkspaceFiles(workspace)) for _ in range(20_000)]
        finally:
            swapping.kill()

    assert set(read) == {b"mine\n", None}
    assert [path.name for path in outside.iterdir()] == ["secret"]


def read_or_none(files: WorkspaceFiles) -> bytes | None:
    try:
        files.append("door/new", b"x")
        with files.reading("door/secret") as opened:
            return opened.file.read()
    except (ToolFaultError, OutsideWorkspaceError):
        return None


@pytest.mark.promise("tool-1")
@pytest.mark.parametrize("pattern", ["../*", "a/../../*", "/etc/*", "/*"])
def test_no_pattern_leads_out_of_the_workspace(pattern: str, use: Use) -> None:
    with pytest.raises(OutsideWorkspaceError):
        use("glob", pattern=pattern)


_part = st.sampled_from(
    ["..", ".", "", "a", "b", "file", "up", "out", "loop", "abs", "in", "new", "\0", "é", " "]
)


@pytest.mark.promise("tool-1")
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=st.lists(_part, max_size=8), start=st.sampled_from(["", "/", "workspace"]))
def test_wherever_a_path_leads_it_is_inside(parts: list[str], start: str, workspace: Path) -> None:
    if not (workspace / "a").exists():
        (workspace / "a" / "b").mkdir(parents=True)
        (workspace / "a" / "file").write_text("x")
        for name, target in (("up", ".."), ("out", "../.."), ("loop", "loop"), ("in", "a/b")):
            (workspace / name).symlink_to(target)
            (workspace / "a" / "b" / name).symlink_to(target)
        (workspace / "abs").symlink_to(workspace / "a")
    path = "/".join([str(workspace) if start == "workspace" else start, *parts]).lstrip(
        "" if start else "/"
    )

    try:
        with find_place(workspace, path) as place:
            real = Path(f"/proc/self/fd/{place.folder}").readlink()
            assert real.is_relative_to(workspace)
            assert workspace / place.relative == (workspace / path).resolve()
    except (ToolFaultError, OutsideWorkspaceError):
        return


def test_opening_leaves_no_descriptor_behind(use: Use, workspace: Path) -> None:
    (workspace / "a" / "b").mkdir(parents=True)
    (workspace / "a" / "b" / "f").write_text("x\n")

    def everything() -> None:
        use("read", file_path="a/b/f")
        use("read", file_path="a/b/none")
        use("write", file_path="a/new/f", content="x")
        use("ls", depth=5)
        use("glob", pattern="**/f")

    for _ in range(5):
        everything()

    # Others are of the store of changes, which makes the folder of the next call ahead.
    entries = list(Path("/proc/self/fd").iterdir())
    held = [entry.readlink() for entry in entries if entry.is_symlink()]
    assert [path for path in held if path.is_relative_to(workspace)] == []
