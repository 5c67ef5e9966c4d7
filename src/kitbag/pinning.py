"""Pins the packages that were granted to a skill: installed once, then those versions for good."""

from collections.abc import Iterable
from importlib.metadata import distributions

from kitbag.calls import OnProgress
from kitbag.environments.lookup import environment_for
from kitbag.environments.ready import Environment
from kitbag.needs import Need
from kitbag.skills import Skill
from kitbag.tools import Script, Tool
from kitbag.trust.grant import Grant
from kitbag.trust.grants import Grants
from kitbag.trust.packages import split_package


async def pin_packages(
    skill: Skill, tools: Iterable[Tool], grants: Grants, on_progress: OnProgress
) -> Grant | None:
    """Install what was granted, and grant the versions that came; return the grant as it is now."""
    script = next((tool.runs for tool in tools if _is_python(tool)), None)
    grant = grants.for_skill(skill)
    if grant is None or not isinstance(script, Script):
        return grant
    loose = [package for package in grant.packages if _is_loose(package)]
    if not loose:
        return grant
    home = str(skill.home)
    found = await environment_for(script, home, packages=grant.packages, on_progress=on_progress)
    pins = _pins(found, loose) if found else []
    if pins:
        grant = grants.grant(skill, pins, by=grant.by)
        # With pins it is another environment: made now, so that the first call finds it.
        await environment_for(script, home, packages=grant.packages, on_progress=on_progress)
    return grant


def _is_python(tool: Tool) -> bool:
    return isinstance(tool.runs, Script) and tool.runs.language == "python"


def _is_loose(package: str) -> bool:
    name, version = split_package(package)
    return not name.startswith("npm:") and not version.startswith("==")


def _pins(environment: Environment, packages: list[str]) -> list[Need]:
    """Return the installed versions of some packages, read from their files and not by running."""
    folders = [str(path) for path in environment.folder.glob("python/lib/python*/site-packages")]
    installed = {
        split_package(each.metadata["Name"])[0]: each.version
        for each in distributions(path=folders)
    }
    names = [split_package(package)[0] for package in packages]
    return [
        Need(kind="packages", value=f"{name}=={installed[name]}")
        for name in names
        if name in installed
    ]
