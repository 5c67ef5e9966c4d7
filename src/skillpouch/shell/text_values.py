"""Turns a word into a value by a schema: an integer, a list, an object, or text.

A word that could be several things is the first of them, in the order of the schema.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from skillpouch.errors import nearest
from skillpouch.json_values import NO_VALUE, json_value
from skillpouch.shell.schema_shapes import alternatives
from skillpouch.signatures.signature import JsonSchema

_INTEGER = re.compile(r"([+-]?[0-9]+)(?:\.0+)?")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_BOOLEANS = {
    **dict.fromkeys(("true", "yes", "on", "1"), True),
    **dict.fromkeys(("false", "no", "off", "0"), False),
}
_LONGEST_NAME = 100  # of a megabyte nobody meant another word
_ARTICLES = {"array": "a list", "object": "a JSON object", "null": "null", "string": "text"}


def text_value(text: str, schema: Any, root: JsonSchema) -> Any:
    """Return the value that a text spells by a schema, NO_VALUE when it spells none."""
    return simple_value(text, alternatives(schema, root), root)


def simple_value(text: str, schemas: Iterable[JsonSchema], root: JsonSchema) -> Any:
    """Return the value that a text spells by the first simple schema that it fits."""
    for each in schemas:
        value = _simple_value(text, each, root)
        if value is not NO_VALUE:
            return value
    return NO_VALUE


def _simple_value(text: str, schema: JsonSchema, root: JsonSchema) -> Any:
    if "enum" in schema:
        return _enum_value(text, schema)
    kind = schema.get("type")
    if kind == "array":
        return list_value(text, schema, root)
    read = _READERS.get(kind) if isinstance(kind, str) else None
    return text if read is None else read(text)


def _enum_value(text: str, schema: JsonSchema) -> Any:
    for value in schema["enum"]:
        if text == _written(value):
            return value
    if schema.get("type") not in ("integer", "number"):
        return NO_VALUE
    number = _number(text)
    return next((each for each in schema["enum"] if each == number), NO_VALUE)


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


def _integer(text: str) -> Any:
    if text.isdecimal() and text.isascii():
        return _exact(text)
    match = _INTEGER.fullmatch(text.strip())
    return _exact(match[1]) if match else NO_VALUE


def _number(text: str) -> Any:
    text = text.strip()
    if not _NUMBER.fullmatch(text):
        return NO_VALUE
    if text.lstrip("+-").isdigit():
        return _exact(text)
    value = float(text)
    return value if math.isfinite(value) else NO_VALUE


def _exact(digits: str) -> Any:
    try:
        return int(digits)
    except ValueError:  # more digits than Python is willing to read
        return NO_VALUE


def _boolean(text: str) -> Any:
    return _BOOLEANS.get(text.strip().lower(), NO_VALUE)


def _null(text: str) -> Any:
    return None if text.strip() == "null" else NO_VALUE


def _object(text: str) -> Any:
    value = json_value(text)
    return value if isinstance(value, dict) else NO_VALUE


_READERS = {
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
    "null": _null,
    "object": _object,
}


def one_reader(schemas: Sequence[JsonSchema]) -> Callable[[str], Any] | None:
    """Return what reads a value of which only one thing can be meant: a number, or any text."""
    if len(schemas) != 1 or "enum" in schemas[0]:
        return None
    return _SINGLE.get(str(schemas[0].get("type")))


_SINGLE: dict[str, Callable[[str], Any]] = {"integer": _integer, "number": _number, "string": str}


def list_value(text: str, schema: JsonSchema, root: JsonSchema) -> Any:
    """Return the items that one word adds to a list: a JSON list, one item, or `1,2,3`."""
    items = schema.get("items")
    whole = json_value(text)
    if isinstance(whole, list) and _is_whole(whole, items, root):
        return whole
    value = _item(text, items, root)
    if value is not NO_VALUE:
        return [value]
    # Only where one word is not an item: a comma within text is text.
    values = [_item(part, items, root) for part in text.split(",")]
    return NO_VALUE if any(value is NO_VALUE for value in values) else values


def _item(text: str, schema: Any, root: JsonSchema) -> Any:
    """Return what a text spells as an item; a list within a list is always written as JSON."""
    for each in alternatives(schema, root):
        is_list = each.get("type") == "array" and "enum" not in each
        value = _list(text) if is_list else _simple_value(text, each, root)
        if value is not NO_VALUE:
            return value
    return NO_VALUE


def _list(text: str) -> Any:
    value = json_value(text)
    return value if isinstance(value, list) else NO_VALUE


def _is_whole(values: list[Any], items: Any, root: JsonSchema) -> bool:
    """Tell `[[1, 2]]` from `[1, 2]` where the items are lists themselves."""
    if not any(each.get("type") == "array" for each in alternatives(items, root)):
        return True
    return all(isinstance(value, list) for value in values)


def expected_by(schema: Any, root: JsonSchema) -> str:
    """Return what a message says that a value should be: `an integer`, `one of a, b`."""
    names = dict.fromkeys(_expected(each, root) for each in alternatives(schema, root))
    return " or ".join(names)


def _expected(schema: JsonSchema, root: JsonSchema) -> str:
    if "enum" in schema:
        return f"one of {', '.join(enum_words(schema['enum']))}"
    kind = schema.get("type")
    if kind == "array" and (inner := _inner(schema, root)):
        return f"a list of {inner}"
    if not isinstance(kind, str):
        return "text"
    return _ARTICLES.get(kind) or f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}"


def enum_hint(text: str, schema: Any, root: JsonSchema) -> str:
    """Return which of some listed values a wrong one was probably meant to be."""
    values = [value for each in alternatives(schema, root) for value in each.get("enum", [])]
    near = nearest(text[:_LONGEST_NAME], [_written(value) for value in values], most=1)
    return f"did you mean {near[0]!r}?" if near else ""


def _inner(schema: JsonSchema, root: JsonSchema) -> str:
    kinds = dict.fromkeys(
        str(each.get("type", "")) for each in alternatives(schema.get("items"), root)
    )
    return " or ".join(kinds) if all(kinds) else ""


def enum_words(values: Iterable[Any], *, most: int = 12) -> list[str]:
    """Return the values of an enum as one would write them; of very many the first ones."""
    words = [_written(each) for each in values]
    return words if len(words) <= most else [*words[:most], "…"]
