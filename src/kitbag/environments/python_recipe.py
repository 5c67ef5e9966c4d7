"""How packages of Python are installed: wheels only, by uv where it is, else by pip."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from kitbag.backends.interpreters import homes_of
from kitbag.environments.configuration import pip_settings, uv_settings
from kitbag.environments.needs import PythonNeeds
from kitbag.environments.pythons import Python, machine
from kitbag.environments.recipe import Step, digest_of

VENV = "python"  # the folder of the virtual environment, in that of the environment
_INSTALLS_ELSEWHERE = (22, 3)  # the pip that learned `--python`


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonRecipe:
    """Packages for one interpreter. `uv` is the path of uv, "" to do without."""

    needs: PythonNeeds
    python: Python
    uv: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return self.needs.names

    @property
    def digest(self) -> str:
        needs, python = self.needs, self.python
        lines = [[each.line for each in part] for part in (needs.requirements, needs.constraints)]
        flags = [needs.prereleases, needs.hashes_required]
        return digest_of(
            "python", lines, flags, python.executable, python.version, python.abi, machine()
        )

    def record(self) -> dict[str, Any]:
        return {"kind": "python", "base": self.python.executable, "version": self.python.text}

    def try_yourself(self) -> str:
        words = ["pip", "download", "--only-binary", ":all:"]
        return shlex.join([*words, *(str(each) for each in self.needs.requirements)])

    def steps(self, folder: Path, downloads: Path) -> Sequence[Step]:
        files = (
            ("requirements.txt", self.needs.requirements),
            ("limits.txt", self.needs.constraints),
        )
        for name, lines in files:
            (folder / name).write_text("".join(f"{each.line}\n" for each in lines))
        making = self._by_uv(folder, downloads) if self.uv else self._by_pip(folder, downloads)
        return (*making, self._compile(folder)) if self.needs.requirements else making[:1]

    def _by_uv(self, folder: Path, downloads: Path) -> tuple[Step, ...]:
        settings = uv_settings()
        quiet = ("--no-progress", "--color", "never", "--no-python-downloads")
        variables = (("UV_CACHE_DIR", str(downloads / "uv")), ("UV_LINK_MODE", "copy"))
        shown = (Path(self.uv), *homes_of(self.python.executable))
        venv = (self.uv, "venv", *quiet, "--no-project", "--python", self.python.executable)
        install = (self.uv, "pip", "install", *quiet, "--python", self._inside(folder))
        return (
            Step(
                argv=(*venv, str(folder / VENV)),
                settings=settings,
                variables=variables,
                interpreters=shown,
            ),
            Step(
                argv=(*install, *self._words(folder, prereleases="--prerelease=allow")),
                settings=settings,
                variables=variables,
                interpreters=shown,
                network="host",
            ),
        )

    def _by_pip(self, folder: Path, downloads: Path) -> tuple[Step, ...]:
        base = homes_of(self.python.executable)
        venv = [self.python.executable, "-I", "-m", "venv", str(folder / VENV)]
        # The pip that is there already spares unpacking another into every environment.
        if _own_pip() >= _INSTALLS_ELSEWHERE:
            venv.append("--without-pip")
            pip = [sys.executable, "-I", "-m", "pip", "--python", self._inside(folder)]
        else:
            pip = [self._inside(folder), "-I", "-m", "pip"]
        quiet = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--no-color")
        install = (*pip, "install", *quiet, "--no-compile", "--no-user")
        return (
            Step(argv=tuple(venv), interpreters=base),
            Step(
                argv=(*install, *self._words(folder, prereleases="--pre")),
                settings=pip_settings(Path(sys.prefix)),
                variables=(("PIP_CACHE_DIR", str(downloads / "pip")),),
                interpreters=(*base, *homes_of(sys.executable)),
                network="host",
            ),
        )

    def _words(self, folder: Path, *, prereleases: str) -> tuple[str, ...]:
        words = ["--only-binary", ":all:", "-r", str(folder / "requirements.txt")]
        words += ["-c", str(folder / "limits.txt")] if self.needs.constraints else []
        words += [prereleases] if self.needs.prereleases else []
        words += ["--require-hashes"] if self.needs.hashes_required else []
        return tuple(words)

    def _compile(self, folder: Path) -> Step:
        # A script sees the environment read-only, so this is the time. Not by the environment's
        # own Python, which would run the .pth files of what was just installed.
        words = ("-I", "-S", "-m", "compileall", "-q", "-j", "2", str(folder / VENV / "lib"))
        return Step(
            argv=(self.python.executable, *words),
            interpreters=homes_of(self.python.executable),
            optional=True,
        )

    def _inside(self, folder: Path) -> str:
        return str(folder / VENV / "bin" / "python")


def _own_pip() -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in version("pip").split(".")[:2])
    except (PackageNotFoundError, ValueError):
        return (0,)
