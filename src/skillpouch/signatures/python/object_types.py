"""The fields of a class that only holds them: a TypedDict, dataclass, NamedTuple or model."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from skillpouch.signatures.python.values import Class

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
