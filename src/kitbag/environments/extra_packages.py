"""Packages that somebody granted to a skill besides those that it declares."""

import json
from collections.abc import Iterable
from dataclasses import replace

from kitbag.environments.errors import RequirementRefusedError
from kitbag.environments.needs import Needs, NodeNeeds, PythonNeeds
from kitbag.environments.package_json import Manifest
from kitbag.environments.requirement import NotARequirementError, parse_requirement
from kitbag.tools import Script

_NPM = "npm:"
_GRANTED = "its grant"


def with_packages(needs: Needs | None, packages: Iterable[str], script: Script) -> Needs | None:
    """Return what a script needs with what its skill was granted for its language."""
    wanted = list(packages)
    if script.language == "python":
        names = [package for package in wanted if not package.startswith(_NPM)]
        return _python(needs, names) if names else needs
    if script.language in ("javascript", "typescript"):
        names = [package.removeprefix(_NPM) for package in wanted if package.startswith(_NPM)]
        return _node(names) if names and needs is None else needs
    return needs


def _python(needs: Needs | None, names: list[str]) -> Needs:
    try:
        granted = {parse_requirement(name) for name in names}
    except NotARequirementError as error:
        raise RequirementRefusedError(_GRANTED, str(error)) from None
    if not isinstance(needs, PythonNeeds):
        return PythonNeeds(declared_in=_GRANTED, requirements=tuple(sorted(granted)))
    return replace(needs, requirements=tuple(sorted({*needs.requirements, *granted})))


def _node(names: list[str]) -> NodeNeeds:
    wanted = dict(_split(name) for name in names)
    manifest = {"name": "kitbag-environment", "version": "0.0.0", "private": True}
    text = json.dumps(manifest | {"dependencies": wanted}, indent=1, sort_keys=True)
    packages = tuple(sorted(names))
    return NodeNeeds(declared_in=_GRANTED, manifest=Manifest(packages=packages, text=text))


def _split(name: str) -> tuple[str, str]:
    """Return the name and the version of `name@version`; the name may begin with an at sign."""
    head, at, version = name[1:].partition("@")
    return name[0] + head, version if at else "*"
