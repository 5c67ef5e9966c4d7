from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from skillpouch.errors import CommandStartError, SandboxUnavailableError
from skillpouch.execution.command import Command, Ended
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine
from skillpouch.execution.machine import Machine
from skillpouch.limits import Limits

pytestmark = pytest.mark.slow


@pytest.fixture
async def unknown_system() -> AsyncIterator[Engine]:
    async with Engine(machine=Machine(), grace_seconds=0.1) as engine:
        yield engine


async def run(engine: Engine, workspace: Path, script: str, **limits: float) -> Ended:
    command = Command(
        argv=("/bin/bash", "-c", script),
        env={"PATH": "/usr/bin:/bin"},
        cwd=workspace,
        limits=Limits(**limits),  # type: ignore[arg-type]  # numbers of the right kind
    )
    return await engine.run(command, Confinement(workspace=workspace, sandbox="off"))


async def test_an_unknown_system_refuses_unless_told_that_nothing_protects(
    unknown_system: Engine, workspace: Path
) -> None:
    command = Command(argv=("/bin/true",), env={}, cwd=workspace)

    with pytest.raises(SandboxUnavailableError, match="fs, net"):
        await unknown_system.run(command, Confinement(workspace=workspace))

    ended = await run(unknown_system, workspace, "cat; echo out; echo err >&2; exit 3")
    assert (ended.outcome, ended.exit_code) == ("failed", 3)
    assert (ended.stdout.text, ended.stderr.text) == ("out\n", "err\n")
    assert dict(ended.protections) == {
        "fs": "none",
        "net": "none",
        "tree": "process_group",
        "signals": "none",
        "memory": "none",
        "processes": "none",
        "syscalls": "none",
        "temp": "none",
        "profiles": "none",
        "writes": "direct",
    }


async def test_a_timeout_ends_the_group(unknown_system: Engine, workspace: Path) -> None:
    ended = await run(unknown_system, workspace, "sleep 1000 | cat", timeout_seconds=0.2)

    assert (ended.outcome, ended.exit_code) == ("timed_out", 124)


async def test_a_background_child_does_not_delay_the_result(
    unknown_system: Engine, workspace: Path
) -> None:
    ended = await run(unknown_system, workspace, "sleep 1000 & echo done; ulimit -n", open_files=50)

    assert (ended.outcome, ended.stdout.text) == ("ok", "done\n50\n")


async def test_a_missing_program_is_said(unknown_system: Engine, workspace: Path) -> None:
    command = Command(argv=("/no/such",), env={}, cwd=workspace)

    with pytest.raises(CommandStartError):
        await unknown_system.run(command, Confinement(workspace=workspace, sandbox="off"))


async def test_a_program_has_the_variables_it_was_given_and_no_other(
    unknown_system: Engine, workspace: Path
) -> None:
    command = Command(argv=("/usr/bin/env",), env={"A": "b"}, cwd=workspace)

    ended = await unknown_system.run(command, Confinement(workspace=workspace, sandbox="off"))

    assert ended.stdout.text == "A=b\n"
