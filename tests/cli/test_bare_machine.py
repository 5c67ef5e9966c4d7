"""The first command somebody tries, on a machine that has little."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import SkillpouchError, ToolExecutor
from skillpouch.environment import state_directory
from skillpouch.provision.packages.store import open_store
from skillpouch.provision.programs.programs import open_programs
from skillpouch.sessions.store import SessionStore, new_workspace
from skillpouch.trust.grants import Grants
from tests.cli.conftest import Skillpouch, skillpouch
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

__all__ = ["skillpouch"]  # a fixture

ROOT = Path(__file__).parents[2]
# What an ordinary user cannot write, nor root.
NOT_WRITABLE = "/proc"
HINT = "make it writable for you, or set {} to a folder that is"


@pytest.fixture
def unwritable_home(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", NOT_WRITABLE)


def run_demo(path: str | Path, home: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "examples" / "demo.py"],
        env={"PATH": str(path), "HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_demo_does_its_main_job_where_only_python_is_installed(tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for program in ("sh", "bash"):
        (bare / program).symlink_to(f"/bin/{program}")

    ran = run_demo(bare, tmp_path)

    assert (ran.returncode, ran.stderr) == (0, "")
    assert "calculator.add                 ok" in ran.stdout
    assert "open a connection: denied" in ran.stdout
    said = "not ready: cannot start ruby: it is not installed; install it: apt install ruby"
    assert f"release-notes.thank_authors    {said}" in ran.stdout
    for reason in (
        "node is not installed: apt install nodejs",
        "perl is not installed: apt install perl",
        "WEATHER_API_KEY is not set: export WEATHER_API_KEY=…",
    ):
        assert f"    not ready: {reason}\n" in ran.stdout


def test_the_demo_says_in_plain_words_that_home_cannot_be_written() -> None:
    ran = run_demo(os.environ["PATH"], NOT_WRITABLE)

    assert ran.returncode == 0, ran.stderr
    assert "calculator.add                 ok" in ran.stdout
    line, *more = ran.stderr.splitlines()
    assert not more
    assert line.startswith("warning: calls are not recorded: /proc/.local/state/skillpouch/")
    assert line.endswith(HINT.format("XDG_STATE_HOME"))


@pytest.mark.usefixtures("unwritable_home")
def test_a_call_that_is_not_on_record_says_so_in_one_plain_line(
    write_skill: WriteSkill, skillpouch: Skillpouch
) -> None:
    root = write_skill(files={"scripts/run.py": "print(1)\n"}).parent

    ran = skillpouch("call", "demo.run", "--root", root)

    assert (ran.code, ran.out) == (0, "1\n")
    assert ran.err.startswith("warning: calls are not recorded: /proc/")
    assert ran.err.endswith(f"; {HINT.format('XDG_STATE_HOME')}\n")
    assert ran.err.count("\n") == 1


KEPT: dict[str, tuple[Callable[[], object], str]] = {
    "packages": (open_store, "XDG_CACHE_HOME"),
    "programs": (open_programs, "XDG_CACHE_HOME"),
    "grants": (lambda: Grants().give_consent(by="me"), "XDG_STATE_HOME"),
    "sessions": (lambda: SessionStore(state_directory()).get("s"), "XDG_STATE_HOME"),
    "workspaces": (lambda: new_workspace(None, "s"), "XDG_DATA_HOME"),
    "skill texts": (
        lambda: ToolExecutor().register_skill_tools("---\nname: a\ndescription: b\n---\n"),
        "XDG_STATE_HOME",
    ),
}


@pytest.mark.usefixtures("unwritable_home")
@pytest.mark.parametrize("kept", KEPT)
def test_what_cannot_be_kept_says_where_else_it_could_be(kept: str) -> None:
    keep, variable = KEPT[kept]

    with pytest.raises(SkillpouchError) as caught:
        keep()

    assert caught.value.hint == HINT.format(variable)
