import os
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from shutil import which
from typing import Any

import pytest

from skillpouch.declarations.packages.needs import declared_needs
from skillpouch.environment import base_environment
from skillpouch.execution.command import Command, Ended
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import run_command
from skillpouch.limits import Limits
from skillpouch.provision.interpreters import find_program, homes_of
from skillpouch.provision.packages import lookup
from skillpouch.provision.packages.lookup import environment_for
from skillpouch.provision.packages.ready import Environment
from skillpouch.tools import Script
from skillpouch.trust.granted_packages import package_needs
from tests.provision.packages.registry import Registry

RUNNERS = Path(sys.modules["skillpouch"].__file__ or "").parent / "backends" / "runners"
_UV = which("uv") or which("uv", path=str(Path(sys.executable).parent))

Run = Callable[..., Awaitable[Ended]]


@pytest.fixture
def registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry]:
    """The only place where packages come from: every setting of this machine is put aside."""
    for name in list(os.environ):
        if name.upper().startswith(("PIP_", "UV_", "NPM_CONFIG_")) or "PROXY" in name.upper():
            monkeypatch.delenv(name)
    found = Registry()
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_INDEX_URL", f"{found.address}/simple/")
    monkeypatch.setenv("UV_DEFAULT_INDEX", f"{found.address}/simple/")
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", f"{found.address}/npm/")
    monkeypatch.setenv("NPM_CONFIG_FETCH_RETRIES", "0")
    yield found
    found.close()


@pytest.fixture
def without_uv(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(lookup, "_PROGRAMS", tmp_path / "nothing is here")
    monkeypatch.setenv("PATH", "/usr/local/bin:/usr/bin:/bin")
    find_program.cache_clear()
    yield
    find_program.cache_clear()


@pytest.fixture
def with_uv(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    if _UV is None:
        pytest.skip("uv is not installed: it comes with the dev extra")
    monkeypatch.setenv("PATH", f"{Path(_UV).parent}:/usr/local/bin:/usr/bin:/bin")
    find_program.cache_clear()
    yield
    find_program.cache_clear()


@pytest.fixture(params=["pip", "uv"])
def installer(request: pytest.FixtureRequest) -> str:
    """Each of the two installers of Python packages."""
    request.getfixturevalue("with_uv" if request.param == "uv" else "without_uv")
    return str(request.param)


def script_at(home: Path, name: str) -> Script:
    language = "python" if name.endswith(".py") else "javascript"
    return Script(file=str(home / name), language=language, convention="stdin")  # type: ignore[arg-type]  # one of the two


async def installed(script: Script, home: Path, **options: Any) -> Environment | None:
    """Return the environment of a script when somebody said yes to all that it declares."""
    said = tuple(need.value for need in package_needs(declared_needs(script, str(home))))
    return await environment_for(script, str(home), packages=said, **options)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run a script of a skill in its environment, as a backend does: confined, no network."""
    workspace = tmp_path / "workspace"
    workspace.mkdir()

    async def run(environment: Environment, script: Script, home: Path) -> Ended:
        program = environment.python or find_program("node")
        own = base_environment() | dict(environment.variables)
        command = Command(
            argv=(program, script.file),
            env=own | {"PATH": f"{environment.programs}:{own['PATH']}"},
            cwd=workspace,
            # Node 24 reserves most of the usual gibibyte for each worker thread.
            limits=Limits(memory_bytes=4 * 1024**3),
        )
        confinement = Confinement(
            workspace=workspace,
            skill=home,
            interpreters=(*homes_of(program), *environment.visible),
            readable=(RUNNERS,),
        )
        return await run_command(command, confinement)

    return run
