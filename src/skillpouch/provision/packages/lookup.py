"""Finds the environment of a script, or builds it; pins the versions of packages to be granted."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from skillpouch.declarations.packages.declared_files import (
    DeclaredFiles,
    InstallError,
    RequirementRefusedError,
)
from skillpouch.declarations.packages.needs import Needs, NodeNeeds, PythonNeeds, read_needs
from skillpouch.declarations.packages.requirements import satisfies
from skillpouch.discovery.index import is_settled
from skillpouch.environment import cache_directory
from skillpouch.errors import InterpreterMissingError, SkillpouchError
from skillpouch.limits import Sandbox
from skillpouch.needs import Need
from skillpouch.provision.interpreters import find_program
from skillpouch.provision.packages.building import (
    EnvironmentBuild,
    OnProgress,
    PythonDiffersError,
    build,
)
from skillpouch.provision.packages.node_recipe import NodeRecipe, find_npm
from skillpouch.provision.packages.python_recipe import PythonRecipe
from skillpouch.provision.packages.ready import Environment
from skillpouch.provision.packages.recipe import Recipe, find_python, own_python
from skillpouch.provision.packages.store import (
    READY,
    find_ready,
    in_use,
    open_store,
    touch,
    write_ready,
)
from skillpouch.runtime.memoize import BoundedCache
from skillpouch.signatures.shebang import Language
from skillpouch.skills import Skill
from skillpouch.tools import Script, Tool
from skillpouch.trust.call_needs import CallNeeds
from skillpouch.trust.errors import UngrantedError
from skillpouch.trust.grant import Grant, split_package, with_packages
from skillpouch.trust.granted_packages import (
    declared_anywhere,
    declared_packages,
    given_packages,
    of_one_tool,
    script_of,
)
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


def other_python(script: Script, home: str) -> str:
    """Return which Python a script of a skill declares that it needs, "" if it can have our own."""
    try:
        needs = read_needs(script, DeclaredFiles(home))
    except RequirementRefusedError:
        return ""
    wanted = needs.requires_python if isinstance(needs, PythonNeeds) else ""
    return "" if satisfies(own_python().version, wanted) else wanted


async def recipe_for(
    needs: Needs,
    skill: str,
    sandbox: Sandbox,
    workspace: Path | None,
    builds: tuple[str, ...] = (),
) -> Recipe:
    """Return the recipe by which the needs are installed on this machine.

    `builds` are the packages that may be built from their source.

    Raises:
        InstallError: nothing here can install them.
    """
    if isinstance(needs, NodeNeeds):
        return _node_recipe(needs, skill, workspace)
    uv = _trusted(find_uv(), workspace)
    python = await find_python(needs.requires_python, sandbox)
    if python is None or (python != own_python() and not uv):
        found = f"{python.text}, for which uv is needed" if python else "no other that fits"
        lacking = [] if python else ["such a Python"]
        lacking += [] if uv else ["uv"]
        raise InstallError(
            skill,
            needs.names,
            f"it needs Python {needs.requires_python}, Skillpouch runs on {own_python().text};"
            f" this machine has {found}",
            hint=f"install {' and '.join(lacking)}",
        )
    return PythonRecipe(needs=needs, python=python, uv=uv, builds=tuple(sorted(builds)))


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
_PRUNING_SECONDS = 0.01
_TOUCH_SECONDS = 60.0


@dataclass(slots=True)
class _Known:
    """The environment of a script, valid while every file that was `seen` is unchanged."""

    seen: tuple[tuple[str, Stamp | None], ...]
    environment: Environment | None
    cache: Path | None  # the cache directory at that time
    touched: float


_Key = tuple[str, str, Path | None, tuple[str, ...], tuple[str, ...]]
_MOST_KNOWN = 4_096
_known: BoundedCache[_Key, _Known] = BoundedCache(_MOST_KNOWN)


async def environment_for(  # noqa: PLR0913 - passed by keyword
    script: Script,
    home: str,
    *,
    packages: tuple[str, ...],
    builds: tuple[str, ...] = (),
    skill: str = "",
    text: str | None = None,
    on_progress: OnProgress | None = None,
    timeout_seconds: float = BUILD_SECONDS,
    sandbox: Sandbox = "on",
    workspace: Path | None = None,
) -> Environment | None:
    """Return the environment of a script of the skill at `home`, None when it needs none.

    `packages` are those that were approved: nothing else is installed, whatever is declared. Those
    in `builds` are built from their source, by their own code, if they have no wheel. `skill` is
    what messages call the skill, by default its folder. `text` is the source of an inline script;
    its path is only an identifier, not a file.

    A finished environment costs a few stat calls. Otherwise it is built, once for all callers;
    `on_progress` gets lines for people. No installer inside `workspace` is used.

    Raises:
        UngrantedError: the skill declares packages that nobody granted.
        RequirementRefusedError: Skillpouch does not install packages declared in this way.
        InstallError: it could not be installed, or not in time.
        SandboxUnavailableError: this machine cannot confine the installer.
    """
    key = (script.file, home, workspace, packages, builds)
    known = _known.get(key)
    if known is not None and _holds(known):
        _note_use(known)
        return known.environment
    files = DeclaredFiles(home, None if text is None else {script.file: text})
    skill = skill or Path(home).name
    needs = given_packages(read_needs(script, files), packages, script, skill)
    found: Environment | None = None
    if needs is not None and not is_met(needs):
        job = EnvironmentBuild(
            recipe=await recipe_for(needs, skill, sandbox, workspace, builds),
            skill=skill,
            store=open_store(),
            say=on_progress or (lambda _line: None),
            timeout_seconds=timeout_seconds,
            sandbox=sandbox,
        )
        place = job.store / job.recipe.digest
        found = find_ready(place) or await _built(job, needs, workspace, builds)
        for used in {place, found.folder.parent}:
            touch(used)
        ready = str(found.folder.parent / READY)
        files.seen[ready] = look(ready)
    _remember(key, files, found)
    return found


async def _built(
    job: EnvironmentBuild, needs: Needs, workspace: Path | None, builds: tuple[str, ...]
) -> Environment:
    """Build an environment; for another Python of this machine if its packages need that."""
    try:
        return await build(job)
    except PythonDiffersError as error:
        other = await _other_recipe(error, needs, job, workspace, builds)
        if other is None:
            raise
    place, found = job.store / other.digest, find_ready(job.store / other.digest)
    if found is None:
        found = await build(replace(job, recipe=other))
    _record_same(job.store / job.recipe.digest, place.name, job.recipe)
    return found


async def _other_recipe(
    error: PythonDiffersError,
    needs: Needs,
    job: EnvironmentBuild,
    workspace: Path | None,
    builds: tuple[str, ...],
) -> Recipe | None:
    if not isinstance(needs, PythonNeeds):
        return None
    for each in error.specifiers:
        wanted = ",".join(filter(None, (needs.requires_python, each)))
        with suppress(InstallError):
            other = replace(needs, requires_python=wanted)
            return await recipe_for(other, job.skill, job.sandbox, workspace, builds)
    return None


def _record_same(place: Path, original: str, recipe: Recipe) -> None:
    """Record that a recipe is served by the environment of another one."""
    place.mkdir(mode=0o700, exist_ok=True)
    if find_ready(place) is None:
        names = list(recipe.names)
        write_ready(place, {"same_as": original, "requirements": names, **recipe.record()})


@asynccontextmanager
async def environment_in_use(
    script: Script, home: str, *, packages: tuple[str, ...], **options: Any
) -> AsyncIterator[Environment | None]:
    """Find or build the environment of a script, and keep it from being pruned inside the block.

    The options are those of `environment_for`.
    """
    while True:
        found = await environment_for(script, home, packages=packages, **options)
        if found is None:
            yield None
            return
        descriptor = in_use(found.folder.parent)
        if descriptor is not None:
            break
        await asyncio.sleep(_PRUNING_SECONDS)  # it is being removed: then it is built again
    try:
        yield found
    finally:
        os.close(descriptor)


@asynccontextmanager
async def environments_in_use(
    home: str, *, packages: tuple[str, ...], script: Script | None = None, **options: Any
) -> AsyncIterator[tuple[Environment, ...]]:
    """Do that for all packages of a skill: those of Python are one environment, npm's another.

    For commands and shell scripts, which start programs of both. The Python is that of `script`, if
    there is one.
    """
    async with AsyncExitStack() as in_use:
        own = None
        if script is not None:
            found = environment_in_use(script, home, packages=packages, **options)
            with suppress(UngrantedError, RequirementRefusedError):
                own = await in_use.enter_async_context(found)
        others = [
            await _of_language(language, home, in_use, packages=packages, **options)
            for language in ("python", "javascript")
            if any(each.startswith("npm:") != (language == "python") for each in packages)
            if own is None or language != "python"
        ]
        yield tuple(each for each in (own, *others) if each is not None)


@asynccontextmanager
async def environments_of_both(
    script: Script, home: str, *, packages: tuple[str, ...], **options: Any
) -> AsyncIterator[tuple[Environment, ...]]:
    """Do that for a script in Python that starts Node: its own packages, and those of npm."""
    async with AsyncExitStack() as in_use:
        own = environment_in_use(script, home, packages=packages, **options)
        found = [
            await in_use.enter_async_context(own),
            await _of_language("javascript", home, in_use, packages=packages, **options),
        ]
        yield tuple(each for each in found if each is not None)


async def _of_language(
    language: Language, home: str, in_use: AsyncExitStack, **options: Any
) -> Environment | None:
    # As for a script in the folder of the skill, which has what is declared there; if that was not
    # all granted, as for one elsewhere, which has what was.
    for file in (f"{home}/command", f"{home}.command"):
        script = Script(file=file, language=language, convention="stdin")
        with suppress(UngrantedError, RequirementRefusedError):
            found = environment_in_use(script, home, text="", **options)
            return await in_use.enter_async_context(found)
    return None


async def same_environment(
    environment: Environment,
    script: Script,
    home: str,
    *,
    packages: tuple[str, ...],
    builds: tuple[str, ...] = (),
) -> None:
    """Record that an existing environment also serves a script with these packages.

    `packages` pin the versions that it was built with, so building again would give the same.
    """
    recipe = await _recipe_of(script, DeclaredFiles(home), packages, builds)
    if recipe is None:
        return
    place, original = open_store() / recipe.digest, environment.folder.parent
    if place != original:
        _record_same(place, original.name, recipe)


async def _recipe_of(
    script: Script, files: DeclaredFiles, packages: tuple[str, ...], builds: tuple[str, ...]
) -> Recipe | None:
    skill = files.home.name
    needs = given_packages(read_needs(script, files), packages, script, skill)
    if needs is None or is_met(needs):
        return None
    return await recipe_for(needs, skill, "on", None, builds)


async def granted_environments(tools: Iterable[Tool], grant: Grant) -> set[str]:
    """Return the names of the environments that the tools of a skill use by a valid grant."""
    needs, found = CallNeeds(), set[str]()
    for tool in tools:
        script = script_of(tool)
        if script is None:
            continue
        given = [n for n in needs.granted(tool, grant.digest, grant) if n.kind == "packages"]
        texts = {} if script[1] is None else {script[0].file: script[1]}
        files, packages = DeclaredFiles(tool.home, texts), tuple(need.value for need in given)
        with suppress(SkillpouchError):  # what cannot be installed is not used
            recipe = await _recipe_of(script[0], files, packages, grant.builds)
            found |= {recipe.digest} if recipe else set()
    return found


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


async def pinned_packages(
    skill: Skill,
    tools: Iterable[Tool],
    needs: Iterable[Need],
    on_progress: OnProgress,
    *,
    granted: tuple[str, ...] = (),
    builds: tuple[str, ...] = (),
) -> tuple[Need, ...]:
    """Install the packages that no file declares, and return the needs with those versions.

    This happens before the grant, so that a package that cannot be installed is not granted either.
    Declared packages keep their declared versions. `granted` are the packages that the skill has,
    `builds` those that it may have built; more of them are among the needs.
    """
    needs = tuple(needs)
    tool = next((tool for tool in tools if _is_python(tool)), None)
    declared = declared_anywhere(str(skill.home))
    loose = [n.value for n in needs if n.kind == "packages" and _is_loose(n.value, declared)]
    if tool is None or not loose:
        return needs
    wanted = with_packages(granted, [need.value for need in needs if need.kind == "packages"])
    given = of_one_tool(wanted, declared_packages(tool), declared)
    try:
        pins = await _installed(tool, given, loose, on_progress, _builds(builds, needs))
    except UngrantedError:
        return needs  # its declared packages are not granted yet, so nothing can be installed
    return tuple(_pinned(need, pins) for need in needs)


async def _installed(
    tool: Tool,
    packages: tuple[str, ...],
    loose: list[str],
    on_progress: OnProgress,
    builds: tuple[str, ...],
) -> dict[str, str]:
    script, home = tool.runs, tool.home
    assert isinstance(script, Script)
    found = await environment_for(
        script,
        home,
        packages=packages,
        on_progress=on_progress,
        builds=builds,
        skill=tool.skill,
    )
    if found is None:
        return {}
    pins = _pins(found, loose)
    pinned = tuple(sorted(pins.get(each, each) for each in packages))
    # The pinned packages have another digest, but can use the same environment on the disk.
    await same_environment(found, script, home, packages=pinned, builds=builds)
    return pins


def _builds(granted: tuple[str, ...], needs: Iterable[Need]) -> tuple[str, ...]:
    named = [split_package(need.value)[0] for need in needs if need.kind == "build"]
    return tuple(sorted({*granted, *named}))


def _pinned(need: Need, pins: dict[str, str]) -> Need:
    if need.kind != "packages" or need.value not in pins:
        return need
    return Need(kind="packages", value=pins[need.value], asked_in=need.asked_in)


def _is_python(tool: Tool) -> bool:
    return isinstance(tool.runs, Script) and tool.runs.language == "python"


def _is_loose(package: str, declared: frozenset[str]) -> bool:
    name, version = split_package(package)
    is_npm = name.startswith("npm:")
    return not is_npm and not version.startswith("==") and package not in declared


def _pins(environment: Environment, packages: list[str]) -> dict[str, str]:
    """Return the installed versions of packages, read from their metadata without running code."""
    # Imported here: it takes longer than all else that a call imports.
    from importlib.metadata import distributions

    folders = [str(path) for path in environment.folder.glob("python/lib/python*/site-packages")]
    installed = {
        split_package(each.metadata["Name"])[0]: each.version
        for each in distributions(path=folders)
    }
    names = {package: split_package(package)[0] for package in packages}
    return {
        package: f"{name}=={installed[name]}"
        for package, name in names.items()
        if name in installed
    }
