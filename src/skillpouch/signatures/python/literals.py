"""The value of an expression, computed from its parts without running any of the script."""

import ast
from collections.abc import Callable, Iterable
from typing import Any

from skillpouch.signatures.python.literal_operators import (
    LONGEST_VALUE,
    any_or_all,
    comparison,
    either,
    operation,
    unary,
)
from skillpouch.signatures.python.values import UNKNOWN, Enumeration, Names, Reference

_LONGEST_RANGE = 1_000


def fold(node: ast.expr, names: Names) -> Any:
    """Compute a constant, a container, an operation or a comprehension; UNKNOWN otherwise."""
    folder = _FOLDERS.get(type(node))
    return folder(node, names) if folder else UNKNOWN


def items_of(value: Any) -> list[Any] | None:
    """Return what a loop over the value would see, None when that is not known."""
    if isinstance(value, range) and len(value) > _LONGEST_RANGE:
        return None
    if isinstance(value, list | tuple | dict | str | range):
        return list(value)
    return list(value.members) if isinstance(value, Enumeration) else None


def unpack(target: ast.expr, value: Any) -> dict[str, Any]:
    """Return the names that assigning `value` to `target` would set."""
    if isinstance(target, ast.Name):
        return {target.id: value}
    if isinstance(target, ast.Starred):
        return unpack(target.value, UNKNOWN)
    if not isinstance(target, ast.Tuple | ast.List):
        return {}
    parts = items_of(value) if isinstance(value, list | tuple) else None
    if parts is None or len(parts) != len(target.elts):
        parts = [UNKNOWN] * len(target.elts)
    names: dict[str, Any] = {}
    for element, part in zip(target.elts, parts, strict=True):
        names |= unpack(element, part)
    return names


def _constant(node: ast.Constant, _: Names) -> Any:
    return node.value


def _elements(nodes: Iterable[ast.expr], names: Names) -> list[Any] | None:
    values: list[Any] = []
    for node in nodes:
        if isinstance(node, ast.Starred):
            spread = items_of(names.value(node.value))
            if spread is None:
                return None
            values += spread
        else:
            values.append(names.value(node))
    return values


def _sequence(node: ast.List | ast.Tuple | ast.Set, names: Names) -> Any:
    values = _elements(node.elts, names)
    if values is None:
        return UNKNOWN
    # A set keeps the order it was written in: choices are shown in that order.
    return tuple(values) if isinstance(node, ast.Tuple) else values


def _dict(node: ast.Dict, names: Names) -> Any:
    result: dict[Any, Any] = {}
    for key_node, value_node in zip(node.keys, node.values, strict=True):
        value = names.value(value_node)
        if key_node is None:
            if not isinstance(value, dict):
                return UNKNOWN
            result |= value
            continue
        key = names.value(key_node)
        if key is UNKNOWN or isinstance(key, list | dict | set):
            return UNKNOWN
        try:
            result[key] = value
        except TypeError:  # a tuple of lists
            return UNKNOWN
    return result


def _joined(node: ast.JoinedStr, names: Names) -> Any:
    text = ""
    for part in node.values:
        value = names.value(part)
        if not isinstance(value, str) or len(text) + len(value) > LONGEST_VALUE:
            return UNKNOWN
        text += value
    return text


def _formatted(node: ast.FormattedValue, names: Names) -> Any:
    value = names.value(node.value)
    if node.format_spec is not None or not isinstance(value, str | int | float):
        return UNKNOWN
    return repr(value) if node.conversion == ord("r") else str(value)


def _subscript(node: ast.Subscript, names: Names) -> Any:
    value = names.value(node.value)
    if isinstance(node.slice, ast.Slice):
        return _slice(value, node.slice, names)
    if not isinstance(value, list | tuple | dict | str):
        return UNKNOWN
    try:
        return value[names.value(node.slice)]
    except (TypeError, LookupError):
        return UNKNOWN


def _slice(value: Any, part: ast.Slice, names: Names) -> Any:
    start = names.value(part.lower) if part.lower else 0
    if isinstance(value, Reference):
        # Enough to tell `sys.argv[1:]` from any other part of it.
        whole = part.upper is None and part.step is None and type(start) is int
        return Reference(f"{value.name}[{start if whole else '?'}:]")
    if part.upper or part.step or type(start) is not int:
        return UNKNOWN
    return value[start:] if isinstance(value, list | tuple | str) else UNKNOWN


def _awaited(node: ast.Await, names: Names) -> Any:
    return names.value(node.value)


def _table(node: ast.DictComp, names: Names) -> Any:
    loop = node.generators[0]
    items = items_of(names.value(loop.iter))
    if items is None or len(node.generators) > 1 or loop.ifs:
        return UNKNOWN
    table: dict[Any, Any] = {}
    for item in items:
        inner = names.given(unpack(loop.target, item))
        key = inner.value(node.key)
        if not isinstance(key, str | int):
            return UNKNOWN
        table[key] = inner.value(node.value)
    return table


def _comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp, names: Names) -> Any:
    loop = node.generators[0]
    items = items_of(names.value(loop.iter))
    if items is None or len(node.generators) > 1 or loop.ifs:
        return UNKNOWN
    return [names.given(unpack(loop.target, item)).value(node.elt) for item in items]


_FOLDERS: dict[type[ast.expr], Callable[..., Any]] = {
    ast.Constant: _constant,
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.Set: _sequence,
    ast.Dict: _dict,
    ast.BinOp: operation,
    ast.UnaryOp: unary,
    ast.IfExp: either,
    ast.BoolOp: any_or_all,
    ast.Compare: comparison,
    ast.JoinedStr: _joined,
    ast.FormattedValue: _formatted,
    ast.Subscript: _subscript,
    ast.Await: _awaited,
    ast.DictComp: _table,
    ast.ListComp: _comprehension,
    ast.SetComp: _comprehension,
    ast.GeneratorExp: _comprehension,
}
