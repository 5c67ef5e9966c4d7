"""How Python packages are installed: wheels only, with uv if it is there, else with pip."""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from skillpouch.declarations.packages.needs import PythonNeeds
from skillpouch.provision.interpreters import homes_of
from skillpouch.provision.packages.configuration import pip_settings, uv_settings
from skillpouch.provision.packages.recipe import Python, Step, machine, recipe_digest

VENV = "python"  # the subfolder of an environment that is the virtual environment
_RUN_PIP = Path(__file__).with_name("run_pip.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonRecipe:
    """Packages for one interpreter. `uv` is the path of uv, "" to use pip."""

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
        return recipe_digest(
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

    def objection(self, folder: Path) -> str:
        # A package installed by address has this file, PEP 610. uv refuses such packages itself.
        for mark in folder.glob(f"{VENV}/lib/*/site-packages/*.dist-info/direct_url.json"):
            name = mark.parent.name.partition("-")[0]
            return f"{name} is asked for by address: only packages by name are installed"
        return ""

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
        pip = _own_pip()
        # With Skillpouch's own pip, none has to be unpacked into every environment.
        venv = [self.python.executable, "-I", "-m", "venv", str(folder / VENV)]
        venv += ["--without-pip"] if pip else []
        quiet = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--no-color")
        start = (self._inside(folder), "-I", str(_RUN_PIP), str(pip or ""))
        settings = pip_settings(Path(sys.prefix))
        return (
            Step(argv=tuple(venv), interpreters=base),
            Step(
                argv=(
                    *(*start, "install", *quiet, "--no-compile", "--no-user"),
                    *self._words(folder, prereleases="--pre"),
                ),
                settings=settings,
                variables=(("PIP_CACHE_DIR", str(downloads / "pip")),),
                # The folder around pip, too: an import lists it, and Landlock alone would refuse
                # that.
                interpreters=(*base, _RUN_PIP, *([pip.parent] if pip else [])),
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
        # Compiled now, because scripts see the environment read-only. Not by the environment's own
        # Python, which would run the .pth files of the installed packages.
        words = ("-I", "-S", "-m", "compileall", "-q", "-j", "2", str(folder / VENV / "lib"))
        return Step(
            argv=(self.python.executable, *words),
            interpreters=homes_of(self.python.executable),
            optional=True,
        )

    def _inside(self, folder: Path) -> str:
        return str(folder / VENV / "bin" / "python")


def _own_pip() -> Path | None:
    """Return the folder of the pip beside Skillpouch, if another Python can run that pip."""
    found = find_spec("pip")
    folder = Path(found.origin).parent if found and found.origin else None
    return folder if folder and (folder / "__pip-runner__.py").is_file() else None
