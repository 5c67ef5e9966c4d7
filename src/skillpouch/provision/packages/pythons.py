"""Which Python an environment is made for: the one Skillpouch runs on, or another one."""

import json
import os
import platform
import sys
import sysconfig
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

from skillpouch.backends.interpreters import find_program, homes_of
from skillpouch.environment import base_environment, home_directory, variables_named
from skillpouch.errors import CommandStartError
from skillpouch.execution.command import Command
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.shared import run_command
from skillpouch.provision.packages.python_versions import Version, satisfies

_ABOUT = (
    "import json, sys, sysconfig; print(json.dumps([list(sys.version_info[:3]),"
    " sys.implementation.cache_tag, sysconfig.get_config_var('SOABI') or '']))"
)
Sandbox = Literal["on", "off"]
_asked: dict[tuple[str, int], "Python | None"] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Python:
    """An interpreter by its real file, and what packages must fit."""

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
    """Return what binary packages must fit besides the interpreter."""
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
    """Let a Python say what it is, confined: nobody vouches for what lies on a search path."""
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
