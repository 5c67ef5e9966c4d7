"""Cuts and reads frontmatter as the Agent Skills reference validator does, refusing as it does."""

from collections.abc import Iterator
from typing import TypeAlias

import yaml
from yaml import events

from skillpouch.errors import PortableError

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_FENCE = "---"
# The reference recurses and fails near Python's limit; nobody nests frontmatter this deep.
_MAX_DEPTH = 64


# Every scalar is text, as the reference reads it. A mapping keeps the line of each key.
Value: TypeAlias = "str | list[Value] | Fields"
Fields: TypeAlias = "dict[str, tuple[int, Value]]"


class FrontmatterRefusedError(PortableError):
    """The reference would not read on."""

    def __init__(self, code: str, message: str, line: int) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.line = line


def cut(text: str) -> str:
    """Give what stands between the fences; its first line is the first line of `text`."""
    if text.startswith("\ufeff"):
        raise FrontmatterRefusedError(
            "strict-bom", "starts with a byte order mark, so other runtimes see no frontmatter", 1
        )
    if not text.startswith(_FENCE):
        raise FrontmatterRefusedError("strict-frontmatter", "the first line must be '---'", 1)
    # The reference takes the next three hyphens, wherever they stand.
    end = text.find(_FENCE, len(_FENCE))
    if end < 0:
        raise FrontmatterRefusedError(
            "strict-frontmatter", "the frontmatter is never closed with '---'", 1
        )
    return text[len(_FENCE) : end]


def misplaced_fences(text: str, block: str) -> list[int]:
    """Give the lines where a fence shares its line with other text: others see no fence there."""
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
