"""Finds the environment of a script, or builds it with the recipe that fits."""

import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from skillpouch.declarations.packages.declared_files import DeclaredFiles, InstallError
from skillpouch.declarations.packages.needs import Needs, NodeNeeds, read_needs
from skillpouch.declarations.packages.requirements import satisfies
from skillpouch.discovery.index import is_settled
from skillpouch.environment import cache_directory
from skillpouch.errors import InterpreterMissingError
from skillpouch.limits import Sandbox
from skillpouch.provision.interpreters import find_program
from skillpouch.provision.packages.building import EnvironmentBuild, OnProgress, build
from skillpouch.provision.packages.node_recipe import NodeRecipe, find_npm
from skillpouch.provision.packages.python_recipe import PythonRecipe
from skillpouch.provision.packages.ready import Environment
from skillpouch.provision.packages.recipe import Recipe, find_python, own_python
from skillpouch.provision.packages.store import READY, find_ready, open_store, touch, write_ready
from skillpouch.runtime.memoize import BoundedCache
from skillpouch.tools import Script
from skillpouch.trust.granted_packages import given_packages
from skillpouch.untrusted_files import Stamp, look

# Where pip puts the programs of packages in Skillpouch's own environment.
_PROGRAMS = Path(sys.executable).parent


def find_uv() -> str:
    """Return the path of uv: on the search path, or beside the running Python; "" without one."""
    beside = _PROGRAMS / "uv"
    return find_program("uv") or (str(beside.resolve()) if os.access(beside, os.X_OK) else "")


def is_met(needs: Needs) -> bool:
    """Tell whether a script needs nothing but the Python that Skillpouch runs on.

    Packages of Skillpouch's own environment do not count: a result must not depend on what else is
    installed there, nor change when that is upgraded.
    """
    if isinstance(needs, NodeNeeds) or needs.requirements:
        return False
    return satisfies(own_python().version, needs.requires_python)


async def recipe_for(needs: Needs, skill: str, sandbox: Sandbox, workspace: Path | None) -> Recipe:
    """Return the recipe by which the needs are installed on this machine.

    Raises:
        InstallError: nothing here can install them.
    """
    if isinstance(needs, NodeNeeds):
        return _node_recipe(needs, skill, workspace)
    uv = _trusted(find_uv(), workspace)
    python = await find_python(needs.requires_python, sandbox)
    if python is None or (python != own_python() and not uv):
        found = f"Python {python.text} does, and uv is needed to use it" if python else "none does"
        raise InstallError(
            skill,
            needs.names,
            f"it needs Python {needs.requires_python}, Skillpouch runs on {own_python().text};"
            f" {found}",
            hint="install uv" if python else "install such a Python, and uv",
        )
    return PythonRecipe(needs=needs, python=python, uv=uv)


def _node_recipe(needs: NodeNeeds, skill: str, workspace: Path | None) -> NodeRecipe:
    node = _trusted(find_program("node"), workspace)
    npm = _trusted(find_npm(), workspace)
    if not node:
        raise InterpreterMissingError(["node"], "nodejs")
    if not npm:
        hint = "install it: apt install npm; or ship node_modules in the skill"
        raise InstallError(skill, needs.names, "npm is not installed", hint=hint)
    return NodeRecipe(needs=needs, node=node, npm=npm)


def _trusted(program: str, workspace: Path | None) -> str:
    """Return the program, "" when it is in the workspace, where a tool could have put it."""
    return "" if workspace and Path(program).is_relative_to(workspace) else program


BUILD_SECONDS = 600.0
_TOUCH_SECONDS = 60.0


@dataclass(slots=True)
class _Known:
    """The environment of a script, valid while every file that was `seen` is unchanged."""

    seen: tuple[tuple[str, Stamp | None], ...]
    environment: Environment | None
    cache: Path | None  # the cache directory at that time
    touched: float


_Key = tuple[str, str, Path | None, tuple[str, ...]]
_MOST_KNOWN = 4_096
_known: BoundedCache[_Key, _Known] = BoundedCache(_MOST_KNOWN)


async def environment_for(  # noqa: PLR0913 - passed by keyword
    script: Script,
    home: str,
    *,
    packages: tuple[str, ...],
    text: str | None = None,
    on_progress: OnProgress | None = None,
    timeout_seconds: float = BUILD_SECONDS,
    sandbox: Sandbox = "on",
    workspace: Path | None = None,
) -> Environment | None:
    """Return the environment of a script of the skill at `home`, None when it needs none.

    `packages` are those that were approved: nothing else is installed, whatever is declared. `text`
    is the source of an inline script; its path is only an identifier, not a file.

    A finished environment costs a few stat calls. Otherwise it is built, once for all callers;
    `on_progress` gets lines for people. No installer inside `workspace` is used.

    Raises:
        UngrantedError: the skill declares packages that nobody granted.
        RequirementRefusedError: Skillpouch does not install packages declared in this way.
        InstallError: it could not be installed, or not in time.
        SandboxUnavailableError: this machine cannot confine the installer.
    """
    key = (script.file, home, workspace, packages)
    known = _known.get(key)
    if known is not None and _holds(known):
        _note_use(known)
        return known.environment
    files = DeclaredFiles(home, None if text is None else {script.file: text})
    skill = Path(home).name
    needs = given_packages(read_needs(script, files), packages, script, skill)
    found: Environment | None = None
    if needs is not None and not is_met(needs):
        job = EnvironmentBuild(
            recipe=await recipe_for(needs, skill, sandbox, workspace),
            skill=skill,
            store=open_store(),
            say=on_progress or (lambda _line: None),
            timeout_seconds=timeout_seconds,
            sandbox=sandbox,
        )
        place = job.store / job.recipe.digest
        found = find_ready(place) or await build(job)
        touch(place)
        ready = str(found.folder.parent / READY)
        files.seen[ready] = look(ready)
    _remember(key, files, found)
    return found


async def same_environment(
    environment: Environment, script: Script, home: str, *, packages: tuple[str, ...]
) -> None:
    """Record that an existing environment also serves a script with these packages.

    `packages` pin the versions that it was built with, so building again would give the same.
    """
    skill = Path(home).name
    needs = given_packages(read_needs(script, DeclaredFiles(home)), packages, script, skill)
    if needs is None or is_met(needs):
        return
    recipe = await recipe_for(needs, skill, "on", None)
    place, original = open_store() / recipe.digest, environment.folder.parent
    place.mkdir(mode=0o700, exist_ok=True)
    if place != original and find_ready(place) is None:
        names = list(recipe.names)
        write_ready(place, {"same_as": original.name, "requirements": names, **recipe.record()})


def _holds(known: _Known) -> bool:
    if known.environment is not None and known.cache != cache_directory():
        return False
    return all(look(path) == stamp for path, stamp in known.seen)


def _remember(key: _Key, files: DeclaredFiles, found: Environment | None) -> None:
    known = _Known(tuple(files.seen.items()), found, cache_directory(), 0.0)
    _note_use(known)
    # A file that changed a moment ago may change again and keep the same stamp.
    if all(stamp is None or is_settled(stamp) for _, stamp in known.seen):
        _known[key] = known


def _note_use(known: _Known) -> None:
    now = time.monotonic()
    if known.environment is not None and now - known.touched > _TOUCH_SECONDS:
        known.touched = now
        touch(known.environment.folder.parent)
