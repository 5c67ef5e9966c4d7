"""What Skillpouch itself runs from is out of reach of its own tools, also inside a workspace."""

from pathlib import Path

import pytest

from skillpouch.errors import SkillpouchError
from tests.builtins.workspace.conftest import Use

pytestmark = pytest.mark.slow


FILES = ("downloads/abc/file", "environments/abc/program", "programs/abc/program", "index.sqlite3")


@pytest.fixture(params=[*FILES, f"{FILES[1]} by a link"])
def kept(
    request: pytest.FixtureRequest,
    workspace: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """A file in Skillpouch's cache, which somebody keeps inside the workspace."""
    param: str = request.param
    name, _, is_linked = param.partition(" by")
    place = workspace
    if is_linked:
        place = tmp_path / "link-to-workspace"
        place.symlink_to(workspace)
    monkeypatch.setenv("XDG_CACHE_HOME", str(place / "cache"))
    file = workspace / "cache/skillpouch" / name
    file.parent.mkdir(parents=True)
    file.write_text("good")
    return file


@pytest.mark.promise("tool-2")
def test_write_does_not_replace_what_is_run_later(use: Use, workspace: Path, kept: Path) -> None:
    try:
        result = use("write", file_path=str(kept.relative_to(workspace)), content="bad")
    except SkillpouchError:
        refused = True
    else:
        refused = result.is_error

    assert (refused, kept.read_text()) == (True, "good")


@pytest.mark.promise("tool-2")
@pytest.mark.parametrize("how", ["echo bad > {file}", "mv cache aside"])
def test_bash_does_not_replace_what_is_run_later(use: Use, kept: Path, how: str) -> None:
    result = use("bash", command=how.format(file=kept))

    assert (result.is_error, kept.read_text()) == (True, "good")
