"""The fixtures, in a pytest of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).parent.parent.parent / "examples" / "skills"

TESTS = f"""
from skillpouch import SkillManager

CALCULATOR = {str(EXAMPLES / "calculator")!r}

def test_one_line(run_skill_tool):
    assert run_skill_tool(CALCULATOR, "add", {{"a": 2, "b": 3}}).structured == 5

def test_recorded(skillpouch_cassette):
    SkillManager(CALCULATOR).call("add", {{"a": 2, "b": 3}})
    print("replays:", skillpouch_cassette.replays)

def test_failing(skillpouch_cassette):
    SkillManager(CALCULATOR).call("add", {{"a": 2, "b": 3}})
    assert False
"""


def run(folder: Path, *options: str) -> str:
    words = ["-q", "-s", "-p", "skillpouch.testing.fixtures", *options]
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", *words, "test_agent.py"],
        cwd=folder,
        # The plugins of frameworks take seconds to import, and no test here is about them.
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.stdout


def test_a_test_records_first_and_replays_then_and_a_failing_one_records_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_agent.py").write_text(TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    cassettes = tmp_path / "cassettes" / "test_agent"

    first = run(tmp_path)
    second = run(tmp_path, "--skillpouch-cassettes=replay", "-k", "recorded or one_line")

    assert "1 failed, 2 passed" in first
    assert "replays: False" in first
    assert [path.name for path in cassettes.iterdir()] == ["test_recorded.json"]
    assert "2 passed" in second
    assert "replays: True" in second
