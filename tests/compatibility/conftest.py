"""Skills written in sight of the test, and a home of their own so that no other skill is seen."""

from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent

import pytest

WriteFiles = Callable[[Mapping[str, str]], Path]


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    for name in ("CACHE", "CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(home / name.lower()))
    monkeypatch.delenv("SKILLPOUCH_PATH", raising=False)


@pytest.fixture
def write_files(tmp_path: Path) -> WriteFiles:
    """Write texts below the test's own folder and return that folder."""

    def write(files: Mapping[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text).removeprefix("\n"), encoding="utf-8")
        return tmp_path

    return write
