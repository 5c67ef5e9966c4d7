import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from skillpouch.execution import engine
from skillpouch.runtime.loop_thread import run_blocking

WriteSkill = Callable[..., Path]

# A shell starts what it runs in the background with Ctrl-C ignored, and every process that a test
# starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def own_directories(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No test reads or writes what belongs to the person running it."""
    home = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.delenv("SKILLPOUCH_PATH", raising=False)


@pytest.fixture
def no_other_processes() -> None:
    """End what earlier tests left waiting for calls: this one counts processes and descriptors."""
    run_blocking(engine._engine.close())


@pytest.fixture
def write_skill(tmp_path: Path) -> WriteSkill:
    """Write a skill below `tmp_path/skills`: frontmatter lines, and files by relative path."""

    def write(
        name: str = "demo",
        front: str | None = None,
        body: str = "Do it.\n",
        files: Mapping[str, str | bytes] | None = None,
        root: str = "skills",
    ) -> Path:
        home = tmp_path / root / name
        home.mkdir(parents=True)
        head = f"name: {name}\ndescription: Does {name}.\n" if front is None else front
        (home / "SKILL.md").write_text(f"---\n{head}---\n\n{body}")
        for path, content in (files or {}).items():
            file = home / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.encode() if isinstance(content, str) else content)
        return home

    return write
