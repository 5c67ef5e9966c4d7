"""What the Skill Tools draft does not allow in a tools.json, though Skillpouch reads it."""

import json
import re
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NoReturn

from skillpouch.problems import Problem

_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TYPES = ("string", "number", "boolean", "object", "array")
_SHOWN = 64  # characters of a name that a message repeats

_Finding = tuple[str, str, int | None]  # code, message, line
_Fault = tuple[str, str]  # code, message


def tools_json_problems(path: str, raw: bytes) -> list[Problem]:
    """Give what a runtime that follows the draft to the letter refuses or misreads."""
    return [
        Problem(path=path, code=code, severity="warning", message=message, line=line)
        for code, message, line in _findings(raw)
    ]


def _findings(raw: bytes) -> Iterator[_Finding]:
    try:
        text = raw.decode("utf-8")
        manifest = _DECODER.decode(text)
    except UnicodeDecodeError as error:
        yield "strict-json", "not valid UTF-8", 1 + raw.count(b"\n", 0, error.start)
    except json.JSONDecodeError as error:
        yield "strict-json", f"not valid JSON: {error.msg}", error.lineno
    except (ValueError, RecursionError) as error:
        yield "strict-json", f"not valid JSON: {error}", None
    else:
        if isinstance(manifest, list):
            yield from _entry_findings(text)
        else:
            yield "strict-manifest", "must be an array of tools, even for a single tool", 1


def _entry_findings(text: str) -> Iterator[_Finding]:
    names: set[str] = set()
    for number, (line, tool) in enumerate(_entries(text), start=1):
        if not isinstance(tool, dict):
            yield "strict-manifest", f"entry {number} must be an object", line
            continue
        name = tool.get("name")
        label = f"tool {name[:_SHOWN]!r}" if isinstance(name, str) else f"entry {number}"
        for code, message in _tool_faults(tool, names):
            yield code, f"{label}: {message}", line


def _entries(text: str) -> Iterator[tuple[int, object]]:
    """Yield line and value of each entry of the array in `text`, which is known to be valid."""
    place = text.index("[") + 1
    line = 1 + text.count("\n", 0, place)
    while (start := _NEXT.search(text, place)) and start[0] != "]":
        line += text.count("\n", place, start.start())
        entry, end = _DECODER.raw_decode(text, start.start())
        yield line, entry
        line += text.count("\n", start.start(), end)
        place = end


def _tool_faults(tool: dict[str, object], names: set[str]) -> Iterator[_Fault]:
    name = tool.get("name")
    if not isinstance(name, str):
        yield "strict-tool-name", "'name' must be text"
    elif _NAME.fullmatch(name) is None:
        yield "strict-tool-name", "a name is lower-case letters, digits and '_', a letter first"
    elif name in names:
        yield "strict-tool-name", "the name appears twice"
    else:
        names.add(name)
    if not _is_filled(tool.get("description")):
        yield "strict-tool-description", "'description' must be text that is not empty"
    if "script" in tool and not _stays_inside(tool["script"]):
        yield "strict-tool-script", "'script' must be a relative path inside the skill"
    yield from (("strict-tool-parameters", fault) for fault in _schema_faults(tool))


def _schema_faults(tool: dict[str, object]) -> Iterator[str]:
    for key in ("input_schema", "inputSchema"):
        if key in tool and "parameters" not in tool:
            yield f"'{key}' is not read: other runtimes see no parameters"
    parameters = tool.get("parameters", {})
    if not isinstance(parameters, dict):
        yield "'parameters' must be an object"
    elif parameters.get("type") == "object" and isinstance(parameters.get("properties"), dict):
        yield "'parameters' must map each name to its definition, not be a JSON Schema"
    else:
        for name, definition in parameters.items():
            for fault in _parameter_faults(definition):
                yield f"parameter {name[:_SHOWN]!r} {fault}"


def _parameter_faults(definition: object) -> Iterator[str]:
    if not isinstance(definition, dict):
        yield "must be an object with 'type' and 'description'"
        return
    if definition.get("type") not in _TYPES:
        yield f"needs a 'type' out of {', '.join(_TYPES)}"
    if not _is_filled(definition.get("description")):
        yield "needs a 'description'"
    if not isinstance(definition.get("enum", []), list):
        yield "has an 'enum' that is not an array"
    if not isinstance(definition.get("optional", False), bool):
        yield "has an 'optional' that is not true or false"


def _is_filled(value: object) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _stays_inside(script: object) -> bool:
    if not isinstance(script, str) or not script:
        return False
    path = PurePosixPath(script)
    return not path.is_absolute() and ".." not in path.parts


def _ignore_digits(_: str) -> int:
    return 0  # no rule is about a number, and converting a million digits takes long


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


_DECODER = json.JSONDecoder(
    parse_int=_ignore_digits, parse_float=_ignore_digits, parse_constant=_refuse_constant
)
_NEXT = re.compile(r"[^\s,]")
