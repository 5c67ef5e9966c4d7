import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Skillpouch = Callable[..., Ran]


@pytest.fixture
def skillpouch(tmp_path: Path) -> Skillpouch:
    """Run the real command in `tmp_path`."""

    def run(*words: str | Path) -> Ran:
        ran = subprocess.run(
            [sys.executable, "-m", "skillpouch", *map(str, words)],
            cwd=tmp_path,
            capture_output=True,
            check=False,
        )
        return Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())

    return run
