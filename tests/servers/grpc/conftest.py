from collections.abc import Callable
from pathlib import Path

import pytest

from skillpouch import SkillManager
from skillpouch.servers.grpc import GrpcLimits, GrpcServer
from tests.conftest import WriteSkill

NewServer = Callable[..., GrpcServer]

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
import os, pathlib, subprocess, time, zlib
subprocess.Popen(["sleep", str(10**6 + zlib.crc32(os.getcwd().encode()))])
pathlib.Path("started").write_text("yes")
for number in range(6000):
    print(f"step {number}", flush=True)
    time.sleep(0.1)
"""
STEPS = """
import sys
print("one", flush=True)
print("two", file=sys.stderr, flush=True)
print("three", flush=True)
"""
MUCH = "for number in range(200_000):\n    print('x' * 99)\n"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def new_server(write_skill: WriteSkill, workspace: Path, tmp_path: Path) -> NewServer:
    """Make a server of one skill, `demo`, with a script of each temper."""
    scripts = {"echo": ECHO, "fail": FAIL, "slow": SLOW, "steps": STEPS, "much": MUCH}
    write_skill(files={f"scripts/{name}.py": text for name, text in scripts.items()})

    def new(**limits: float) -> GrpcServer:
        manager = SkillManager(tmp_path / "skills", workspace=workspace)
        return GrpcServer(manager, watch=False, limits=GrpcLimits(**limits))  # type: ignore[arg-type]

    return new
