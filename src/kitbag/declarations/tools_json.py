"""tools.json: the seed's array, `{"tools": […]}`, or a file that merely has that name."""

import json
from typing import Any

from kitbag.declarations.declared import Declared, Report
from kitbag.declarations.entries import read_entries
from kitbag.declarations.strict_yaml import YamlPath
from kitbag.problems import Problem


def read_tools_json(path: str, raw: bytes) -> tuple[list[Declared], list[Problem]]:
    """Return the tools that the file declares, and what is wrong with the rest."""
    text = raw.decode("utf-8-sig", "replace")
    report = Report(path, lambda at: _line_of(text, at))
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        message = f"not valid JSON: {error.msg} (column {error.colno})"
        return [], [
            Problem(
                path=path, code="json-invalid", severity="error", message=message, line=error.lineno
            )
        ]
    except (ValueError, RecursionError) as error:
        report.add("json-invalid", "error", f"not valid JSON: {error!s:.120}")
        return [], report.problems
    entries = value.get("tools") if isinstance(value, dict) else value
    if not isinstance(entries, list):
        report.add("not-a-manifest", "info", "no array of tools in it: taken for another file")
        return [], report.problems
    at: YamlPath = ("tools",) if isinstance(value, dict) else ()
    if entries and not any(map(_looks_like_tool, entries)):
        report.add("not-a-manifest", "info", "nothing in it has a name and a description")
        return [], report.problems
    declared = read_entries(entries, "tools.json", report, at=at, needs=_needs)
    return declared, report.problems


def _needs(tool: Declared) -> str:
    return "" if tool.description else "has no description"


def _looks_like_tool(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    function = entry.get("function")
    inner = function if isinstance(function, dict) else entry
    return "name" in inner and ("description" in inner or "script" in entry)


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _line_of(text: str, at: YamlPath) -> int | None:
    """Find the line of an entry by decoding up to it: JSON keeps no positions."""
    numbers = [part for part in at if isinstance(part, int)]
    start = text.find("[")
    if start < 0:
        return 1 if text else None
    position, decoder = start + 1, json.JSONDecoder()
    for _ in range(numbers[0] if numbers else 0):
        try:
            _, position = decoder.raw_decode(text, _skip(text, position))
        except (ValueError, RecursionError):
            return None
    return text.count("\n", 0, _skip(text, position)) + 1


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n,":
        position += 1
    return position
