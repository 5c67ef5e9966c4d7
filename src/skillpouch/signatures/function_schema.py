"""Makes the JSON Schema of a live Python function from annotations, defaults and docstring."""

import dataclasses
import enum
import functools
import inspect
import json
import pathlib
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from skillpouch.signatures.python.docstrings import documented_parameters
from skillpouch.signatures.signature import JsonSchema

_SIMPLE: dict[Any, JsonSchema] = {
    str: {"type": "string"},
    int: {"type": "integer"},
    float: {"type": "number"},
    bool: {"type": "boolean"},
    type(None): {"type": "null"},
    dict: {"type": "object"},
    list: {"type": "array"},
    tuple: {"type": "array"},
    set: {"type": "array"},
}
_LISTS = (list, tuple, set, frozenset, Sequence)


def function_schema(function: Callable[..., Any]) -> JsonSchema:
    """Return the schema of a function's parameters; `**kwargs` leaves it open."""
    parameters = inspect.signature(function).parameters
    hints = _hints(function)
    documented = documented_parameters(inspect.getdoc(function))
    properties: dict[str, JsonSchema] = {}
    required: list[str] = []
    is_open = False
    for name, parameter in parameters.items():
        if parameter.kind is parameter.VAR_KEYWORD:
            is_open = True
        elif parameter.kind in (parameter.VAR_POSITIONAL, parameter.POSITIONAL_ONLY):
            raise TypeError(f"parameter {name!r} cannot be passed by name")
        else:
            properties[name] = _property(parameter, hints.get(name, Any))
            if name in documented and documented[name].description:
                properties[name].setdefault("description", documented[name].description)
            if parameter.default is parameter.empty:
                required.append(name)
    schema: JsonSchema = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    return schema if is_open else schema | {"additionalProperties": False}


def with_types(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function that takes JSON values, and makes paths and enumerations of texts."""
    kinds = {name: kind for name, hint in _hints(function).items() for kind in _made_of_text(hint)}
    if not kinds:
        return function

    @functools.wraps(function)
    def called(**arguments: Any) -> Any:
        for name in kinds.keys() & arguments.keys():
            if arguments[name] is not None:
                arguments[name] = kinds[name](arguments[name])
        return function(**arguments)

    return called


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    while isinstance(function, functools.partial):
        function = function.func
    return typing.get_type_hints(function, include_extras=True)


def _made_of_text(hint: Any) -> list[type]:
    parts = [hint, *get_args(hint)]
    kinds = [part for part in parts if isinstance(part, type)]
    return [kind for kind in kinds if issubclass(kind, pathlib.PurePath | enum.Enum)]


def _property(parameter: inspect.Parameter, hint: Any) -> JsonSchema:
    schema = dict(_schema(hint))
    default = parameter.default
    if default is not parameter.empty and default is not None and _is_json(default):
        schema["default"] = default
    return schema


def _schema(hint: Any, inside: tuple[type, ...] = ()) -> JsonSchema:
    """Return the schema of a hint; `inside` are the classes that are being described."""
    origin, parts = get_origin(hint), get_args(hint)
    if origin is typing.Annotated:
        said = next((part for part in parts[1:] if isinstance(part, str)), "")
        return _schema(parts[0], inside) | ({"description": said} if said else {})
    if origin is not None:
        return _generic_schema(origin, parts, inside)
    return _class_schema(hint, inside) if isinstance(hint, type) else {}


def _generic_schema(origin: Any, parts: tuple[Any, ...], inside: tuple[type, ...]) -> JsonSchema:
    if origin is Literal:
        return {"enum": list(parts)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_schema(part, inside) for part in parts]}
    if origin is tuple and parts[-1:] != (...,):
        items = [_schema(part, inside) for part in parts]
        return {"type": "array", "prefixItems": items, "minItems": len(items), "items": False}
    if origin in _LISTS:
        return {"type": "array", "items": _schema(parts[0], inside)} if parts else {"type": "array"}
    return {"type": "object"} if origin in (dict, Mapping) else {}


def _class_schema(kind: type, inside: tuple[type, ...]) -> JsonSchema:
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if issubclass(kind, enum.Enum):
        return {"enum": [member.value for member in kind]}
    if issubclass(kind, pathlib.PurePath):
        return {"type": "string"}
    if typing.is_typeddict(kind) and kind not in inside:
        hints = typing.get_type_hints(kind)
        properties = {name: _schema(hint, (*inside, kind)) for name, hint in hints.items()}
        required = sorted(getattr(kind, "__required_keys__", ()))
        return {"type": "object", "properties": properties, "required": required}
    if dataclasses.is_dataclass(kind) or typing.is_typeddict(kind):
        return {"type": "object"}
    return {}


def _is_json(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
