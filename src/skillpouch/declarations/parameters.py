"""Turns the several ways of writing parameters into one JSON Schema for an object."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from skillpouch.declarations.declared import DeclarationError
from skillpouch.signatures.signature import JsonSchema

_MOST_BYTES = 256 * 1024
_KEYS = ("input_schema", "inputSchema", "parameters", "args")
TYPES = ("string", "number", "integer", "boolean", "object", "array", "null")
# What people write when they mean a JSON Schema type.
_MEANT = {
    "str": "string",
    "text": "string",
    "path": "string",
    "file": "string",
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "list": "array",
    "dict": "object",
    "map": "object",
}


def read_parameters(entry: dict[str, Any]) -> JsonSchema | None:
    """Return the input schema of an entry, or None if it declares no parameters."""
    key = next((key for key in _KEYS if entry.get(key) is not None), None)
    # `args: "<file> [--fast]"` is a line for people, not a schema.
    if key is None or (key == "args" and isinstance(entry[key], str)):
        return None
    try:
        schema = _schema(entry[key])
        _check(schema)
    except DeclarationError as error:
        raise DeclarationError(error.code, f"{key}: {error.message}", (key, *error.at)) from None
    return schema


def unknown_types(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield name and type of parameters whose type is neither JSON Schema's nor a known synonym."""
    value = next((entry[key] for key in _KEYS if entry.get(key) is not None), None)
    described: list[tuple[Any, Any]] = []
    if isinstance(value, list):
        described = [(item.get("name"), item) for item in value if isinstance(item, dict)]
    elif isinstance(value, dict) and not _is_full_schema(value):
        described = list(value.items())
    for name, what in described:
        written = what.get("type") if isinstance(what, dict) else None
        if isinstance(written, str) and _meant(written) not in TYPES:
            yield str(name), written


def read_schema(value: Any) -> JsonSchema:
    """Return a JSON Schema unchanged; raise DeclarationError if it is not valid."""
    if not isinstance(value, dict):
        raise DeclarationError("schema-invalid", "not a mapping")
    _check(value)
    return value


def _schema(value: Any) -> JsonSchema:
    if isinstance(value, list):
        return _from_list(value)
    if not isinstance(value, dict):
        raise DeclarationError("schema-invalid", f"a {type(value).__name__}, not a mapping or list")
    if _is_full_schema(value):
        if value.get("type", "object") != "object":
            raise DeclarationError("schema-invalid", f"type is {value['type']!r}, not 'object'")
        return {"type": "object", **_without_empty(value)}
    return _from_map(value)


def _without_empty(schema: dict[str, Any]) -> dict[str, Any]:
    # In YAML, `properties:` with nothing or only a comment below it is null, and means none.
    return {
        key: value
        for key, value in schema.items()
        if value is not None or key not in ("properties", "required")
    }


def _is_full_schema(value: dict[str, Any]) -> bool:
    # Parameters may be called "type" or "properties", too; their value is a mapping with a type.
    properties = value.get("properties")
    return isinstance(value.get("type"), str) or (
        isinstance(properties, dict) and not isinstance(properties.get("type"), str)
    )


def _from_map(value: dict[str, Any]) -> JsonSchema:
    properties = {name: _property(name, what) for name, what in value.items()}
    required = [
        name
        for name, what in value.items()
        if not (isinstance(what, dict) and (what.get("optional") or what.get("required") is False))
    ]
    return _object(properties, required)


def _from_list(items: list[Any]) -> JsonSchema:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for number, item in enumerate(items):
        name = item.get("name") if isinstance(item, dict) else item
        if not isinstance(name, str) or not name:
            raise DeclarationError("schema-invalid", "a parameter without a name", (number,))
        what = {key: item[key] for key in item if key != "name"} if isinstance(item, dict) else {}
        properties[name] = _property(name, what)
        optional = what.get("optional") or what.get("required") is False or "default" in what
        if not optional:
            required.append(name)
    return _object(properties, required)


def _object(properties: dict[str, Any], required: list[str]) -> JsonSchema:
    schema: JsonSchema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return schema | {"additionalProperties": False}


def _property(name: str, what: Any) -> JsonSchema:
    if isinstance(what, str):  # `city: string`, or `city: The city to look up`
        kind = _meant(what)
        return {"type": kind} if kind in TYPES else {"description": what}
    if what is None:
        return {}
    if not isinstance(what, dict):
        raise DeclarationError("schema-invalid", f"{name!r} is not described by a mapping", (name,))
    ours = {
        key: value
        for key, value in what.items()
        if key != "optional" and not (key == "required" and isinstance(value, bool))
    }
    written = ours.get("type")
    if not isinstance(written, str) or written in TYPES:
        return ours
    meant = _meant(written)
    if meant in TYPES:
        return ours | {"type": meant}
    return {key: value for key, value in ours.items() if key != "type"}


def _meant(written: str) -> str:
    return _MEANT.get(written.lower(), written.lower())


def _check(schema: JsonSchema) -> None:
    """Refuse an invalid schema. Offline: a `$schema` or `$ref` is never fetched."""
    from jsonschema_rs import ValidationError, validator_for

    try:
        size = len(json.dumps(schema, allow_nan=False))
        validator_for(schema, offline=True)
    except ValidationError as error:
        at = tuple(error.instance_path)
        where = f" at {'.'.join(map(str, at))}" if at else ""
        raise DeclarationError("schema-invalid", f"{error.message:.200}{where}", at) from None
    except (ValueError, RecursionError) as error:
        raise DeclarationError("schema-invalid", f"{error!s:.200}") from None
    if size > _MOST_BYTES:
        raise DeclarationError("schema-invalid", f"{size:,} bytes, more than {_MOST_BYTES:,}")
