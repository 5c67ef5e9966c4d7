"""Annotations of a function as JSON Schema: plain types, containers, classes."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from skillpouch.signatures.python.scopes import Scope
from skillpouch.signatures.python.values import Class, Enumeration
from skillpouch.signatures.signature import JsonSchema

_BASES = ("TypedDict", "NamedTuple", "BaseModel")
_DECORATORS = ("dataclass", "define", "frozen")


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    name: str
    annotation: ast.expr
    required: bool


def fields_of(value: Class) -> list[Field] | None:
    """Return the fields of such a class, inherited ones first; None for any other class."""
    if not _holds_fields(value):
        return None
    fields: dict[str, Field] = {}
    for base in value.node.bases:
        inherited = value.scope.value(base)
        if isinstance(inherited, Class) and inherited is not value:
            fields |= {field.name: field for field in fields_of(inherited) or ()}
    fields |= {field.name: field for field in _own_fields(value.node)}
    return list(fields.values())


def _holds_fields(value: Class) -> bool:
    decorators = (
        node.func if isinstance(node, ast.Call) else node for node in value.node.decorator_list
    )
    if any(_last_name(node) in _DECORATORS for node in decorators):
        return True
    for base in value.node.bases:
        inherited = value.scope.value(base)
        if _last_name(base) in _BASES:
            return True
        if isinstance(inherited, Class) and inherited is not value and _holds_fields(inherited):
            return True
    return False


def _own_fields(node: ast.ClassDef) -> Iterator[Field]:
    total = not any(
        keyword.arg == "total"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is False
        for keyword in node.keywords
    )
    for part in node.body:
        if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name):
            marker = (
                _last_name(part.annotation.value)
                if isinstance(part.annotation, ast.Subscript)
                else ""
            )
            if marker == "ClassVar":
                continue
            required = part.value is None and (total or marker == "Required")
            yield Field(
                name=part.target.id,
                annotation=part.annotation,
                required=required and marker != "NotRequired",
            )


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


_SIMPLE: dict[str, JsonSchema] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "None": {"type": "null"},
    **{
        name: {"type": "string"}
        for name in ("Path", "PurePath", "PosixPath", "PathLike", "bytes", "datetime", "date")
    },
    **{
        name: {"type": "array"}
        for name in ("list", "List", "Sequence", "Iterable", "Collection", "set", "Set")
    },
    **{name: {"type": "array"} for name in ("frozenset", "FrozenSet", "tuple", "Tuple")},
    **{
        name: {"type": "object"}
        for name in ("dict", "Dict", "Mapping", "MutableMapping", "OrderedDict", "defaultdict")
    },
}
_TRANSPARENT = ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar")
_JSON_TYPES: dict[type, str] = {bool: "boolean", int: "integer", float: "number", str: "string"}
_DEEPEST = 12


def schema_of(node: ast.expr | None, scope: Scope, depth: int = 0) -> JsonSchema:
    """Return a schema for an annotation, looking up classes and aliases of the same file."""
    if node is None or depth > _DEEPEST:
        return {}
    scope.budget.spend(node)
    if isinstance(node, ast.Constant):
        return _constant(node, scope, depth)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr):
        return union([schema_of(part, scope, depth + 1) for part in (node.left, node.right)])
    if isinstance(node, ast.Subscript):
        return _subscript(node, scope, depth)
    return _named(node, scope, depth)


def union(schemas: list[JsonSchema]) -> JsonSchema:
    """Return the schema of a value that may be any of these."""
    distinct: list[JsonSchema] = []
    for schema in schemas:
        for part in schema.get("anyOf", [schema]) if set(schema) == {"anyOf"} else [schema]:
            if part not in distinct:
                distinct.append(part)
    if {} in distinct:
        return {}
    if len(distinct) == 1:
        return distinct[0]
    if all(set(schema) == {"type"} and isinstance(schema["type"], str) for schema in distinct):
        return {"type": [schema["type"] for schema in distinct]}
    return {"anyOf": distinct}


def enum_schema(values: list[Any]) -> JsonSchema:
    """Return the schema of a fixed set of values."""
    types = list(dict.fromkeys(_JSON_TYPES.get(type(value), "null") for value in values))
    return {"type": types[0] if len(types) == 1 else types, "enum": values}


def last_name(node: ast.expr) -> str:
    """Return `Optional` for both `Optional` and `typing.Optional`."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _constant(node: ast.Constant, scope: Scope, depth: int) -> JsonSchema:
    if node.value is None:
        return {"type": "null"}
    if not isinstance(node.value, str):
        return {}
    try:
        quoted = ast.parse(node.value.strip(), mode="eval").body
    except (SyntaxError, ValueError):
        return {}
    return schema_of(quoted, scope, depth + 1)


