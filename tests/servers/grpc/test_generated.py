"""The checked-in messages are what the pinned generator makes of skillpouch.proto."""

import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

REPOSITORY = Path(__file__).parents[3]
PYTHON = REPOSITORY / "build/generator/bin/python"
HOME = Path("skillpouch/servers/grpc/v1")


def test_the_messages_are_those_of_the_proto(tmp_path: Path) -> None:
    if not PYTHON.exists():
        pytest.fail("there is no generator; run `make generator`")
    kinds = [f"--{kind}_out={tmp_path}" for kind in ("python", "pyi", "grpc_python")]

    words = [
        str(PYTHON),
        "-m",
        "grpc_tools.protoc",
        "-I",
        "src",
        *kinds,
        f"src/{HOME}/skillpouch.proto",
    ]
    subprocess.run(words, cwd=REPOSITORY, check=True)

    made = {path.name: path.read_text() for path in (tmp_path / HOME).iterdir()}
    kept = {path.name: path.read_text() for path in (REPOSITORY / "src" / HOME).glob("*_pb2*.py*")}
    assert made == kept
