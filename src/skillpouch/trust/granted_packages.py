"""Which packages a tool declares as needs, and which of them were granted."""

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from skillpouch.declarations.packages.declared_files import DeclaredFiles, RequirementRefusedError
from skillpouch.declarations.packages.needs import Needs, NodeNeeds, PythonNeeds, read_needs
from skillpouch.declarations.packages.package_json import Manifest
from skillpouch.declarations.packages.requirements import (
    NotARequirementError,
    Requirement,
    parse_requirement,
)
from skillpouch.discovery.walk import is_skipped_folder
from skillpouch.needs import Need
from skillpouch.tools import InlineScript, Script, Tool
from skillpouch.trust.errors import UngrantedError
from skillpouch.trust.grant import covers_package, split_package

_NPM = "npm:"
_GRANTED = "its grant"
_MOST_FILES = 2_000
_DECLARING = ("requirements.txt", "pyproject.toml", "package.json")


def script_of(tool: Tool) -> tuple[Script, str | None] | None:
    """Return the script of a tool that may declare packages, and its text if it is not a file.

    Inline Python is treated as a file in the skill's folder, where its packages are declared.
    """
    match tool.runs:
        case Script() as script if tool.home:
            return script, None
        case InlineScript(interpreter=name, text=text) if tool.home and name.startswith("python"):
            digest = sha256(text.encode(errors="replace")).hexdigest()[:32]
            file = f"{tool.home}/inline-{digest}.py"
            return Script(file=file, language="python", convention="stdin"), text
        case _:
            return None


def declared_packages(tool: Tool, files: DeclaredFiles | None = None) -> tuple[Need, ...]:
    """Return the packages that the script of a tool declares, each as a need.

    An invalid declaration yields none: the call reports it, and installs nothing. Pass `files` to
    share them between the tools of a skill, or to see which paths were looked up.
    """
    found = script_of(tool)
    if found is None:
        return ()
    script, text = found
    files = files or DeclaredFiles(tool.home)
    if text is not None:
        files.texts[script.file] = text
    try:
        needs = read_needs(script, files)
    except RequirementRefusedError:
        return ()
    if needs is None:
        return ()
    is_text = text is not None and needs.declared_in == script.file
    inside = os.path.relpath(needs.declared_in, tool.home)
    return tuple(package_needs(needs, f"the text of {tool.id}" if is_text else inside))


def package_needs(needs: Needs | None, where: str = "") -> Iterator[Need]:
    """Yield one need for each package that a script declares, in the form of a grant."""
    if isinstance(needs, NodeNeeds):
        for package in needs.manifest.fetched:
            yield Need(kind="packages", value=f"{_NPM}{package}", asked_in=where)
    elif needs is not None:
        for package, spelt in _by_name(needs.requirements).items():
            several = f" ({', '.join(spelt)})" if len(spelt) > 1 else ""
            yield Need(kind="packages", value=package, asked_in=f"{where}{several}")


def _by_name(requirements: Iterable[Requirement]) -> dict[str, list[str]]:
    """Return packages in the form of a grant, each with its requirements.

    Markers are left out: a grant is the same on every machine. A package with several different
    requirements is granted without a version.
    """
    spelt: dict[str, list[str]] = {}
    for each in requirements:
        spelt.setdefault(each.name, []).append(str(replace(each, marker="", hashes=())))
    ways = {name: sorted(set(texts)) for name, texts in spelt.items()}
    return {texts[0] if len(texts) == 1 else name: texts for name, texts in ways.items()}


def of_one_tool(
    packages: Iterable[str], own: Iterable[Need], declared: Collection[str]
) -> tuple[str, ...]:
    """Return packages of a grant without those that only other scripts of the skill declare.

    `own` are the needs of this tool, `declared` the packages that any script of the skill declares.
    """
    values = {need.value for need in own if need.kind == "packages"}
    return tuple(each for each in packages if each in values or each not in declared)


