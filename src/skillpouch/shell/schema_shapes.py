"""A JSON Schema as a command line needs it: its properties and their types."""

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any
from urllib.parse import unquote

from skillpouch.signatures.signature import JsonSchema

# A schema may refer to itself; nobody nests what can be said in one word deeper than this.
_DEEPEST = 16
_MOST_VARIANTS = 64


def as_schema(value: Any) -> JsonSchema:
    """Return what stands where a schema should; `true`, `false` and nonsense say nothing."""
    return value if isinstance(value, dict) else {}


def resolved(schema: Any, root: JsonSchema) -> JsonSchema:
    """Return a schema without `$ref` and `allOf` at its top; what they say is merged into it."""
    found = as_schema(schema)
    if "$ref" not in found and "allOf" not in found:
        return found
    return _merged(found, root, {}, 0)


# `done` keeps what each reference says: one that comes back to itself adds nothing, and one that
# is used a thousand times is followed once.
def _merged(
    schema: JsonSchema, root: JsonSchema, done: dict[str, JsonSchema], depth: int
) -> JsonSchema:
    found: JsonSchema = {}
    reference = schema.get("$ref")
    if isinstance(reference, str) and depth < _DEEPEST:
        if reference not in done:
            done[reference] = {}
            done[reference] = _merged(as_schema(_target(reference, root)), root, done, depth + 1)
        found = done[reference]
    for part in _list(schema, "allOf") if depth < _DEEPEST else []:
        found = _joined(found, _merged(as_schema(part), root, done, depth + 1))
    own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf")}
    return _joined(found, own)


def _joined(first: JsonSchema, second: JsonSchema) -> JsonSchema:
    """Join what two parts say: properties and required names add up, else the later wins."""
    if not first:
        return second
    joined = {**first, **second}
    if isinstance(first.get("properties"), dict) and isinstance(second.get("properties"), dict):
        joined["properties"] = {**first["properties"], **second["properties"]}
    if isinstance(first.get("required"), list) and isinstance(second.get("required"), list):
        joined["required"] = [*first["required"], *second["required"]]
    return joined


def _target(reference: Any, root: JsonSchema) -> Any:
    """Follow `#/$defs/Name` within the schema; any other reference says nothing here."""
    if not isinstance(reference, str) or not reference.startswith("#"):
        return {}
    found: Any = root
    for part in unquote(reference[1:]).split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(found, list) and name.isdecimal():
            found = found[int(name)] if int(name) < len(found) else {}
        else:
            found = as_schema(found).get(name, {})
    return found


def properties_of(root: JsonSchema) -> Mapping[str, Any]:
    """Return the properties that arguments may have, also those that only one variant knows."""
    found: dict[str, Any] = {}
    for variant in islice(_variants(root, root, 0), _MOST_VARIANTS):
        properties = as_schema(variant.get("properties"))
        if not found:
            found = properties
        elif properties:
            found = {**properties, **found}
    return found


def _variants(schema: Any, root: JsonSchema, depth: int) -> Iterator[JsonSchema]:
    schema = resolved(schema, root)
    yield schema
    if depth < _DEEPEST:
        for variant in (*_list(schema, "anyOf"), *_list(schema, "oneOf")):
            yield from _variants(variant, root, depth + 1)


def required_of(root: JsonSchema) -> list[str] | None:
    """Return the names that must be given; None when the schema does not say."""
    names = resolved(root, root).get("required")
    return [each for each in names if isinstance(each, str)] if isinstance(names, list) else None


def alternatives(schema: Any, root: JsonSchema) -> list[JsonSchema]:
    """Return the simple schemas that a value may fit, in the order in which they stand.

    Each has an `enum`, or one `type`, or neither: then anything fits.
    """
    found: list[JsonSchema] = []
    for each in islice(_simple(schema, root, 0), _MOST_VARIANTS):
        if each not in found:
            found.append(each)
    return found


def _simple(schema: Any, root: JsonSchema, depth: int) -> Iterator[JsonSchema]:
    schema = resolved(schema, root)
    kinds = schema.get("type")
    variants = [*_list(schema, "anyOf"), *_list(schema, "oneOf")]
    if "const" in schema:
        yield {"enum": [schema["const"]]}
    elif isinstance(schema.get("enum"), list):
        yield schema if isinstance(kinds, str) else {"enum": schema["enum"]}
    elif isinstance(kinds, list):
        yield from (_with_type({**schema, "type": kind}) for kind in kinds if isinstance(kind, str))
    elif kinds is None and variants and depth < _DEEPEST:
        for variant in variants:
            yield from _simple(variant, root, depth + 1)
    else:
        yield _with_type(schema)
    if schema.get("nullable") is True:
        yield {"type": "null"}


def _with_type(schema: JsonSchema) -> JsonSchema:
    if "enum" in schema:  # one that is not a list, and so says nothing
        schema = {key: value for key, value in schema.items() if key != "enum"}
    if isinstance(schema.get("type"), str):
        return schema
    if "items" in schema or "prefixItems" in schema:
        return {**schema, "type": "array"}
    if "properties" in schema:
        return {**schema, "type": "object"}
    return {key: value for key, value in schema.items() if key != "type"}


def _list(schema: JsonSchema, key: str) -> list[Any]:
    found = schema.get(key)
    return found if isinstance(found, list) else []
