"""Words without a flag: they fill the parameters that no flag has named, in the schema's order."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from skillpouch.json_values import NO_VALUE
from skillpouch.shell.flag_errors import FlagValueError, UnexpectedWordError
from skillpouch.shell.schema_shapes import alternatives, required_of
from skillpouch.shell.text_values import enum_hint, expected_by, text_value
from skillpouch.shell.tool_def import ToolDef
from skillpouch.shell.usage import usage_line
from skillpouch.signatures.signature import JsonSchema


def takes_raw_words(properties: Mapping[str, Any], root: JsonSchema) -> bool:
    """Tell a script that is known to read its argv, and nothing else of it: `{"args": [text]}`."""
    return set(properties) == {"args"} and _first_kind(properties["args"], root) == "array"


def fill(
    params: dict[str, Any], words: Sequence[str], tool: ToolDef, properties: Mapping[str, Any]
) -> None:
    """Give plain words to the parameters that are still open; a switch is never one of them."""
    rest, root = deque(words), tool.input_schema
    open_names = deque(
        name
        for name, schema in properties.items()
        if rest and name not in params and not _is_switch(schema, root)
    )
    while rest and open_names:
        name = open_names.popleft()
        taken = [rest.popleft() for _ in range(_count(name, properties, root, rest, open_names))]
        params[name] = _value(name, taken, properties[name], tool)
    if rest:
        raise UnexpectedWordError(rest[0], hint=f"usage: {usage_line(tool)}")


def _count(
    name: str,
    properties: Mapping[str, Any],
    root: JsonSchema,
    rest: Sequence[str],
    later: Sequence[str],
) -> int:
    """Return how many words a parameter takes: a list leaves one to each that must have one."""
    kind = _first_kind(properties[name], root)
    if kind == "array":
        required = set(required_of(root) or ())
        return max(1, len(rest) - sum(other in required for other in later))
    return len(rest) if kind == "" and not later else 1


def _value(name: str, words: Sequence[str], schema: Any, tool: ToolDef) -> Any:
    root = tool.input_schema
    kind = _first_kind(schema, root)
    if kind == "" and len(words) > 1:
        return list(words)
    values = [_read(name, word, schema, tool) for word in words]
    if kind != "array":
        return values[0]
    return [item for value in values for item in value]


def _read(name: str, word: str, schema: Any, tool: ToolDef) -> Any:
    root = tool.input_schema
    value = text_value(word, schema, root)
    if value is NO_VALUE:
        hint = enum_hint(word, schema, root) or f"usage: {usage_line(tool)}"
        raise FlagValueError(f"--{name}", word, expected_by(schema, root), hint=hint)
    return value


def _first_kind(schema: Any, root: JsonSchema) -> str:
    """Return the type that a word is first read as, "" when any text will do."""
    for each in alternatives(schema, root):
        if each.get("type") != "null":
            return "enum" if "enum" in each else str(each.get("type", ""))
    return "null"


def _is_switch(schema: Any, root: JsonSchema) -> bool:
    kinds = {each.get("type") for each in alternatives(schema, root)}
    return "boolean" in kinds and kinds <= {"boolean", "null"}
