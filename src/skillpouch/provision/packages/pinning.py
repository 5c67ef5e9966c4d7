"""Installs packages that are about to be granted, and reports their versions."""

from collections.abc import Iterable
from importlib.metadata import distributions

from skillpouch.calls import OnProgress
from skillpouch.needs import Need
from skillpouch.provision.packages.lookup import environment_for, same_environment
from skillpouch.provision.packages.ready import Environment
from skillpouch.skills import Skill
from skillpouch.tools import Script, Tool
from skillpouch.trust.errors import UngrantedError
from skillpouch.trust.grant import split_package, with_packages
from skillpouch.trust.granted_packages import (
    declared_anywhere,
    declared_packages,
    of_one_tool,
)


async def pinned_packages(
    skill: Skill,
    tools: Iterable[Tool],
    needs: Iterable[Need],
    on_progress: OnProgress,
    *,
    granted: tuple[str, ...] = (),
) -> tuple[Need, ...]:
    """Install the packages that no file declares, and return the needs with those versions.

    This happens before the grant, so that a package that cannot be installed is not granted either.
    Declared packages keep their declared versions. `granted` are the packages that the skill has.
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
        pins = await _installed(tool, given, loose, on_progress)
    except UngrantedError:
        return needs  # its declared packages are not granted yet, so nothing can be installed
    return tuple(_pinned(need, pins) for need in needs)


async def _installed(
    tool: Tool, packages: tuple[str, ...], loose: list[str], on_progress: OnProgress
) -> dict[str, str]:
    script, home = tool.runs, tool.home
    assert isinstance(script, Script)
    found = await environment_for(script, home, packages=packages, on_progress=on_progress)
    if found is None:
        return {}
    pins = _pins(found, loose)
    pinned = tuple(sorted(pins.get(each, each) for each in packages))
    # The pinned packages have another digest, but can use the same environment on the disk.
    await same_environment(found, script, home, packages=pinned)
    return pins


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
