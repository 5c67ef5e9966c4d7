"""The JSON Schema of one argparse argument: what a caller may pass for it."""

from typing import Any

from skillpouch.signatures.python.argparse_arguments import SUPPRESS, Declared, Kind
from skillpouch.signatures.python.argparse_help import help_text
from skillpouch.signatures.python.literals import items_of
from skillpouch.signatures.python.values import UNKNOWN, Enumeration, Member, is_plain
from skillpouch.signatures.signature import JsonSchema

_SWITCHES = ("store_true", "store_false", "store_const", "append_const", "boolean_optional")
_TYPES: dict[Kind, type | tuple[type, ...]] = {
    "integer": int,
    "number": (int, float),
    "string": str,
}


def property_schema(declared: Declared, default: Any, prog: str) -> JsonSchema:
    """Return the schema of the argument's property; `default` counts set_defaults()."""
    schema = _shape(declared)
    if text := help_text(declared, default, prog):
        schema["description"] = text
    shown = _default(declared, default)
    if shown is not None:
        schema["default"] = shown
    return schema


def takes_many(declared: Declared) -> bool:
    """Tell whether one occurrence of the argument takes a list of values."""
    return declared.nargs is not None and declared.nargs != "?"


def _shape(declared: Declared) -> JsonSchema:
    if declared.action in _SWITCHES:
        return {"type": "boolean"}
    if declared.action == "count":
        return {"type": "integer", "minimum": 0}
    schema = _single(declared)
    if takes_many(declared):
        schema = {"type": "array", "items": schema, **_length(declared)}
    if declared.action == "append" or (declared.action == "extend" and not takes_many(declared)):
        return {"type": "array", "items": schema}
    return schema


def _length(declared: Declared) -> JsonSchema:
    if declared.nargs == "+":
        return {"minItems": 1}
    if isinstance(declared.nargs, int) and declared.action != "extend":
        return {"minItems": declared.nargs, "maxItems": declared.nargs}
    return {}


def _single(declared: Declared) -> JsonSchema:
    schema: JsonSchema = {"type": declared.kind}
    choices = declared.choices
    if isinstance(choices, range) and declared.kind == "integer" and choices.step == 1:
        return schema | {"minimum": choices.start, "maximum": choices.stop - 1}
    values = items_of(choices)
    if values is None and isinstance(declared.type, Enumeration):
        values = list(declared.type.members)
    if values:
        enum = [_choice(value, declared) for value in values if value is not None]
        if all(isinstance(value, _TYPES[declared.kind]) for value in enum):
            return schema | {"enum": list(dict.fromkeys(enum))}
    return schema


def _choice(value: Any, declared: Declared) -> Any:
    """Return the text a caller passes for a choice, or its number when the type is one."""
    if isinstance(value, Member):
        value = value.value if isinstance(declared.type, Enumeration) else UNKNOWN
    if declared.kind == "string" and isinstance(value, int | float):
        return str(value)
    return value


def _default(declared: Declared, default: Any) -> Any:
    if isinstance(default, Member) and isinstance(declared.type, Enumeration):
        default = default.value
    if default is None or default == SUPPRESS or not is_plain(default):
        return None
    if declared.action in _SWITCHES:
        usual = declared.action in ("store_true", "store_const", "append_const")
        return default if isinstance(default, bool) and not (usual and not default) else None
    if takes_many(declared) or declared.action in ("append", "extend"):
        items = [_value(item, declared) for item in default] if isinstance(default, list) else []
        return items if items and None not in items else None
    return None if declared.action == "count" and not default else _value(default, declared)


def _value(value: Any, declared: Declared) -> Any:
    """Return a default as its property would hold it, None when it would not fit."""
    kind = "integer" if declared.action == "count" else declared.kind
    if kind == "string":
        return str(value) if isinstance(value, str | int | float) else None
    if isinstance(value, str):
        # argparse puts a default that is text through the type.
        try:
            return int(value) if kind == "integer" else float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, _TYPES[kind]):
        return None
    return value