def given_packages(
    needs: Needs | None, packages: Iterable[str], script: Script, skill: str
) -> Needs | None:
    """Return what to install for a script: the packages it declares, and others it was granted.

    Raises:
        UngrantedError: it declares a package that was not granted.
    """
    given = tuple(packages)
    asked = tuple(package_needs(needs))
    lacking = [
        need for need in asked if not any(covers_package(each, need.value) for each in given)
    ]
    if lacking:
        raise UngrantedError(skill, lacking)
    declared = {split_package(need.value)[0]: need.value for need in asked}
    others = [each for each in given if not _is_declared(each, declared)]
    return _with_others(needs, others, script)


def _is_declared(package: str, declared: Mapping[str, str]) -> bool:
    """Tell whether the script itself declares a granted package, in the same version."""
    name, version = split_package(package)
    return name in declared and (not version or split_package(declared[name])[1] == version)


def _with_others(needs: Needs | None, packages: list[str], script: Script) -> Needs | None:
    if script.language == "python":
        names = [package for package in packages if not package.startswith(_NPM)]
        return _python(needs, names) if names else needs
    if script.language in ("javascript", "typescript"):
        names = [package.removeprefix(_NPM) for package in packages if package.startswith(_NPM)]
        return _node(needs, names) if names else needs
    return needs


def _python(needs: Needs | None, names: list[str]) -> Needs:
    try:
        granted = {parse_requirement(name) for name in names}
    except NotARequirementError as error:
        raise RequirementRefusedError(_GRANTED, str(error)) from None
    if not isinstance(needs, PythonNeeds):
        return PythonNeeds(declared_in=_GRANTED, requirements=tuple(sorted(granted)))
    return replace(needs, requirements=tuple(sorted({*needs.requirements, *granted})))


def _node(needs: Needs | None, names: list[str]) -> Needs:
    wanted = dict(_split(name) for name in names)
    if not isinstance(needs, NodeNeeds):
        manifest = {"name": "skillpouch-environment", "version": "0.0.0", "private": True}
        text = json.dumps(manifest | {"dependencies": wanted}, indent=1, sort_keys=True)
        packages = tuple(sorted(names))
        return NodeNeeds(declared_in=_GRANTED, manifest=Manifest(packages=packages, text=text))
    declared = needs.manifest
    if declared.lock is not None:
        return needs  # npm installs exactly what a lock file has
    value = json.loads(declared.text)
    value["dependencies"] = wanted | value.get("dependencies", {})
    text = json.dumps(value, indent=1, sort_keys=True)
    packages = tuple(sorted({*declared.packages, *names}))
    return replace(needs, manifest=Manifest(packages=packages, text=text))


def _split(name: str) -> tuple[str, str]:
    """Return the name and the version of `name@version`; the name may begin with an at sign."""
    head, at, version = name[1:].partition("@")
    return name[0] + head, version if at else "*"


def declared_anywhere(home: str) -> frozenset[str]:
    """Return every package that any script of a skill declares, in the form of a grant."""
    found: set[str] = set()
    for file in _declaring_files(home):
        try:
            needs = read_needs(_declaring(file), DeclaredFiles(home))
        except RequirementRefusedError:
            continue
        found |= {need.value for need in package_needs(needs)}
    return frozenset(found)


def _declaring(file: str) -> Script:
    """Return a script to which a file's declaration applies: the file itself, or one beside it."""
    if file.endswith(".py"):
        return Script(file=file, language="python", convention="stdin")
    beside = str(Path(file).with_name("any"))
    if file.endswith((".txt", ".toml")):
        return Script(file=beside, language="python", convention="stdin")
    return Script(file=beside, language="javascript", convention="stdin")


def _declaring_files(home: str) -> Iterator[str]:
    count = 0
    for folder, folders, names in os.walk(home):
        folders[:] = sorted(name for name in folders if not is_skipped_folder(name))
        for name in sorted(names):
            if name.endswith(".py") or name in _DECLARING:
                count += 1
                if count > _MOST_FILES:
                    return
                yield f"{folder}/{name}"
