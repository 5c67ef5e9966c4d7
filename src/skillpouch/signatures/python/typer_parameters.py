"""One parameter of a typer command: its annotation, its default, and what `Option` adds to them."""

import ast
from dataclasses import dataclass
from typing import Any

from skillpouch.signatures.argv import Argument
from skillpouch.signatures.python.annotations import last_name, schema_of
from skillpouch.signatures.python.calls import Call, read_call
from skillpouch.signatures.python.click_parameters import Names, about, many, option_names
from skillpouch.signatures.python.command_tree import Parameter
from skillpouch.signatures.python.scopes import Scope
from skillpouch.signatures.python.values import UncertainError
from skillpouch.signatures.signature import JsonSchema

_MISSING = object()


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """What a parameter says about itself, in whichever of typer's two styles."""

    name: str
    annotation: ast.expr | None
    kind: str  # "Option", "Argument" or "" when typer decides
    call: Call
    default: Any

    @property
    def required(self) -> bool:
        asked = self.call.get("prompt", False) not in (False, None)
        made_later = "default_factory" in self.call.keywords
        return asked or (self.default in (_MISSING, ...) and not made_later)


def read_parameter(parameter: ast.arg, default: ast.expr | None, scope: Scope) -> Parameter | None:
    """Return the property of a parameter, None for one that typer fills in itself."""
    given = _given(parameter, default, scope)
    if last_name(given.annotation or ast.Name("str")) == "Context" or given.call.is_set("is_eager"):
        return None
    schema, is_many = _value_schema(given, scope)
    is_argument = given.kind == "Argument" or (not given.kind and given.default is _MISSING)
    if is_argument:
        return _argument(given, schema, is_many=is_many)
    return _option(given, schema, is_many=is_many)


def _given(parameter: ast.arg, default: ast.expr | None, scope: Scope) -> Given:
    annotation = parameter.annotation
    info: ast.expr | None = None
    if isinstance(annotation, ast.Subscript) and last_name(annotation.value) == "Annotated":
        parts = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else []
        annotation = parts[0] if parts else None
        info = next((part for part in parts[1:] if _kind(part, scope)), None)
    if default is not None and _kind(default, scope):
        call = _checked(default, scope)
        value = call.arguments[0] if call.arguments else call.get("default", _MISSING)
        call = Call(line=call.line, arguments=call.arguments[1:], keywords=call.keywords)
        kind = _kind(default, scope)
    else:
        kind = _kind(info, scope) if info else ""
        call = _checked(info, scope) if info else Call(line=parameter.lineno)
        value = scope.value(default) if default is not None else _MISSING
    return Given(name=parameter.arg, annotation=annotation, kind=kind, call=call, default=value)


def _kind(node: ast.expr, scope: Scope) -> str:
    if not isinstance(node, ast.Call):
        return ""
    name = scope.outline.dotted(node.func)
    return name.removeprefix("typer.") if name in ("typer.Option", "typer.Argument") else ""


def _checked(node: ast.expr, scope: Scope) -> Call:
    assert isinstance(node, ast.Call)
    call = read_call(node, scope)
    if not call.complete:
        raise UncertainError("an option is declared with values known only at run time", call.line)
    return call


def _value_schema(given: Given, scope: Scope) -> tuple[JsonSchema, bool]:
    """Return the schema of one value as it is written, and whether there may be many."""
    schema = schema_of(given.annotation, scope)
    if given.annotation is None and isinstance(given.default, int | float):
        kinds = {bool: "boolean", int: "integer", float: "number"}
        schema = {"type": kinds[type(given.default)]}
    schema = _without_null(schema)
    is_many = schema.get("type") == "array" and "prefixItems" not in schema
    value = schema.get("items", {"type": "string"}) if is_many else schema
    if value.get("type") not in ("integer", "number", "boolean", "array"):
        value = {"type": "string"} | {key: value[key] for key in ("enum",) if key in value}
    for name, key in (("min", "minimum"), ("max", "maximum")):
        if isinstance(bound := given.call.get(name), int | float):
            value = value | {key: bound}
    return value, is_many


def _without_null(schema: JsonSchema) -> JsonSchema:
    if isinstance(schema.get("type"), list):
        kinds = [kind for kind in schema["type"] if kind != "null"]
        schema = schema | {"type": kinds[0] if len(kinds) == 1 else kinds}
    choices = [one for one in schema.get("anyOf", ()) if one != {"type": "null"}]
    return choices[0] if len(choices) == 1 else schema


def _argument(given: Given, schema: JsonSchema, *, is_many: bool) -> Parameter:
    nargs: Any = None if given.required else "?"
    if is_many:
        nargs = "+" if given.required else "*"
    return Parameter(
        name=given.name,
        argument=Argument(name=given.name, nargs=nargs, after_dashes=True),
        schema=many(schema, nargs) | _about(given),
        required=given.required,
    )


def _option(given: Given, schema: JsonSchema, *, is_many: bool) -> Parameter:
    names = _names(given, is_switch=schema.get("type") == "boolean" and not is_many)
    action: Any = "append" if is_many else "store"
    nargs = schema.get("maxItems") if "prefixItems" in schema else None
    if given.call.is_set("count"):
        schema, action = {"type": "integer", "minimum": 0}, "count"
    elif schema.get("type") == "boolean" and not is_many:
        action = "boolean_optional" if names.off_flags else "store_true"
    if is_many:
        schema = {"type": "array", "items": schema}
    return Parameter(
        name=given.name,
        argument=Argument(
            name=given.name, flag=names.flag, action=action, nargs=nargs, off_flag=names.off_flag
        ),
        schema=schema | _about(given),
        required=given.required,
    )


def _names(given: Given, *, is_switch: bool) -> Names:
    if given.call.arguments:
        return option_names(given.call)
    dashed = given.name.replace("_", "-")
    off_flags = (f"--no-{dashed}",) if is_switch and not given.call.is_set("count") else ()
    return Names(name=given.name, flags=(f"--{dashed}",), off_flags=off_flags)


def _about(given: Given) -> JsonSchema:
    default = None if given.default in (_MISSING, ...) else given.default
    return about(given.call.text("help"), getattr(default, "value", default))
