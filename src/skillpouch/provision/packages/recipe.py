"""How an environment is made, and for which Python: files to write, programs to run."""

import json
import os
import platform
import sys
import sysconfig
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

from skillpouch.declarations.packages.requirements import Version, satisfies
from skillpouch.environment import base_environment, home_directory, variables_named
from skillpouch.errors import CommandStartError
from skillpouch.execution.command import Command
from skillpouch.execution.confinement import Confinement, Network
from skillpouch.execution.engine import run_command
from skillpouch.limits import Sandbox
from skillpouch.provision.interpreters import find_program, homes_of
from skillpouch.provision.packages.configuration import Settings

# Part of every digest: increase it whenever the same needs would be installed differently.
FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One program. `optional`: when it fails, the environment is usable all the same.

    It can write the environment and the downloads; with `alone_in` nothing but that folder. `doing`
    is for the error if it fails.
    """

    argv: tuple[str, ...]
    settings: Settings = field(default_factory=Settings)
    variables: tuple[tuple[str, str], ...] = ()
    interpreters: tuple[Path, ...] = ()
    network: Network = "none"
    optional: bool = False
    alone_in: Path | None = None
    doing: str = ""


class RecipeError(Exception):
    """What a step left behind cannot be used for the next; the message says why."""


class Recipe(Protocol):
    """Everything that is decided before an environment is built."""

    @property
    def digest(self) -> str: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    def steps(self, folder: Path, downloads: Path) -> Iterable[Step]:
        """Write the input files of the installer into the folder; return the programs to run.

        Each is to be run before the next is asked for. Raises RecipeError.
        """

    def objection(self, folder: Path) -> str:
        """Say why the installed packages must not be used, "" when they may."""

    def record(self) -> dict[str, Any]:
        """Return the facts that are stored with the finished environment."""

    def try_yourself(self) -> str:
        """Return the command by which a person can try the same without Skillpouch."""


def recipe_digest(*facts: object) -> str:
    """Return the name of an environment: a digest of these facts."""
    return sha256(json.dumps([FORMAT, *facts]).encode()).hexdigest()[:32]


_ABOUT = (
    "import json, sys, sysconfig; print(json.dumps([list(sys.version_info[:3]),"
    " sys.implementation.cache_tag, sysconfig.get_config_var('SOABI') or '']))"
)
_asked: dict[tuple[str, int], "Python | None"] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Python:
    """An interpreter by its real file, with the version and ABI that packages must match."""

    executable: str
    version: Version
    abi: str

    @property
    def text(self) -> str:
        return ".".join(map(str, self.version))


@cache
def own_python() -> Python:
    """Return the interpreter that Skillpouch runs on, outside any virtual environment."""
    base: str = getattr(sys, "_base_executable", "") or sys.executable
    tag = sys.implementation.cache_tag or sys.implementation.name
    return Python(
        executable=os.path.realpath(base),
        version=sys.version_info[:3],
        abi=f"{tag} {sysconfig.get_config_var('SOABI') or ''}",
    )


@cache
def machine() -> str:
    """Return the platform that binary packages must match, besides the interpreter."""
    return " ".join([sysconfig.get_platform(), *platform.libc_ver()])


async def find_python(specifiers: str, sandbox: Sandbox) -> Python | None:
    """Return an installed Python that satisfies the specifiers: our own, else the newest."""
    if satisfies(own_python().version, specifiers):
        return own_python()
    known = [await _ask(path, sandbox) for path in _candidates()]
    fitting = [each for each in known if each and satisfies(each.version, specifiers)]
    return max(fitting, key=lambda each: each.version, default=None)


def _candidates() -> list[str]:
    """Return the real files of Pythons on the search path, and of those that managers keep."""
    names = [f"python3.{minor}" for minor in range(9, 30)]
    found = {find_program(name) for name in ("python3", *names)}
    for folder in _kept_by_managers():
        found |= {os.path.realpath(path) for path in folder.glob("*/bin/python3")}
    return sorted(path for path in found if path and Path(path).is_file())


def _kept_by_managers() -> list[Path]:
    home = home_directory()
    folders = [home / ".local/share/uv/python", home / ".pyenv/versions"] if home else []
    named = variables_named("UV_PYTHON_INSTALL_DIR", "PYENV_ROOT")
    folders += [
        Path(value) / ("versions" if "PYENV" in name else "") for name, value in named.items()
    ]
    return [folder for folder in folders if folder.is_absolute()]


async def _ask(executable: str, sandbox: Sandbox) -> Python | None:
    """Ask a Python for its version, confined: programs on a search path are not trusted."""
    key = (executable, _modified(executable))
    if key not in _asked:
        with tempfile.TemporaryDirectory(prefix="skillpouch-python-") as folder:
            said = await _said(executable, _real(folder), sandbox)
        _asked[key] = _answer(executable, said)
    return _asked[key]


async def _said(executable: str, workspace: Path, sandbox: Sandbox) -> str:
    homes = homes_of(executable)
    command = Command(
        argv=(executable, "-I", "-S", "-c", _ABOUT), env=base_environment(), cwd=workspace
    )
    confinement = Confinement(workspace=workspace, interpreters=homes, sandbox=sandbox)
    try:
        return (await run_command(command, confinement)).stdout.text
    except CommandStartError:
        return ""


def _real(folder: str) -> Path:
    return Path(folder).resolve()


def _modified(path: str) -> int:
    return Path(path).stat().st_mtime_ns


def _answer(executable: str, text: str) -> Python | None:
    try:
        (major, minor, micro), tag, abi = json.loads(text)
    except ValueError:
        return None
    return Python(
        executable=executable, version=(int(major), int(minor), int(micro)), abi=f"{tag} {abi}"
    )
