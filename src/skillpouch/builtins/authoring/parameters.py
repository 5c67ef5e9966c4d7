"""Parameters as models write them, made into what a tools.json holds: name → definition."""

import re
from typing import Any

from skillpouch.declarations.declared import DeclarationError
from skillpouch.declarations.parameters import read_parameters
from skillpouch.errors import ToolFaultError
from skillpouch.text import clean

Parameters = dict[str, dict[str, Any]]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")  # what every model provider accepts
_OURS = "__workDir"
_TYPES = ("string", "number", "boolean", "object", "array")
_NOT_HERE = ("$ref", "$defs", "definitions", "allOf", "anyOf", "oneOf")


def read_definitions(given: Any) -> Parameters:
    """Return each parameter with a type and a description; raise ToolFaultError when it has none.

    A map of names, a list and a JSON Schema for an object are all understood.
    """
    try:
        schema = read_parameters({"parameters": given}) or {}
        if any(key in schema for key in _NOT_HERE):
            raise _fault("a map of parameter names to their definitions is wanted")
        required = schema.get("required", [])
        found = {
            name: _definition(name, what, optional=name not in required)
            for name, what in schema.get("properties", {}).items()
        }
        read_parameters({"parameters": found})  # what was changed must still be a schema
    except DeclarationError as error:
        raise _fault(error.message.removeprefix("parameters: ")) from None
    return found


def _definition(name: str, what: Any, *, optional: bool) -> dict[str, Any]:
    if not _NAME.match(name) or name == _OURS:
        raise _fault(f"{name!r:.80} is not a name for a parameter: use letters, digits and '_'")
    if not isinstance(what, dict):
        raise _fault(f"{name!r} is not described by an object")
    kind, facts = _kind(name, what)
    described = " ".join(clean(str(what.get("description") or "")).split())
    definition = {
        **{key: value for key, value in what.items() if key not in ("type", "description")},
        **facts,
    }
    definition |= {"type": kind, "description": described or name.replace("_", " ")}
    return definition | ({"optional": True} if optional else {})


def _kind(name: str, what: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the type, one of those that tools.json has, and what else that takes."""
    kind = what.get("type")
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    if kind is None and _are_texts(what.get("enum")):
        kind = "string"
    if kind == "integer":
        return "number", {"multipleOf": 1}
    if kind not in _TYPES:
        raise _fault(f"{name!r} needs a 'type' out of {', '.join(_TYPES)}")
    return kind, {}


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(v, str) for v in values)


def _fault(message: str) -> ToolFaultError:
    example = '{"city": {"type": "string", "description": "which city"}}'
    return ToolFaultError("invalid_argument", f"parameters: {message}", hint=f"such as {example}")
