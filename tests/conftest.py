import gc
import itertools
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from skillpouch.execution import engine
from skillpouch.runtime.loop_thread import run_blocking
from tests.jobs.hosts import end_host

WriteSkill = Callable[..., Path]

_ALL_SLOW = re.compile(r"^pytestmark = \[?\s*pytest\.mark\.slow\b", re.MULTILINE)

# A shell starts what it runs in the background with Ctrl-C ignored, and every process that a test
# starts would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# If it were set, every process that a test starts would compile all that it imports anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Hypothesis fails a test whose examples take longer than 200 ms, or are made slowly: that is a
# statement about how busy the machine is.
settings.register_profile("any", deadline=None, suppress_health_check=[HealthCheck.too_slow])
# Continuous integration tries the same examples each time: what fails there is due to the change.
settings.register_profile("same", settings.get_profile("any"), derandomize=True, database=None)
settings.load_profile("same" if os.environ.get("SKILLPOUCH_SAME_EXAMPLES") else "any")

# Until all tests are collected: nothing of what that makes is garbage.
gc.disable()


def pytest_collection_finish() -> None:
    """Leave what stays until the end out of every collection: a million objects, half a second."""
    gc.freeze()
    gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import a file of slow tests to leave them all out: some load whole frameworks."""
    if collection_path.suffix != ".py" or "not slow" not in config.option.markexpr.split(" and "):
        return None
    return True if _ALL_SLOW.search(collection_path.read_text()) else None


_numbers = itertools.count()


@pytest.fixture
def tmp_path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    """A folder of its own, as pytest makes it, without listing those of all tests before it."""
    name = re.sub(r"\W", "_", request.node.name)[:30]
    path = tmp_path_factory.getbasetemp() / f"{name}_{next(_numbers)}"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture(scope="session")
def homes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("homes")
    (made.parent / "system").mkdir(exist_ok=True)
    return made


@pytest.fixture(autouse=True)
def own_directories(homes: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test reads or writes what belongs to the person running it, or leaves a job host."""
    home = homes / str(next(_numbers))
    (home / "cache" / "skillpouch").mkdir(parents=True)
    # Made once for all tests: it depends on the packages of the machine only.
    (home / "cache" / "skillpouch" / "system").symlink_to(homes.parent / "system")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "cache"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(home / "data"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "state"))
    monkeypatch.delenv("SKILLPOUCH_PATH", raising=False)
    yield
    end_host(home / "state/skillpouch/jobs")


@pytest.fixture
def writes_directly(own_directories: None) -> None:  # noqa: ARG001 - it makes the folder of the user
    """Let calls write as they run: the test, or another call, meets them in the workspace."""
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "skillpouch"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.toml").write_text('writes = "direct"\n')


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
