"""Finds what other Agent Skills runtimes would reject, although Skillpouch loads it."""

import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import NoReturn, TypeAlias

import yaml
from yaml import events

from skillpouch.errors import PortableError
from skillpouch.problems import Problem

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FENCE = "---"
# The reference reader recurses, and fails near Python's recursion limit; real frontmatter is never
# nested this deep.
_MAX_DEPTH = 64


# Every scalar is text, as the reference reads it. A mapping keeps the line of each key.
Value: TypeAlias = "str | list[Value] | Fields"
Fields: TypeAlias = "dict[str, tuple[int, Value]]"


class FrontmatterRefusedError(PortableError):
    """The reference reader would stop here."""

    def __init__(self, code: str, message: str, line: int) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.line = line


def cut(text: str) -> str:
    """Return the text between the fences; its first line is the first line of `text`."""
    if text.startswith("\ufeff"):
        raise FrontmatterRefusedError(
            "strict-bom", "starts with a byte order mark, so other runtimes see no frontmatter", 1
        )
    if not text.startswith(_FENCE):
        raise FrontmatterRefusedError("strict-frontmatter", "the first line must be '---'", 1)
    # The reference reader ends the frontmatter at the next three hyphens, even inside a line.
    end = text.find(_FENCE, len(_FENCE))
    if end < 0:
        raise FrontmatterRefusedError(
            "strict-frontmatter", "the frontmatter is never closed with '---'", 1
        )
    return text[len(_FENCE) : end]


def misplaced_fences(text: str, block: str) -> list[int]:
    """Return the lines where a fence is followed or preceded by text: some runtimes ignore it."""
    end = len(_FENCE) + len(block)
    after = text[end + len(_FENCE) :].partition("\n")[0]
    before, newline, _ = block.partition("\n")
    lines = [1] if before.strip() and newline else []
    if after.strip() or not block.endswith("\n"):
        lines.append(1 + block.count("\n"))
    return lines


def read_fields(block: str) -> Fields:
    """Read the mapping in `block`, refusing what strict YAML refuses."""
    try:
        return _read_document(yaml.parse(block, Loader=_Loader))
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = mark.line + 1 if mark else 1
        raise _refused(f"not valid YAML: {error.problem}", line) from error
    except yaml.reader.ReaderError as error:
        line = 1 + block.count("\n", 0, error.position or 0)
        raise _refused("not valid YAML: a control character", line) from error


def _read_document(stream: Iterator[events.Event]) -> Fields:
    next(stream)  # the start of the stream
    if isinstance(next(stream), events.StreamEndEvent):
        raise _refused("the frontmatter is empty", 1)
    first = next(stream)
    root = _read_value(stream, first, 0)
    next(stream)  # the end of the document
    if not isinstance(after := next(stream), events.StreamEndEvent):
        raise _refused("more than one YAML document", _line(after))
    if not isinstance(root, dict):
        raise _refused("the frontmatter must be a mapping of fields", _line(first))
    return root


def _read_value(stream: Iterator[events.Event], event: events.Event, depth: int) -> Value:
    _refuse(event, depth)
    if isinstance(event, events.MappingStartEvent):
        return _read_mapping(stream, depth + 1)
    if isinstance(event, events.SequenceStartEvent):
        return _read_list(stream, depth + 1)
    assert isinstance(event, events.ScalarEvent)
    if not event.style and ("\t" in event.value or event.value == "<<"):
        raise _refused("an unquoted tab or '<<' is not allowed", _line(event))
    return str(event.value)


def _read_list(stream: Iterator[events.Event], depth: int) -> list[Value]:
    items = []
    while not isinstance(event := next(stream), events.SequenceEndEvent):
        items.append(_read_value(stream, event, depth))
    return items


def _read_mapping(stream: Iterator[events.Event], depth: int) -> Fields:
    fields: Fields = {}
    columns = set()
    while not isinstance(event := next(stream), events.MappingEndEvent):
        line, key = _line(event), _read_value(stream, event, depth)
        if not isinstance(key, str):
            raise _refused("a key must be text", line)
        if key in fields:
            raise _refused(f"the key {key[:64]!r} appears twice", line)
        event = next(stream)
        fields[key] = line, _read_value(stream, event, depth)
        if isinstance(event, events.MappingStartEvent):
            columns.add(_place(event)[1])
        if len(columns) > 1:
            raise _refused("mappings side by side must be indented alike", line)
    return fields


def _refuse(event: events.Event, depth: int) -> None:
    line = _line(event)
    if isinstance(event, events.AliasEvent) or getattr(event, "anchor", None) is not None:
        raise _refused("anchors and aliases ('&', '*') are not allowed; quote the value", line)
    if getattr(event, "tag", None) is not None:
        raise _refused("tags ('!') are not allowed; quote the value", line)
    if getattr(event, "flow_style", None):
        raise _refused(
            "flow style ('[…]', '{…}') is not allowed; write one item per line or quote it", line
        )
    if depth > _MAX_DEPTH:
        raise _refused(f"nested deeper than {_MAX_DEPTH} levels", line)


