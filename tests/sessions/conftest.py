"""Skills as text, sessions over them, and what is left on disk and in the process table."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from skillpouch import SessionManager
from skillpouch.environment import data_directory, state_directory

Say = Callable[..., str]


def say(said: str, *, tool: str = "say", name: str = "speaker") -> str:
    """Return a skill whose tool says something."""
    return f"""---
name: {name}
description: Says things.
tools:
  - name: {tool}
    description: Say it
    backend:
      type: script
      interpreter: bash
      script: |
        {said}
    parameters: {{}}
---
"""


@pytest.fixture
async def sessions() -> AsyncIterator[SessionManager]:
    manager = SessionManager()
    yield manager
    await manager.close()


@pytest.fixture
async def direct_sessions() -> AsyncIterator[SessionManager]:
    """Sessions whose calls can be watched by the files that they make."""
    manager = SessionManager(writes="direct")
    yield manager
    await manager.close()


def state() -> Path:
    found = state_directory()
    assert found is not None
    return found


def data() -> Path:
    found = data_directory()
    assert found is not None
    return found


def files() -> list[str]:
    """Return the files and folders that sessions have made, databases and locks aside."""
    places = [state() / "texts", state() / "sessions", data() / "workspaces"]
    found = [path for place in places if place.is_dir() for path in place.rglob("*")]
    ours = {".lock", "processes"}
    return sorted(str(p) for p in found if p.name not in ours and p.parent.name != "processes")


def processes_in(workspace: Path) -> list[str]:
    """Return the processes of this machine that have a workspace mounted or work in it."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            mounts = (process / "mountinfo").read_text(errors="surrogateescape")
            here = str((process / "cwd").readlink())
        except OSError:
            continue
        if str(workspace) in mounts or here.startswith(str(workspace)):
            found.append(
                (process / "cmdline").read_text(errors="surrogateescape").replace("\0", " ")
            )
    return found
