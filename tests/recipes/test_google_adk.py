"""The recipe for Google ADK, which runs in an environment of its own: see .ci/extras."""

import runpy
import shutil
from pathlib import Path

import pytest

from tests.test_docs import REPOSITORY, blocks

pytest.importorskip("google.adk", reason="its pins exclude ours; .ci/extras google-adk runs this")


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.filterwarnings("default")
def test_the_recipe_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(REPOSITORY / "examples", tmp_path / "examples")
    program = tmp_path / "recipe.py"
    program.write_text("\n".join(blocks(REPOSITORY / "docs/integrations/google-adk.md", "python")))
    monkeypatch.chdir(tmp_path)

    found = runpy.run_path(str(program))

    assert found["good"] == {"result": "42"}
