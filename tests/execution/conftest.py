"""What the tests of running share: an engine on this loop, a workspace, bash and scripts."""

import os
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch.execution.command import Command, Ended
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine
from skillpouch.limits import Limits
from tests.execution.warm_calls import Skill, Warm, count_from_here

Bash = Callable[..., Awaitable[Ended]]


@pytest.fixture(autouse=True)
def alone(no_other_processes: None) -> None:  # noqa: ARG001 - what it does comes first
    count_from_here()


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with Engine(grace_seconds=0.2) as engine:
        yield engine


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


@pytest.fixture
def token() -> str:
    """A word that marks every process of this test through its environment."""
    return secrets.token_hex(16)


@pytest.fixture
def survivors(token: str) -> Callable[[], list[str]]:
    def find() -> list[str]:
        """The command lines of processes that carry the token and are not waiting to be reaped."""
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == os.getpid():
                continue
            try:
                if token.encode() in (entry / "environ").read_bytes():
                    found.append(
                        (entry / "cmdline").read_text(errors="surrogateescape").replace("\0", " ")
                    )
            except OSError:
                continue
        return [line for line in found if line]

    return find


@pytest.fixture
def bash(engine: Engine, workspace: Path, token: str) -> Bash:
    async def run(script: str, **options: Any) -> Ended:
        confined = options.pop("confinement", {})
        env = {"PATH": "/usr/bin:/bin", "TOKEN": token, **options.pop("env", {})}
        command = Command(
            argv=("/bin/bash", "-c", script),
            env=env,
            cwd=options.pop("cwd", workspace),
            stdin=options.pop("stdin", b""),
            limits=Limits(**options.pop("limits", {})),
        )
        confinement = Confinement(workspace=workspace, **confined)
        return await engine.run(command, confinement, **options)

    return run


@pytest.fixture
def skill(tmp_path: Path, workspace: Path) -> Skill:
    home = tmp_path / "skill"
    home.mkdir()
    return Skill(home=home, workspace=workspace, token=secrets.token_hex(8))


@pytest.fixture
def warm(skill: Skill, engine: Engine) -> Warm:
    return skill.caller(engine)
