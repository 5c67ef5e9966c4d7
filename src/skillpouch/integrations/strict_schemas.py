"""JSON schemas as model providers want them: strict where nothing is lost."""

from collections.abc import Mapping
from typing import Any

_COMBINING = ("oneOf", "anyOf", "allOf", "not", "if", "then", "else", "enum", "const")
# What OpenAI enforces. A keyword that is not here makes a schema one that is not enforced.
_STRICT_KEYWORDS = frozenset(
    [
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "anyOf",
        "description",
        "title",
        "pattern",
        "format",
        "multipleOf",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "minItems",
        "maxItems",
        "default",
        "examples",
        "$schema",
    ]
)
# Said in the description of a property, if at all; refused in a schema that is enforced.
_DROPPED = frozenset(("default", "examples", "title", "$schema"))
_DEEPEST = 8
_MOST_PROPERTIES = 100


class _NotStrictError(Exception):
    """A schema that strict mode cannot express."""


def plain_root(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return a schema whose root is only an object; Skillpouch still checks the rest."""
    kept = {key: value for key, value in schema.items() if key not in _COMBINING}
    return {**kept, "type": "object", "properties": dict(kept.get("properties", {}))}


def strict_schema(schema: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the schema in which every property is required; None if it cannot be said so.

    What was optional may be null, and `without_nulls` takes such values away again.
    """
    if any(key in schema for key in _COMBINING):
        return None
    try:
        return _strict({**schema, "type": "object"}, 0)
    except _NotStrictError:
        return None


def _strict(schema: Any, depth: int) -> dict[str, Any]:
    if not isinstance(schema, dict) or depth > _DEEPEST or not schema.keys() <= _STRICT_KEYWORDS:
        raise _NotStrictError
    kept = {key: value for key, value in schema.items() if key not in _DROPPED}
    if not {"type", "enum", "const", "anyOf"} & kept.keys():
        raise _NotStrictError  # anything at all
    kinds = kept.get("type")
    if kinds == "object":
        return kept | _strict_object(schema, depth)
    if isinstance(kinds, list) and "object" in kinds:
        raise _NotStrictError
    if "array" in (kinds if isinstance(kinds, list) else [kinds]):
        kept["items"] = _strict(schema.get("items"), depth + 1)
    if "anyOf" in kept:
        kept["anyOf"] = [_strict(each, depth + 1) for each in kept["anyOf"]]
    return kept


def _strict_object(schema: dict[str, Any], depth: int) -> dict[str, Any]:
    properties = schema.get("properties", {})
    is_open = schema.get("additionalProperties", False) is not False
    if is_open or len(properties) > _MOST_PROPERTIES or (depth and not properties):
        raise _NotStrictError
    required = schema.get("required", [])
    made = {
        name: _strict(each, depth + 1) if name in required else _nullable(_strict(each, depth + 1))
        for name, each in properties.items()
    }
    return {"properties": made, "required": list(made), "additionalProperties": False}


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = schema.get("type")
    if kinds is None or "enum" in schema or "const" in schema or kinds == "object":
        about = {"description": schema["description"]} if "description" in schema else {}
        bare = {key: value for key, value in schema.items() if key != "description"}
        return {"anyOf": [bare, {"type": "null"}], **about}
    listed = kinds if isinstance(kinds, list) else [kinds]
    return {**schema, "type": list(dict.fromkeys([*listed, "null"]))}


def without_nulls(arguments: Any, schema: Any) -> Any:
    """Return arguments without the nulls that stand for what was left out."""
    if not isinstance(schema, Mapping):
        return arguments
    if isinstance(arguments, list):
        return [without_nulls(each, schema.get("items")) for each in arguments]
    properties = schema.get("properties")
    if not isinstance(arguments, dict) or not isinstance(properties, Mapping):
        return arguments
    required = schema.get("required", ())
    return {
        name: without_nulls(value, properties.get(name))
        for name, value in arguments.items()
        if value is not None or name in required or _takes_null(properties.get(name))
    }


def _takes_null(schema: Any) -> bool:
    """Tell whether a schema allows null; in doubt it does, and Skillpouch checks the value."""
    if not isinstance(schema, Mapping):
        return True
    if "type" in schema:
        return "null" in schema["type"] if isinstance(schema["type"], list) else False
    return None in schema.get("enum", [None])
