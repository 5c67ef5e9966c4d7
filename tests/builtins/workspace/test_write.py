import os
import stat
from hashlib import sha256
from pathlib import Path

import pytest

from skillpouch.builtins.workspace.running import built_in_tools
from skillpouch.errors import ToolFaultError
from skillpouch.executor import ToolExecutor
from skillpouch.results import ChangedFile
from skillpouch.workspace.files import WorkspaceFiles
from tests.builtins.workspace.conftest import Use

pytestmark = pytest.mark.slow


def test_a_new_file_and_its_folders_are_made(use: Use, workspace: Path) -> None:
    result = use("write", file_path="a/b/c.txt", content="Grüße\n")

    assert (workspace / "a/b/c.txt").read_text() == "Grüße\n"
    assert result.content == "created a/b/c.txt: 8 bytes"
    assert result.structured == {"path": "a/b/c.txt", "bytes": 8, "created": True, "size": 8}
    assert result.files == (
        ChangedFile(path="a/b/c.txt", type="text/plain", size=8, change="created"),
    )


def test_a_replaced_file_keeps_its_mode(use: Use, workspace: Path) -> None:
    (workspace / "run.sh").write_text("old")
    (workspace / "run.sh").chmod(0o750)

    result = use("write", file_path="run.sh", content="new")

    assert stat.S_IMODE((workspace / "run.sh").stat().st_mode) == 0o750
    assert result.structured["created"] is False


def test_a_new_file_obeys_the_umask(use: Use, workspace: Path) -> None:
    before = os.umask(0o027)
    try:
        use("write", file_path="f", content="")
    finally:
        os.umask(before)

    assert stat.S_IMODE((workspace / "f").stat().st_mode) == 0o640


def test_a_write_is_seen_whole_or_not_at_all(use: Use, workspace: Path) -> None:
    (workspace / "f").write_text("old")

    with (workspace / "f").open() as reader:
        use("write", file_path="f", content="new")
        assert reader.read() == "old"

    assert [path.name for path in workspace.iterdir()] == ["f"]


def test_a_failed_write_leaves_nothing_behind(workspace: Path) -> None:
    (workspace / "f").write_text("old")
    stamp = (0, 0, 0, 0)

    with pytest.raises(ToolFaultError, match="has changed"):
        WorkspaceFiles(workspace).replace("f", b"new", expected=stamp)

    assert [path.name for path in workspace.iterdir()] == ["f"]
    assert (workspace / "f").read_text() == "old"


def test_append_adds_to_the_end(use: Use, workspace: Path) -> None:
    use("write", file_path="log", content="one\n", append=True)
    result = use("write", file_path="log", content="two\n", append=True)

    assert (workspace / "log").read_text() == "one\ntwo\n"
    assert result.structured == {"path": "log", "bytes": 4, "created": False, "size": 8}


def test_an_expected_hash_protects_what_somebody_else_wrote(use: Use, workspace: Path) -> None:
    (workspace / "f").write_text("mine")
    digest = sha256(b"mine").hexdigest()

    assert use("write", file_path="f", content="x", expected_sha256="0" * 64).code == "conflict"
    assert (workspace / "f").read_text() == "mine"
    assert use("write", file_path="f", content="x", expected_sha256=digest).outcome == "ok"


@pytest.mark.promise("tool-2")
@pytest.mark.parametrize("path", ["skills/one/SKILL.md", "skills/new.md", "alias/one/SKILL.md"])
def test_what_is_read_only_inside_the_workspace_is_not_written(path: str, workspace: Path) -> None:
    skill = workspace / "skills" / "one"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text("Do it.\n")
    (workspace / "alias").symlink_to("skills")
    executor = ToolExecutor(
        built_in_tools(),
        workspace=workspace,
        read_only=[workspace / "skills"],
        journal=False,
    )

    result = executor.execute_sync("write", {"file_path": path, "content": "x"})
    by_bash = executor.execute_sync("bash", {"command": f"echo x > {path}"})

    assert (result.outcome, result.code) == ("failed", "denied")
    assert by_bash.outcome == "failed"
    assert (skill / "SKILL.md").read_text() == "Do it.\n"
    assert [path.name for path in skill.parent.iterdir()] == ["one"]


def test_a_folder_is_not_replaced_by_a_file(use: Use, workspace: Path) -> None:
    (workspace / "src").mkdir()

    assert use("write", file_path="src", content="x").code == "unsupported"
    assert use("write", file_path="src/../src/f/", content="x").outcome == "ok"
    assert use("write", file_path="src/f/g", content="x").code == "not_found"