def _line(event: events.Event) -> int:
    return _place(event)[0]


def _place(event: events.Event) -> tuple[int, int]:
    mark = event.start_mark
    assert mark is not None  # every event of a parser has one
    return mark.line + 1, mark.column


def _refused(message: str, line: int) -> FrontmatterRefusedError:
    return FrontmatterRefusedError("strict-yaml", message, line)


_NAME = re.compile(r"[a-z][a-z0-9_]*")
_TYPES = ("string", "number", "boolean", "object", "array")
_SHOWN = 64  # characters of a name that a message repeats

_Finding = tuple[str, str, int | None]  # code, message, line
_Fault = tuple[str, str]  # code, message


def tools_json_problems(path: str, raw: bytes) -> list[Problem]:
    """Return what a runtime that follows the draft literally refuses or misreads."""
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
    return 0  # no rule needs the number, and converting a million digits takes long


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


_DECODER = json.JSONDecoder(
    parse_int=_ignore_digits, parse_float=_ignore_digits, parse_constant=_refuse_constant
)
_NEXT = re.compile(r"[^\s,]")


__all__ = ["skill_md_problems", "tools_json_problems"]

_FILE_NAMES = ("SKILL.md", "skill.md")
_FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
_NAME_MAX = 64
_DESCRIPTION_MAX = 1024
_COMPATIBILITY_MAX = 500
# Normalising makes a name at most four times shorter: a longer one is refused without it, because
# a hostile name would take long.
_NAME_MAX_TO_NORMALISE = 4 * _NAME_MAX


def skill_md_problems(path: str, raw: bytes, directory: str) -> list[Problem]:
    """Return what the Agent Skills reference validator refuses in a SKILL.md in `directory`."""
    found: list[_Finding] = []
    if PurePosixPath(path).name not in _FILE_NAMES:
        found.append(("strict-file-name", "the file must be called 'SKILL.md'", None))
    found += _content_findings(raw, PurePosixPath(directory).name)
    return [
        Problem(path=path, code=code, severity="warning", message=message, line=line)
        for code, message, line in found
    ]


def _content_findings(raw: bytes, directory: str) -> Iterator[_Finding]:
    try:
        text = raw.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")
        block = cut(text)
        for line in misplaced_fences(text, block):
            message = "'---' shares its line with other text: not every runtime sees it there"
            yield "strict-frontmatter", message, line
        yield from _field_findings(read_fields(block), directory)
    except UnicodeDecodeError as error:
        yield "strict-encoding", "not valid UTF-8", 1 + raw.count(b"\n", 0, error.start)
    except FrontmatterRefusedError as refusal:
        yield refusal.code, refusal.message, refusal.line


def _field_findings(fields: Fields, directory: str) -> Iterator[_Finding]:
    for key, (line, _) in fields.items():
        if key not in _FIELDS:
            message = f"unexpected field {key[:_NAME_MAX]!r}: move it under 'metadata'"
            yield "strict-unexpected-field", message, line
    for key in ("name", "description"):
        if key not in fields:
            yield f"strict-{key}", f"the field '{key}' is missing", 1
    for key, (line, value) in fields.items():
        for message in _faults(key, value, directory):
            yield f"strict-{key}", message, line


def _faults(key: str, value: Value, directory: str) -> Iterator[str]:
    match key:
        case "name":
            yield from _name_faults(value, directory)
        case "description":
            yield from _text_faults(key, value, _DESCRIPTION_MAX)
        case "compatibility" if value != "":  # the reference lets an empty one pass
            yield from _text_faults(key, value, _COMPATIBILITY_MAX)
        case "allowed-tools" if not _is_text_or_texts(value):
            yield "'allowed-tools' must be text or a list of texts"
        case _:
            return


def _text_faults(key: str, value: Value, longest: int) -> Iterator[str]:
    if not isinstance(value, str) or not value.strip():
        yield f"'{key}' must be text that is not empty"
    elif len(value) > longest:
        yield f"'{key}' has {len(value):,} characters; {longest:,} are allowed"


def _is_text_or_texts(value: Value) -> bool:
    items = value if isinstance(value, list) else [value]
    return all(isinstance(item, str) for item in items)


def _name_faults(value: Value, directory: str) -> Iterator[str]:
    if not isinstance(value, str) or not 0 < len(value.strip()) <= _NAME_MAX_TO_NORMALISE:
        yield from _text_faults("name", value, _NAME_MAX)
        return
    name = unicodedata.normalize("NFKC", value.strip())
    if len(name) > _NAME_MAX:
        yield f"the name has {len(name)} characters; {_NAME_MAX} are allowed"
    if name != name.lower():
        yield f"the name {name!r} must be in lower case"
    if name.startswith("-") or name.endswith("-") or "--" in name:
        yield f"the name {name!r} must not start or end with '-', nor contain '--'"
    if not name.replace("-", "a").isalnum():
        yield f"the name {name!r} may hold only letters, digits and '-'"
    if name != unicodedata.normalize("NFKC", directory[:_NAME_MAX_TO_NORMALISE]):
        yield f"the name {name!r} must be that of its directory, {directory!r}"