def _named(node: ast.expr, scope: Scope, depth: int) -> JsonSchema:
    name = last_name(node)
    value = scope.value(node) if isinstance(node, ast.Name) else None
    if isinstance(value, Enumeration):
        values = [member.value for member in value.members]
        known = all(type(one) in _JSON_TYPES for one in values)
        return enum_schema(values) if values and known else {}
    if isinstance(value, Class):
        return _object(value, scope, depth)
    if isinstance(node, ast.Name) and (alias := _alias(name, scope)):
        return schema_of(alias, scope, depth + 1)
    return dict(_SIMPLE.get(name, {}))


def _alias(name: str, scope: Scope) -> ast.expr | None:
    while scope.outer:
        scope = scope.outer
    return scope.stores.get(name)


def _object(value: Class, scope: Scope, depth: int) -> JsonSchema:
    fields = fields_of(value)
    if fields is None:
        return {}
    schema: JsonSchema = {
        "type": "object",
        "properties": {
            field.name: schema_of(field.annotation, scope, depth + 1) for field in fields
        },
    }
    if required := [field.name for field in fields if field.required]:
        schema["required"] = required
    return schema


def _subscript(node: ast.Subscript, scope: Scope, depth: int) -> JsonSchema:
    name = last_name(node.value)
    parts = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if name == "Literal":
        values = [scope.value(part) for part in parts]
        known = all(value is None or type(value) in _JSON_TYPES for value in values)
        return enum_schema(values) if known else {}
    if name == "Annotated":
        return _annotated(parts, scope, depth)
    schemas = [schema_of(part, scope, depth + 1) for part in parts]
    if name == "Optional":
        return union([*schemas, {"type": "null"}])
    if name == "Union":
        return union(schemas)
    if name in _TRANSPARENT:
        return schemas[0]
    return _container(name, parts, schemas)


def _annotated(parts: list[ast.expr], scope: Scope, depth: int) -> JsonSchema:
    schema = schema_of(parts[0], scope, depth + 1)
    for note in parts[1:]:
        text = scope.value(note)
        if isinstance(note, ast.Call):
            described = [key.value for key in note.keywords if key.arg in ("description", "help")]
            text = scope.value(described[0]) if described else None
        if isinstance(text, str):
            return schema | {"description": " ".join(text.split())}
    return schema


def _container(name: str, parts: list[ast.expr], schemas: list[JsonSchema]) -> JsonSchema:
    schema = dict(_SIMPLE.get(name, {}))
    kind = schema.get("type")
    if kind == "object" and len(schemas) > 1 and schemas[1]:
        return schema | {"additionalProperties": schemas[1]}
    if kind != "array":
        return schema
    is_endless = (
        len(parts) > 1 and isinstance(parts[-1], ast.Constant) and (parts[-1].value is Ellipsis)
    )
    if name in ("tuple", "Tuple") and not is_endless:
        length = len(schemas)
        return schema | {"prefixItems": schemas, "minItems": length, "maxItems": length}
    return schema | {"items": schemas[0]} if schemas[0] else schema
