"""Texts in folders: private, shared by equal ones, gone with their last user."""

import signal
import stat
import subprocess
import sys
from collections import UserDict
from pathlib import Path

import pytest

from skillpouch.discovery.text_skills.folders import (
    SkillFolderError,
    TextSkillFolder,
    hold,
    is_text_home,
    keep,
    let_go,
)
from skillpouch.environment import state_directory

pytestmark = pytest.mark.slow

FILES = {"SKILL.md": "---\nname: a\n---\n", "scripts/run.py": "print('é')\r\n"}

# Keeps a text and says where; what it prints next is "gone" when it has let it go.
OTHER = """
import sys
from skillpouch.discovery.text_skills.folders import keep, let_go
kept = keep({"SKILL.md": "---\\nname: a\\n---\\n", "scripts/run.py": "print('é')\\r\\n"}, "a")
print(kept.home, flush=True)
sys.stdin.readline()
let_go(kept)
print("gone", flush=True)
"""


def texts() -> list[str]:
    state = state_directory()
    assert state is not None
    kept = {path.name for path in (state / "texts").iterdir()}
    return sorted(kept - {".lock", "processes"})


def test_a_text_is_written_as_it_is_and_equal_ones_share_a_folder() -> None:
    one, other = keep(FILES, "a"), keep(FILES, "a")

    assert one == other
    assert (one.home / "scripts" / "run.py").read_bytes() == FILES["scripts/run.py"].encode()
    assert is_text_home(str(one.home))
    let_go(one)
    assert one.home.is_dir()
    let_go(other)
    assert not one.home.exists()
    assert texts() == []


def test_another_name_or_another_byte_is_another_folder() -> None:
    kept = [keep(FILES, "a"), keep(FILES, "b"), keep(FILES | {"SKILL.md": "x"}, "a")]

    assert len({each.home for each in kept}) == 3
    for each in kept:
        let_go(each)


@pytest.mark.promise("text-1")
def test_only_its_user_can_enter_the_folder() -> None:
    kept = keep(FILES, "a")

    assert stat.S_IMODE(kept.base.stat().st_mode) == 0o700
    let_go(kept)


@pytest.mark.promise("text-1")
@pytest.mark.parametrize("name", ["../../evil", "/etc", "a/b", "..", "a\0b", "Großes"])
def test_no_name_leads_out_of_the_folder(name: str) -> None:
    kept = keep({"SKILL.md": "x"}, name)

    assert kept.home == kept.base / kept.key / "skill"
    let_go(kept)


def test_a_folder_somebody_had_a_hand_in_is_written_again() -> None:
    kept = keep(FILES, "a")
    (kept.home / "SKILL.md").write_text("changed")
    (kept.home / "scripts" / "more.py").write_text("print(1)")

    again = keep(FILES, "a")

    assert sorted(path.name for path in (again.home / "scripts").iterdir()) == ["run.py"]
    assert (again.home / "SKILL.md").read_text() == FILES["SKILL.md"]
    let_go(kept)
    let_go(again)
    assert texts() == []


def test_a_call_keeps_what_it_runs_after_its_skill_has_gone() -> None:
    kept = keep(FILES, "a")
    held = hold(str(kept.home))

    let_go(kept)

    assert held is not None
    assert held.home.is_dir()
    let_go(held)
    assert not held.home.exists()
    assert hold(str(kept.home)) is None


def test_what_another_process_uses_stays() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None
        assert other.stdout is not None
        home = Path(other.stdout.readline().strip())
        kept = keep(FILES, "a")
        let_go(kept)

        assert kept.home == home
        assert (home / "SKILL.md").is_file()
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.stdout.readline() == "gone\n"
        assert not home.exists()


@pytest.mark.promise("text-1")
def test_what_a_killed_process_left_is_removed_by_the_next() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OTHER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        home = Path(other.stdout.readline().strip())
        other.send_signal(signal.SIGKILL)
        other.wait()
    assert home.is_dir()

    let_go(keep({"SKILL.md": "another"}, "b"))

    assert not home.exists()
    assert texts() == []


def test_a_folder_that_is_a_link_is_refused(tmp_path: Path) -> None:
    state = state_directory()
    assert state is not None
    state.mkdir(parents=True)
    (state / "texts").symlink_to(tmp_path)

    with pytest.raises(SkillFolderError) as raised:
        keep(FILES, "a")

    assert raised.value.code == "skill_folder"
    assert list(tmp_path.iterdir()) == []


def test_no_home_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skillpouch.discovery.text_skills.folders.state_directory", lambda: None)

    with pytest.raises(SkillFolderError) as raised:
        keep(FILES, "a")

    assert raised.value.hint == "set XDG_STATE_HOME"


class _Interrupting(UserDict[str, str]):
    """Files that let another folder go while they are written, as collecting garbage may."""

    def __init__(self, other: TextSkillFolder) -> None:
        super().__init__({"SKILL.md": "written"})
        self._later = [other, None]  # the first time it is only hashed

    def __getitem__(self, path: str) -> str:
        kept = self._later.pop() if self._later else None
        if kept is not None:
            let_go(kept)
        return super().__getitem__(path)


@pytest.mark.parametrize("text", ["another", "written"])
def test_a_folder_can_be_let_go_while_one_is_kept(text: str) -> None:
    other = keep({"SKILL.md": text}, "a")

    kept = keep(_Interrupting(other), "a")

    assert (kept.home / "SKILL.md").read_text() == "written"
    assert len(texts()) == 1
    let_go(kept)
    assert texts() == []


def test_a_forked_child_leaves_its_parents_folders_alone() -> None:
    program = """
import os
from skillpouch.discovery.text_skills.folders import keep, let_go
kept = keep({"SKILL.md": "x"}, "a")
child = os.fork()
if not child:
    let_go(kept)
    os._exit(0)
os.waitpid(child, 0)
print(kept.home.is_dir())
let_go(kept)
print(kept.home.exists())
"""

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert ran.stdout == b"True\nFalse\n"
