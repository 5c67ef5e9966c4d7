import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLE = Path(__file__).parents[2] / "examples" / "scripted_tool.py"


def test_the_shop_of_the_examples_works() -> None:
    ran = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, check=True)

    assert "## Users and what they ordered: ok, 6 calls\nAlice: 250.5\nBob: 40.5\n" in ran.stdout
    assert "desk" in ran.stdout
    assert "['SAVE10-1', 'SAVE10-3']" in ran.stdout
    assert "no such user (4)" in ran.stdout
