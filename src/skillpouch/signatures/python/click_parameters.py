"""One `@click.option` or `@click.argument`, read by click's own rules for names and types."""

import ast
import re
from dataclasses import dataclass
from typing import Any

from skillpouch.signatures.argv import Argument
from skillpouch.signatures.python.annotations import enum_schema
from skillpouch.signatures.python.calls import Call, read_call
from skillpouch.signatures.python.command_tree import Parameter
from skillpouch.signatures.python.literals import items_of
from skillpouch.signatures.python.scopes import Scope
from skillpouch.signatures.python.values import (
    UNKNOWN,
    Enumeration,
    Foreign,
    Reference,
    UncertainError,
    is_plain,
)
from skillpouch.signatures.signature import JsonSchema

_TYPES = {
    "int": "integer",
    "click.INT": "integer",
    "click.IntRange": "integer",
    "float": "number",
    "click.FLOAT": "number",
    "click.FloatRange": "number",
    "bool": "boolean",
    "click.BOOL": "boolean",
}
_PREFIX = re.compile(r"[^\w]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What the words of an option's declaration mean."""

    name: str
    flags: tuple[str, ...]
    off_flags: tuple[str, ...] = ()

    @property
    def flag(self) -> str:
        return longest_prefix(self.flags)

    @property
    def off_flag(self) -> str | None:
        return longest_prefix(self.off_flags) if self.off_flags else None


def read_option(node: ast.Call, scope: Scope) -> Parameter:
    """Return the property an option stands for."""
    call = _checked(node, scope)
    names = option_names(call)
    default = call.get("default", None)
    schema = value_schema(node, call, scope)
    action: Any = "store"
    nargs: int | None = None
    if call.is_set("count"):
        schema, action = {"type": "integer", "minimum": 0}, "count"
    elif names.off_flags:
        schema, action = {"type": "boolean"}, "boolean_optional"
    elif call.is_set("is_flag") or "flag_value" in call.keywords:
        schema, action = {"type": "boolean"}, "store_true"
        default = None
    else:
        nargs = _nargs(call)
        schema = many(schema, nargs)
    if call.is_set("multiple"):
        schema, action = {"type": "array", "items": schema}, "append"
    return Parameter(
        name=names.name,
        argument=Argument(
            name=names.name, flag=names.flag, action=action, nargs=nargs, off_flag=names.off_flag
        ),
        schema=schema | about(call.text("help"), default),
        required=call.is_set("required") or call.get("prompt", False) not in (False, None),
    )


def read_argument(node: ast.Call, scope: Scope) -> Parameter:
    """Return the property an argument stands for."""
    call = _checked(node, scope)
    if len(call.arguments) != 1 or not isinstance(call.arguments[0], str):
        raise UncertainError("the name of an argument is computed at run time", call.line)
    name = call.arguments[0].replace("-", "_").lower()
    count = call.get("nargs", 1)
    if type(count) is not int:
        raise UncertainError("the number of values of an argument is computed", call.line)
    required = call.get("required", count > 0 and "default" not in call.keywords) is True
    schema = value_schema(node, call, scope)
    nargs: Any = None if required else "?"
    if count < 0:
        nargs = "+" if required else "*"
    elif count > 1:
        nargs = count
    schema = many(schema, nargs)
    return Parameter(
        name=name,
        argument=Argument(name=name, nargs=nargs, after_dashes=True),
        schema=schema | about(call.text("help"), call.get("default", None)),
        required=required,
    )


def option_names(call: Call) -> Names:
    """Split `("-s", "--shout/--no-shout", "loud")` into a name, flags and flags that say no."""
    name, flags, off_flags = "", [], []
    for declared in call.arguments:
        if not isinstance(declared, str) or not declared:
            raise UncertainError("the name of an option is computed at run time", call.line)
        if declared.isidentifier():
            name = declared
            continue
        first, _, second = declared.partition(";" if declared.startswith("/") else "/")
        if first.strip():
            flags.append(first.strip())
        if second.strip():
            off_flags.append(second.strip())
    if not flags:
        raise UncertainError("an option has no flag", call.line)
    bare = _PREFIX.sub("", longest_prefix(flags), count=1)
    return Names(
        name=name or bare.replace("-", "_").lower(), flags=tuple(flags), off_flags=tuple(off_flags)
    )


def longest_prefix(flags: list[str] | tuple[str, ...]) -> str:
    """Return the first flag with the most dashes."""
    return max(flags, key=lambda flag: len(_PREFIX.match(flag)[0]))  # type: ignore[index]  # always matches


def value_schema(node: ast.Call, call: Call, scope: Scope) -> JsonSchema:
    """Return the schema of one value: from the type, else from the default."""
    types = [keyword.value for keyword in node.keywords if keyword.arg == "type"]
    if types:
        return _type_schema(types[0], scope)
    default = call.get("default", None)
    if call.is_set("multiple") and isinstance(default, list | tuple) and default:
        default = default[0]
    kinds = {bool: "boolean", int: "integer", float: "number"}
    return {"type": kinds.get(type(default), "string")}


def _type_schema(node: ast.expr, scope: Scope) -> JsonSchema:
    value = scope.value(node)
    if isinstance(value, Enumeration):
        return enum_schema([member.name for member in value.members])
    name = value.name if isinstance(value, Reference) else getattr(value, "origin", "")
    name = name.replace("rich_click.", "click.")
    schema: JsonSchema = {"type": _TYPES.get(name, "string")}
    if not isinstance(node, ast.Call) or not isinstance(value, Foreign):
        return schema
    call = read_call(node, scope)
    if name == "click.Choice":
        choices = items_of(call.arguments[0]) if call.arguments else None
        if choices and all(isinstance(choice, str) for choice in choices):
            return schema | {"enum": choices}
    if name in ("click.IntRange", "click.FloatRange"):
        return schema | _range(call)
    return schema


def _range(call: Call) -> JsonSchema:
    bounds: JsonSchema = {}
    for position, (name, open_name, key) in enumerate(
        (("min", "min_open", "minimum"), ("max", "max_open", "maximum"))
    ):
        given = call.arguments[position] if position < len(call.arguments) else call.get(name)
        if isinstance(given, int | float):
            exclusive = f"exclusive{key.capitalize()}"
            bounds[exclusive if call.is_set(open_name) else key] = given
    return bounds


def many(schema: JsonSchema, nargs: Any) -> JsonSchema:
    """Return the schema of as many values as `nargs` asks for."""
    if nargs is None or nargs == "?":
        return schema
    length: JsonSchema = {"minItems": 1} if nargs == "+" else {}
    if isinstance(nargs, int):
        length = {"minItems": nargs, "maxItems": nargs}
    return {"type": "array", "items": schema, **length}


def about(text: str, default: Any) -> JsonSchema:
    """Return the description and the default, where there is something to say."""
    said: JsonSchema = {"description": " ".join(text.split())} if text else {}
    if default is not None and default is not UNKNOWN and is_plain(default):
        said["default"] = list(default) if isinstance(default, tuple) else default
    return said


def _nargs(call: Call) -> int | None:
    count = call.get("nargs", 1)
    if type(count) is not int or count < 1:
        raise UncertainError("the number of values of an option is computed", call.line)
    return count if count > 1 else None


def _checked(node: ast.Call, scope: Scope) -> Call:
    call = read_call(node, scope)
    if not call.complete or "cls" in call.keywords:
        raise UncertainError("an option is declared with values known only at run time", call.line)
    return call
