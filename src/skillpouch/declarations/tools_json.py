"""Reads tools.json: an array, `{"tools": […]}`, or an unrelated file of that name."""

import json
from contextlib import suppress
from itertools import count
from typing import Any

from skillpouch.declarations.declared import Declared, Report
from skillpouch.declarations.strict_yaml import YamlPath
from skillpouch.declarations.tool_entries import is_valid_name, read_entries
from skillpouch.problems import Problem

_SAYS_MORE = ("description", "script", "parameters", "input_schema", "inputSchema")
_DECODER = json.JSONDecoder()


def read_tools_json(path: str, raw: bytes) -> tuple[list[Declared], list[Problem]]:
    """Return the tools that the file declares, and what is wrong with the rest."""
    text = raw.decode("utf-8-sig", "replace")
    report = Report(path, lambda: _lines_of(text))
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
        message = f"not valid JSON: {error!s:.120}"
        return [], [
            Problem(path=path, code="json-invalid", severity="error", message=message, line=1)
        ]
    if "\\u" in text:
        value = _whole_characters(value)
    entries = value.get("tools") if isinstance(value, dict) else value
    if not isinstance(entries, list):
        report.add("not-a-manifest", "info", "it holds no array of tools: ignored")
        return [], report.problems
    if entries and not any(map(_looks_like_tool, entries)):
        report.add("not-a-manifest", "info", "nothing in it has a name and a description")
        return [], report.problems
    placed = [((number,), entry) for number, entry in enumerate(entries)]
    declared = read_entries(placed, "tools.json", report, needs=_needs)
    return declared, report.problems


def _whole_characters(value: Any) -> Any:
    """Replace lone surrogates, which JSON can write and UTF-8 cannot encode."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_whole_characters(key): _whole_characters(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole_characters(each) for each in value]
    return value


def _needs(tool: Declared) -> str:
    return "" if tool.description else "has no description"


def _looks_like_tool(entry: Any) -> bool:
    if not isinstance(entry, dict):
        return False
    function = entry.get("function")
    inner = function if isinstance(function, dict) else entry
    says_more = any(inner.get(key) or entry.get(key) for key in _SAYS_MORE)
    return is_valid_name(inner.get("name")) and says_more


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


def _lines_of(text: str) -> dict[YamlPath, int]:
    """Return the line of each entry, found by decoding one after the other."""
    lines: dict[YamlPath, int] = {(): 1}
    counted, line = 0, 1
    with suppress(ValueError, RecursionError):  # ValueError: the end of the array
        position = _array_start(text)
        for number in count():
            start = _skip(text, position)
            line += text.count("\n", counted, start)
            counted = start
            _, position = _DECODER.raw_decode(text, start)
            lines[(number,)] = line
    return lines


def _array_start(text: str) -> int:
    """Return the position of the first entry: after the bracket of the array of tools."""
    position = _skip(text, 0)
    if not text.startswith("{", position):
        return position + 1
    key: object = None
    position += 1
    while key != "tools":
        key, position = _DECODER.raw_decode(text, _skip(text, position))
        position = _skip(text, position)
        if key != "tools":
            _, position = _DECODER.raw_decode(text, position)
    return position + 1


def _skip(text: str, position: int) -> int:
    while position < len(text) and text[position] in " \t\r\n,:":
        position += 1
    return position
