"""What a call changed in its workspace: found, bounded, and nothing that is not its doing."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest

from skillpouch import Policy, SkillManager
from skillpouch.errors import WorkspaceError
from skillpouch.results import ChangedFile, ToolResult
from skillpouch.servers.mcp.results import Links
from skillpouch.text import clean
from skillpouch.workspace.workspace import Before, changed_files, check_workspace, look_at
from tests.conftest import WriteSkill
from tests.swaps import ROUNDS, swapped

MakeManager = Callable[[str], SkillManager]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a look at the workspace take its time: a busy machine may stop it for a while."""
    monkeypatch.setattr("skillpouch.workspace.workspace._MOST_SECONDS", 60)


@pytest.fixture
def manager_of(write_skill: WriteSkill, workspace: Path) -> MakeManager:
    def make(script: str) -> SkillManager:
        files = {"scripts/x.sh": script, "scripts/nothing.sh": "echo nothing\n"}
        return SkillManager(write_skill(files=files).parent, workspace=workspace, cache=False)

    return make


async def test_a_few_files_are_looked_at_however_little_time_there_is(
    manager_of: MakeManager, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillpouch.workspace.workspace._MOST_SECONDS", 0)
    for number in range(50):
        (workspace / f"{number}.txt").touch()

    result = await manager_of("rm 7.txt").acall("x")

    assert [(file.path, file.change) for file in result.files] == [("7.txt", "deleted")]
    assert result.files_complete


def wait_past(path: Path) -> None:
    """Go on when the clock of the file system has left the moment of a change behind."""
    mark = path.parent / "mark"
    while True:
        mark.touch()
        if mark.stat().st_ctime_ns > path.stat().st_ctime_ns + 50_000_000:
            mark.unlink()
            return


def all_of(workspace: Path, since_ns: int = 0) -> Before:
    """A moment before which nothing is known of a workspace."""
    return Before(workspace, since_ns, {}, complete=True)


def changes_of(result: ToolResult) -> dict[str, str]:
    return {file.path: file.change for file in result.files}


@pytest.mark.usefixtures("unhurried")
def test_files_that_were_made_or_changed_are_listed_and_no_others(
    manager_of: MakeManager, workspace: Path
) -> None:
    for name in ("old.txt", "touched.txt", "appended.csv"):
        (workspace / name).write_text("old")
    (workspace / "sub").mkdir()
    (workspace / "sub/old.txt").write_text("old")
    wait_past(workspace / "sub/old.txt")
    script = (
        "mkdir -p a/b; echo hi > a/b/new.json; echo x >> appended.csv; : > empty; cat old.txt\n"
    )

    result = manager_of(script).call("demo.x")

    assert result.files == (
        ChangedFile(path="a/b/new.json", type="application/json", size=3, change="created"),
        ChangedFile(path="appended.csv", type="text/csv", size=5),
        ChangedFile(path="empty", type="application/octet-stream", size=0, change="created"),
    )
    assert result.files_complete


def test_a_file_moved_into_place_is_listed(manager_of: MakeManager) -> None:
    result = manager_of("echo hi > /tmp/x; cp -p /tmp/x here; mv here there.txt\n").call("demo.x")

    assert [file.path for file in result.files] == ["there.txt"]


def test_a_file_whose_time_was_set_back_is_listed(manager_of: MakeManager) -> None:
    result = manager_of("echo hi > new; touch -d 2001-01-01 new\n").call("demo.x")

    assert [file.path for file in result.files] == ["new"]


@pytest.mark.usefixtures("unhurried")
def test_deleted_files_are_listed_and_what_others_deleted_is_not(
    manager_of: MakeManager, workspace: Path
) -> None:
    (workspace / "a/b").mkdir(parents=True)
    for name in ("a/b/deep.txt", "a/near.json", "kept", "gone", "others", "was-file"):
        (workspace / name).write_text("old")
    manager = manager_of("rm -r a; rm gone; ln -sf /etc/passwd was-file; echo x > made; rm made\n")
    manager.call("demo.nothing")
    (workspace / "others").unlink()

    result = manager.call("demo.x")

    assert result.files == (
        ChangedFile(path="a/b/deep.txt", type="text/plain", size=0, change="deleted"),
        ChangedFile(path="a/near.json", type="application/json", size=0, change="deleted"),
        ChangedFile(path="gone", type="application/octet-stream", size=0, change="deleted"),
        ChangedFile(path="was-file", type="application/octet-stream", size=0, change="deleted"),
    )
    assert result.files_complete
    assert manager.call("demo.nothing").files == ()


@pytest.mark.usefixtures("unhurried")
def test_what_is_renamed_is_deleted_and_created(manager_of: MakeManager, workspace: Path) -> None:
    (workspace / "folder/inner").mkdir(parents=True)
    for name in ("old.txt", "folder/inner/file"):
        (workspace / name).write_text("old")
    wait_past(workspace / "folder/inner/file")

    result = manager_of("mv old.txt new.txt; mv folder other\n").call("demo.x")

    assert changes_of(result) == {
        "folder/inner/file": "deleted",
        "new.txt": "created",
        "old.txt": "deleted",
        "other/inner/file": "created",
    }


@pytest.mark.usefixtures("unhurried")
def test_bash_write_and_edit_say_what_they_did_to_a_file(workspace: Path) -> None:
    manager = SkillManager(workspace=workspace, builtins=True, policy=Policy.trusting())
    calls = [
        ("write", {"file_path": "x.txt", "content": "one"}),
        ("write", {"file_path": "x.txt", "content": "one"}),
        ("edit", {"file_path": "x.txt", "old_string": "one", "new_string": "two"}),
        ("bash", {"command": "mv x.txt y.txt"}),
    ]

    found = [changes_of(manager.call(name, arguments)) for name, arguments in calls]

    assert found == [
        {"x.txt": "created"},
        {},  # the same bytes again
        {"x.txt": "modified"},
        {"x.txt": "deleted", "y.txt": "created"},
    ]


@pytest.mark.usefixtures("unhurried")
def test_nothing_is_said_to_be_deleted_in_what_was_not_looked_at(workspace: Path) -> None:
    (workspace / "a-folder").mkdir()
    (workspace / "a-folder/gone").touch()
    (workspace / "file").touch()
    before = look_at(workspace)
    (workspace / "a-folder/gone").unlink()
    for number in range(2_500):
        (workspace / f"a-folder/{number}").touch()

    files, complete = changed_files(before)

    assert not complete
    assert not [file for file in files if file.change == "deleted"]


@pytest.mark.usefixtures("unhurried")
def test_a_look_reads_again_only_folders_that_changed(workspace: Path, tmp_path: Path) -> None:
    for number in range(20):
        (workspace / f"{number}/inner").mkdir(parents=True)
        (workspace / f"{number}/inner/file").touch()
    (tmp_path / "clock").touch()
    wait_past(tmp_path / "clock")
    first = look_at(workspace)
    (workspace / "7/inner/file").rename(workspace / "7/inner/other")

    second = look_at(workspace)

    read = {path for path in second.folders if second.folders[path] is not first.folders[path]}
    assert read == {"7/inner"}
    assert second.folders["7/inner"].files == {"other"}


def test_a_deleted_file_is_not_linked(workspace: Path) -> None:
    gone = ChangedFile(path="gone.txt", type="text/plain", size=0, change="deleted")

    assert Links(workspace, "file").to([gone]) == []


def test_a_failed_call_lists_its_files_too(manager_of: MakeManager) -> None:
    result = manager_of("echo hi > new; exit 1\n").call("demo.x")

    assert [file.path for file in result.files] == ["new"]


def test_what_one_call_made_is_not_listed_for_the_next(manager_of: MakeManager) -> None:
    manager = manager_of("date +%s%N > new\n")

    for _ in range(5):
        assert [file.path for file in manager.call("demo.x").files] == ["new"]
        assert manager.call("demo.nothing").files == ()


def test_what_skillpouch_itself_writes_is_left_out(
    manager_of: MakeManager, workspace: Path
) -> None:
    result = manager_of("yes | head -c 300000; echo hi > new\n").call("demo.x")

    assert result.saved[0].is_relative_to(workspace / ".skillpouch/output")
    assert [file.path for file in result.files] == ["new"]


def test_links_pipes_and_folders_are_no_files(manager_of: MakeManager) -> None:
    script = "ln -s /etc/passwd link; ln -s / root; mkfifo pipe; mkdir folder\n"

    result = manager_of(script).call("demo.x")

    assert (result.files, result.files_complete) == ((), True)


def test_the_walk_is_bounded_and_says_when_it_did_not_see_everything(workspace: Path) -> None:
    for number in range(2_500):
        (workspace / f"{number}").touch()

    files, complete = changed_files(all_of(workspace))

    assert not complete
    assert len(files) <= 2_000


@pytest.mark.usefixtures("unhurried")
def test_a_name_that_is_no_text_can_still_be_written_down(workspace: Path) -> None:
    Path(os.fsdecode(os.fsencode(workspace) + b"/\xff.txt")).touch()

    (file,), _ = changed_files(all_of(workspace, time.time_ns() - 10**9))

    file.path.encode()


def test_a_workspace_that_was_made_anew_is_the_one_that_is_written(
    manager_of: MakeManager, workspace: Path
) -> None:
    manager = manager_of("echo hi > new\n")
    manager.call("demo.x")
    shutil.rmtree(workspace)
    workspace.mkdir()

    result = manager.call("demo.x")

    assert [file.path for file in result.files] == ["new"]
    assert (workspace / "new").read_text() == "hi\n"


def test_a_skill_that_was_replaced_as_a_whole_is_the_one_that_runs(
    manager_of: MakeManager, tmp_path: Path
) -> None:
    manager = manager_of("echo old\n")
    manager.call("demo.x")
    home = tmp_path / "skills/demo"
    home.rename(tmp_path / "old")
    shutil.copytree(tmp_path / "old", home)
    (home / "scripts/x.sh").write_text("echo new\n")

    assert manager.call("demo.x").content == "new"


@pytest.mark.parametrize("folder", ["/etc", "/usr/lib", "/var", "/proc/self"])
def test_a_folder_of_the_system_is_no_workspace(folder: str) -> None:
    with pytest.raises(WorkspaceError, match=r"it belongs to the system|no such file"):
        check_workspace(folder)


def test_the_folder_of_keys_is_no_workspace(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh" / "deep").mkdir(parents=True)

    with pytest.raises(WorkspaceError, match="keys"):
        check_workspace(str(tmp_path / ".ssh" / "deep"))


ODD = ["../key", "a/../../key", "/key", "", ".", "a//b", "a\u200b", "a\\b"]
HIDDEN = [".\u200b.", "a\u202eb", "a\u200bb", "line\nend", "tab\tstop", "back\\slash", "x\x1b[31my"]


@pytest.mark.usefixtures("unhurried")
@pytest.mark.promise("mcp-3")
@pytest.mark.parametrize("name", HIDDEN)
def test_no_hidden_character_turns_a_name_into_another_path(name: str, workspace: Path) -> None:
    folders = {name, clean(name).replace("..", "dots")}  # the second is what the first looks like
    for folder in folders:
        (workspace / folder).mkdir()
        (workspace / folder / "file").touch()

    files, _ = changed_files(all_of(workspace))
    links = Links(workspace, "file").to(files)

    assert len({file.path for file in files}) == len(files) == len(folders)
    assert not any(part in ("", ".", "..") for file in files for part in file.path.split("/"))
    assert all(clean(file.path) == file.path for file in files)
    for link in links:
        assert Path(unquote(link.uri.removeprefix("file://"))).is_file()


@pytest.mark.promise("mcp-3")
@pytest.mark.parametrize("path", ODD)
def test_a_path_that_is_no_name_in_the_workspace_is_not_linked(path: str, workspace: Path) -> None:
    file = ChangedFile(path=path, type="text/plain", size=1)

    assert Links(workspace, "workspace").to([file]) == []


@pytest.mark.usefixtures("unhurried")
@pytest.mark.promise("fs-1")
def test_a_folder_that_turns_into_a_link_is_not_looked_through(
    workspace: Path, tmp_path: Path
) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret-name").touch()
    (workspace / "inner").mkdir()
    (workspace / "inner/file").touch()
    (workspace / "link").symlink_to(tmp_path / "outside")

    found = set[str]()
    with swapped(workspace / "inner", workspace / "link", pause=0.0001):
        for _ in range(ROUNDS * 20):
            files, _ = changed_files(all_of(workspace))
            found |= {file.path for file in files}

    assert found <= {"inner/file", "link/file"}
