"""Which keys a `handler(args)` takes from its arguments, read from how it uses them."""

import ast
from dataclasses import dataclass
from typing import Any

from skillpouch.signatures.python.values import FunctionNode

_READING = ("get", "pop")
_OF_A_DICT = (*_READING, "items", "keys", "values", "copy", "setdefault", "update")


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key; a default that is no literal is None."""

    name: str
    required: bool
    default: Any = None


def keys_of(node: FunctionNode, parameter: str) -> list[Key] | None:
    """Return the keys in the order they are read, None when the arguments go elsewhere whole."""
    keys: dict[str, Key] = {}
    understood: set[int] = set()
    for part in ast.walk(node):
        found = _read(part, parameter)
        if found:
            owner, key = found
            understood.add(id(owner))
            if key:
                known = keys.get(key.name, key)
                keys[key.name] = Key(
                    name=key.name,
                    required=known.required and key.required,
                    default=key.default if known.default is None else known.default,
                )
    for part in ast.walk(node):
        if isinstance(part, ast.Name) and part.id == parameter and id(part) not in understood:
            return None
    return sorted(keys.values(), key=lambda key: not key.required)


def uses_attributes(node: FunctionNode, parameter: str) -> bool:
    """Tell whether the parameter is an object with attributes and not a dict: `args.path`."""
    return any(
        isinstance(part, ast.Attribute)
        and isinstance(part.value, ast.Name)
        and part.value.id == parameter
        and part.attr not in _OF_A_DICT
        for part in ast.walk(node)
    )


def _read(part: ast.AST, parameter: str) -> tuple[ast.Name, Key | None] | None:
    """Return the name that a use of the parameter stands on, and the key it takes."""
    if isinstance(part, ast.Subscript) and isinstance(part.ctx, ast.Load):
        return _key(part.value, part.slice, parameter, required=True)
    if isinstance(part, ast.Call):
        return _read_by_method(part, parameter)
    if isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.In | ast.NotIn):
        return _key(part.comparators[0], part.left, parameter)
    if isinstance(part, ast.UnaryOp) and isinstance(part.op, ast.Not):
        owner = part.operand
        if isinstance(owner, ast.Name) and owner.id == parameter:
            return owner, None
    return None


def _read_by_method(call: ast.Call, parameter: str) -> tuple[ast.Name, Key | None] | None:
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _READING or not call.args:
        return None
    default = call.args[1] if len(call.args) > 1 else None
    return _key(call.func.value, call.args[0], parameter, default=default)


def _key(
    owner: ast.expr,
    name: ast.expr,
    parameter: str,
    *,
    required: bool = False,
    default: ast.expr | None = None,
) -> tuple[ast.Name, Key | None] | None:
    if not isinstance(owner, ast.Name) or owner.id != parameter:
        return None
    if not isinstance(name, ast.Constant) or not isinstance(name.value, str):
        return None
    if name.value == "__workDir":  # given by the runtime, not by a caller
        return owner, None
    return owner, Key(name=name.value, required=required, default=_literal(default))


def _literal(node: ast.expr | None) -> Any:
    if node is None:
        return None
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
