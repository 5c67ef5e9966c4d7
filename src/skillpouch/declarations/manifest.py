"""scripts/manifest.yml: names, descriptions and parameters for the scripts beside it."""

from dataclasses import replace
from typing import Any

from skillpouch.declarations.declared import Declared, Report
from skillpouch.declarations.entries import read_entries
from skillpouch.declarations.strict_yaml import (
    YamlError,
    YamlPath,
    drop_control_characters,
    lines_of,
    load,
)
from skillpouch.problems import Problem

MANIFEST_FILES = ("manifest.yml", "manifest.yaml")


def read_manifest(path: str, raw: bytes) -> tuple[list[Declared], list[Problem]]:
    """Return what the manifest says of each script, paths made relative to the skill."""
    text = drop_control_characters(raw.decode("utf-8-sig", "replace"))
    report = Report(path, lambda: lines_of(text))
    try:
        document = load(text)
    except YamlError as error:
        return [], [_unreadable(path, error)]
    for key, line in document.repeated:
        message = f"{key!r} is given twice: the first counts"
        report.problems.append(
            Problem(path=path, code="duplicate-key", severity="warning", message=message, line=line)
        )
    entries = _entries(document.value)
    if entries is None:
        report.add("manifest-empty", "warning", "no list of tools under `tools`")
        return [], report.problems
    declared = read_entries(entries, "manifest", report, needs=_needs)
    return [replace(tool, script=_inside(tool.script)) for tool in declared], report.problems


def _entries(value: Any) -> list[tuple[YamlPath, Any]] | None:
    """Return each entry with its place; a list, or a mapping of names, under `tools`."""
    at: YamlPath = ()
    if isinstance(value, dict):
        key = "tools" if "tools" in value else "scripts"
        value, at = value.get(key), (key,)
    if isinstance(value, dict):
        named = {name: {"name": name, **_mapping(entry)} for name, entry in value.items()}
        return [((*at, name), entry) for name, entry in named.items()]
    if isinstance(value, list):
        return [((*at, number), entry) for number, entry in enumerate(value)]
    return None


def _needs(tool: Declared) -> str:
    return "" if tool.script else "names no script"


def _inside(script: str) -> str:
    return f"scripts/{script.removeprefix('./').removeprefix('scripts/')}"


def _unreadable(path: str, error: YamlError) -> Problem:
    return Problem(
        path=path, code="yaml-invalid", severity="error", message=error.message, line=error.line
    )


def _mapping(entry: Any) -> dict[str, Any]:
    return entry if isinstance(entry, dict) else {"script": entry}
