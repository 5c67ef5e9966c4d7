"""Removing folders: any depth, any mode, nothing outside, and what killed processes left."""

import os
import signal
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from skillpouch.execution.zygote.cleanup import remove_folder
from skillpouch.runtime.removal import lock_folder, remove_left_behind, remove_tree

DEEP = int(os.environ.get("SKILLPOUCH_TEST_DEPTH", "2500"))  # past every recursion limit


def nest(folder: Path, depth: int) -> None:
    """Make folders inside folders, deeper than any path can say."""
    folder.mkdir()
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    for _ in range(depth):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)


@pytest.mark.promise("limit-6")
@pytest.mark.parametrize("remove", [remove_tree, remove_folder])
def test_names_that_a_call_has_taken_first_keep_nothing(tmp_path: Path, remove: object) -> None:
    assert callable(remove)
    left = tmp_path / "left"
    for number in range(30):
        (left / f".removed-{os.getpid()}-{number}/in/side").mkdir(parents=True)
        (left / f"a{number}/in/side").mkdir(parents=True)
    (left / f".removed-{os.getpid()}-{number + 1}").write_text("a file")

    remove(str(left))

    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("remove", [remove_tree, remove_folder])
def test_no_depth_is_too_deep(tmp_path: Path, remove: object) -> None:
    assert callable(remove)
    nest(tmp_path / "deep", DEEP)

    remove(str(tmp_path / "deep"))

    assert list(tmp_path.iterdir()) == []


def test_no_link_is_followed_and_a_link_is_no_folder(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir(mode=0o500)
    (tmp_path / "there").mkdir()
    (tmp_path / "there/link").symlink_to(outside)
    (tmp_path / "there/folder").mkdir()
    (tmp_path / "there/folder/link").symlink_to(outside)
    (tmp_path / "link").symlink_to(outside)

    remove_tree(tmp_path / "there")
    with pytest.raises(NotADirectoryError):
        remove_tree(tmp_path / "link")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "outside"]
    assert stat.S_IMODE(outside.stat().st_mode) == 0o500


def test_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    remove_tree(tmp_path / "nothing")

    assert list(tmp_path.iterdir()) == []


AS_NOBODY = """
import os, sys
from skillpouch.execution.zygote.cleanup import remove_folder
from skillpouch.runtime.removal import remove_tree
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
os.umask(0)
os.chdir(sys.argv[1])
for name, remove in (("one", remove_tree), ("other", remove_folder)):
    os.makedirs(name + "/a/b/c")
    os.mkdir(name + "/a/b/d")
    open(name + "/a/b/file", "w").close()
    for path, mode in (("/a/b/c", 0), ("/a/b/d", 0o100), ("/a/b", 0o400), ("/a", 0), ("", 0)):
        os.chmod(name + path, mode)
    remove(name)
print(os.listdir("."))
"""


def test_no_mode_keeps_a_folder_of_an_ordinary_user() -> None:
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o777)

        done = subprocess.run(
            [sys.executable, "-c", AS_NOBODY, folder], capture_output=True, check=False, text=True
        )

    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_what_cannot_be_removed_is_said_and_the_rest_is_gone(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can mount")
    (tmp_path / "there/mounted").mkdir(parents=True)
    (tmp_path / "there/other/folder").mkdir(parents=True)
    script = (
        'mount -t tmpfs none "$1/there/mounted" && touch "$1/there/mounted/kept" &&'
        ' "$2" -c "import sys; from skillpouch.runtime.removal import remove_tree;'
        ' remove_tree(sys.argv[1])"'
        ' "$1/there"; ls "$1/there" "$1/there/mounted"'
    )

    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), sys.executable],
        capture_output=True,
        check=False,
        text=True,
    )

    if "unshare failed" in done.stderr or "permission denied" in done.stderr.lower():
        pytest.skip("this machine lets nobody mount")
    assert done.stdout.split()[1:] == ["mounted", f"{tmp_path}/there/mounted:", "kept"]
    assert "another file system is mounted there" in done.stderr


def test_a_folder_of_a_process_that_lives_is_left_alone(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "mark-ours", tmp_path / "mark-theirs"
    for folder in (ours, theirs, tmp_path / "mark-young"):
        folder.mkdir()
    (theirs / "lock").touch()
    lock = lock_folder(ours)

    remove_left_behind("mark-", tmp_path)

    # The one without a lock was made this moment: its process has not come to locking it.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mark-ours", "mark-young"]
    os.close(lock)


@pytest.mark.slow
@pytest.mark.promise("limit-7")
def test_large_arguments_of_a_killed_host_are_removed_by_the_next(tmp_path: Path) -> None:
    program = (
        "import sys; from skillpouch.backends.delivery import exchange_folder\n"
        "from pathlib import Path\n"
        "folder = exchange_folder('skill', Path('workspace'))\n"
        "(folder / 'arguments').write_text('secret')\n"
        "print(folder, flush=True)\n"
        "sys.stdin.read()\n"
    )
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", program]
    killed, lives = (
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
        for _ in range(2)
    )
    assert killed.stdout
    assert lives.stdout
    lost, kept = (Path(each.readline().decode().strip()) for each in (killed.stdout, lives.stdout))
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert lost.exists()

    subprocess.run(command, input=b"", env=env, capture_output=True, check=True)

    assert (lost.parent.exists(), kept.exists()) == (False, True)
    lives.communicate(b"")
