from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from skillpouch import SkillManager
from tests.conftest import WriteSkill
from tests.jobs.hosts import end_host

NewManager = Callable[..., SkillManager]

ECHO = '''
def handler(args: dict) -> dict:
    """Say it again.

    Args:
        text: what to say
    """
    return {"said": args["text"]}
'''
FAIL = "import sys\nprint('half', flush=True)\nsys.exit('it broke')\n"
SLOW = """
import fcntl, pathlib, time
lock = open("lock", "w")
fcntl.flock(lock, fcntl.LOCK_EX)  # for as long as it lives
pathlib.Path("started").write_text("yes")
for number in range(600):
    print(f"step {number}", flush=True)
    time.sleep(0.1)
"""
MAKES = "import pathlib\npathlib.Path('made.txt').write_text('new')\nprint('done')\n"


@pytest.fixture(autouse=True)
def no_host_left(own_directories: None) -> Iterator[None]:  # noqa: ARG001 - it sets the folders
    """End the job host that a test started, with everything that it runs."""
    yield
    end_host()


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def new_manager(write_skill: WriteSkill, workspace: Path, tmp_path: Path) -> NewManager:
    """Make a manager of one skill, `demo`, with a script of each temper."""
    scripts = {"echo": ECHO, "fail": FAIL, "slow": SLOW, "makes": MAKES}
    files = {f"scripts/{name}.py": text for name, text in scripts.items()}
    write_skill(files={**files, "references/notes.md": "# Notes\n", "picture.bin": b"\xff\x00"})

    def new(**options: object) -> SkillManager:
        return SkillManager(tmp_path / "skills", workspace=workspace, **options)  # type: ignore[arg-type]

    return new
