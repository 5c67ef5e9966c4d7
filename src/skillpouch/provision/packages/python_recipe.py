"""How Python packages are installed: wheels, with uv if it is there, else with pip.

A package that was granted to be built is fetched and built before that, each in a step of its own:
what reaches the network runs no code of the package, and what runs its code reaches no network.
"""

import shlex
import stat
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from skillpouch.declarations.packages.needs import PythonNeeds
from skillpouch.declarations.packages.requirements import (
    NotARequirementError,
    Requirement,
    parse_requirement,
)
from skillpouch.provision.interpreters import homes_of
from skillpouch.provision.packages.configuration import pip_settings, uv_settings
from skillpouch.provision.packages.recipe import (
    Python,
    RecipeError,
    Step,
    machine,
    recipe_digest,
)
from skillpouch.runtime.removal import remove_tree
from skillpouch.untrusted_files import DECLARATION_BYTES, CannotReadError, read_inside

VENV = "python"  # the subfolder of an environment that is the virtual environment
_RUN_PIP = Path(__file__).with_name("run_pip.py")
_WHEELS = "wheels"  # those that were built here
_QUIET = ("--no-input", "--disable-pip-version-check", "--progress-bar", "off", "--no-color")
# What pip assumes of a source that does not say what builds it, PEP 517.
_DEFAULT_BACKEND = ("setuptools", "wheel")


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonRecipe:
    """Packages for one interpreter. `uv` is the path of uv, "" to use pip.

    `builds` are the packages that may be built from their source.
    """

    needs: PythonNeeds
    python: Python
    uv: str = ""
    builds: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return self.needs.names

    @property
    def digest(self) -> str:
        needs, python = self.needs, self.python
        lines = [[each.line for each in part] for part in (needs.requirements, needs.constraints)]
        flags = [needs.prereleases, needs.hashes_required]
        built = [self.builds] if self.builds else []
        facts = (python.executable, python.version, python.abi, machine())
        return recipe_digest("python", lines, flags, *facts, *built)

    def record(self) -> dict[str, Any]:
        return {"kind": "python", "base": self.python.executable, "version": self.python.text}

    def try_yourself(self) -> str:
        words = ["pip", "download", "--only-binary", ":all:"]
        return shlex.join([*words, *(str(each) for each in self.needs.requirements)])

    def steps(self, folder: Path, downloads: Path) -> Iterator[Step]:
        built: dict[str, str] = {}
        for name in self.builds if self.needs.requirements else ():
            yield from self._build(name, folder, downloads)
            built[name] = _keep_wheel(name, folder)
        files = (
            ("requirements.txt", self.needs.requirements),
            ("limits.txt", self.needs.constraints),
        )
        for name, lines in files:
            listed = (_with_hash(each, built).line for each in lines)
            (folder / name).write_text("".join(f"{line}\n" for line in listed))
        making = self._by_uv(folder, downloads) if self.uv else self._by_pip(folder, downloads)
        yield from (*making, self._compile(folder)) if self.needs.requirements else making[:1]

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
        words = ("install", *_QUIET, "--no-compile", "--no-user")
        venv = folder / VENV
        return (
            self._venv(venv),
            self._pip(venv, (*words, *self._words(folder, prereleases="--pre")), downloads),
        )

    def _venv(self, place: Path) -> Step:
        # With Skillpouch's own pip, none has to be unpacked into every environment.
        words = ["--without-pip"] if _own_pip() else []
        return Step(
            argv=(self.python.executable, "-I", "-m", "venv", str(place), *words),
            interpreters=homes_of(self.python.executable),
        )

    def _pip(self, venv: Path, words: tuple[str, ...], downloads: Path) -> Step:
        """Return a step in which pip reaches the network, and can start no other program."""
        own = _own_pip()
        start = (str(venv / "bin" / "python"), "-I", str(_RUN_PIP), str(own or ""))
        return Step(
            argv=(*start, *words),
            settings=pip_settings(Path(sys.prefix)),
            variables=(("PIP_CACHE_DIR", str(downloads / "pip")),),
            interpreters=self._shown(),
            network="host",
        )

    def _shown(self) -> tuple[Path, ...]:
        own = _own_pip()
        # The folder around pip, too: an import lists it, and Landlock alone would refuse that.
        return (*homes_of(self.python.executable), _RUN_PIP, *([own.parent] if own else []))

    def _build(self, name: str, folder: Path, downloads: Path) -> Iterator[Step]:
        """Fetch the source of a package, then what builds it, then build it without a network."""
        work = folder / "build"
        source, venv = work / "source", work / "python"
        for each in (work, work / "tmp", folder / _WHEELS):
            each.mkdir(exist_ok=True)
        asked = [each for each in self.needs.requirements if each.name == name]
        lines = asked or [Requirement(name=name)]
        (work / "wanted.txt").write_text("".join(f"{each.line}\n" for each in lines))
        yield self._venv(venv)
        fetching = (f"source:{source}", "wheel", *_QUIET, "--no-deps", "--no-binary", ":all:")
        pre = ("--pre",) if self.needs.prereleases else ()
        fetch = self._pip(venv, (*fetching, *pre, "-r", str(work / "wanted.txt")), downloads)
        yield replace(fetch, doing=f"fetching the source of {name}")
        if not source.is_dir():
            raise RecipeError(f"the source of {name} has neither pyproject.toml nor setup.py")
        lines = _build_requirements(name, source)
        (work / "backend.txt").write_text("".join(f"{each.line}\n" for each in lines))
        words = ("install", *_QUIET, "--no-user", "--only-binary", ":all:")
        backend = self._pip(venv, (*words, "-r", str(work / "backend.txt")), downloads)
        yield replace(backend, doing=f"installing what builds {name}")
        yield self._run_build(name, work)

    def _run_build(self, name: str, work: Path) -> Step:
        own = _own_pip()
        pip = (str(own / "__pip-runner__.py"),) if own else ("-m", "pip")
        words = ("wheel", *_QUIET, "--no-deps", "--no-index", "--no-build-isolation")
        target = ("--no-cache-dir", "-w", str(work / _WHEELS), str(work / "source"))
        return Step(
            argv=(str(work / "python" / "bin" / "python"), "-I", *pip, *words, *target),
            # No settings of the user: an address of an index may hold a password.
            variables=(("TMPDIR", str(work / "tmp")), ("PIP_CONFIG_FILE", "/dev/null")),
            interpreters=self._shown(),
            alone_in=work,
            doing=f"building {name}",
        )

    def _words(self, folder: Path, *, prereleases: str) -> tuple[str, ...]:
        words = ["--only-binary", ":all:", "-r", str(folder / "requirements.txt")]
        words += ["-c", str(folder / "limits.txt")] if self.needs.constraints else []
        words += [prereleases] if self.needs.prereleases else []
        words += ["--require-hashes"] if self.needs.hashes_required else []
        words += ["--find-links", str(folder / _WHEELS)] if self.builds else []
        return tuple(words)

    def _compile(self, folder: Path) -> Step:
        # Compiled now, because scripts see the environment read-only. Not by the environment's own
        # Python, which would run the .pth files of the installed packages. Without the times and
        # the folder of the sources, so that environments can share the result; an import puts the
        # real path of a module into its code.
        place = str(folder / VENV / "lib")
        compiling = ("-I", "-S", "-m", "compileall", "-q", "-j", "2", "-s", place)
        words = (*compiling, "--invalidation-mode", "unchecked-hash", place)
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


def _build_requirements(name: str, source: Path) -> list[Requirement]:
    """Return what builds a source, by its pyproject.toml: packages by name only."""
    try:
        file = read_inside(str(source / "pyproject.toml"), str(source), DECLARATION_BYTES)
        table = tomllib.loads(file.data.decode())
    except CannotReadError:
        table = {}
    except ValueError as error:
        raise RecipeError(f"the pyproject.toml of {name} cannot be read: {error}") from None
    system = table.get("build-system")
    listed = system.get("requires") if isinstance(system, dict) else None
    wanted = listed if isinstance(listed, list) else list(_DEFAULT_BACKEND)
    try:
        found = [parse_requirement(str(each)) for each in wanted]
    except NotARequirementError as error:
        raise RecipeError(f"what builds {name} is not installed: {error}") from None
    names = {each.name for each in found}
    # An older setuptools asks for it by code, which nothing here runs with a network.
    lacks_wheel = "setuptools" in names and "wheel" not in names
    return [*found, Requirement(name="wheel")] if lacks_wheel else found


def _keep_wheel(name: str, folder: Path) -> str:
    """Move the wheel that was built out of reach of later builds; return its hash."""
    work = folder / "build"
    # The code of the package made them: what it calls a wheel may be a link, or a pipe without end.
    found = work / _WHEELS
    wheels = [] if found.is_symlink() or not found.is_dir() else sorted(found.glob("*.whl"))
    fitting = [each for each in wheels if _name_of(each) == name and _is_file(each)]
    if len(fitting) != 1:
        raise RecipeError(f"building {name} left {len(fitting)} wheels of it")
    kept = fitting[0].rename(folder / _WHEELS / fitting[0].name)
    remove_tree(work)
    return sha256(kept.read_bytes()).hexdigest()


def _is_file(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode)


def _name_of(wheel: Path) -> str:
    try:
        return parse_requirement(wheel.name.partition("-")[0]).name
    except NotARequirementError:
        return ""


def _with_hash(requirement: Requirement, built: dict[str, str]) -> Requirement:
    """Return a requirement with the hash of what was built: its source had the declared one."""
    if not requirement.hashes or requirement.name not in built:
        return requirement
    return replace(requirement, hashes=(f"sha256:{built[requirement.name]}",))
