"""The operators of Python on values that are known, within bounds that no script can exceed."""

import ast
import operator
import re
from collections.abc import Callable
from typing import Any

from skillpouch.signatures.python.values import (
    UNKNOWN,
    Foreign,
    Names,
    Reference,
    Unknown,
    is_plain,
)

# Enough for any list of choices or help text; too little for a program that grows one to harm us.
LONGEST_VALUE = 50_000
_LONGEST_BITS = 256

_OPERATORS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitOr: operator.or_,
}
_OPERANDS = (str, int, float, list, tuple, dict)
_WIDE_FORMAT = re.compile(r"%[^a-zA-Z%]*(?:\d{4}|\*)")


def operation(node: ast.BinOp, names: Names) -> Any:
    """Compute `a + b` and the like; a result that would be too large is unknown."""
    left, right = names.value(node.left), names.value(node.right)
    apply = _OPERATORS.get(type(node.op))
    if not apply or not isinstance(left, _OPERANDS) or not isinstance(right, _OPERANDS):
        return UNKNOWN
    if isinstance(node.op, ast.Mod) and isinstance(left, str) and not _can_format(left, right):
        return UNKNOWN
    if _too_large(node.op, left, right):
        return UNKNOWN
    try:
        return apply(left, right)
    except (TypeError, ValueError, ArithmeticError, KeyError):
        return UNKNOWN


def _can_format(template: str, values: Any) -> bool:
    parts = values if isinstance(values, tuple) else (values,)
    return not _WIDE_FORMAT.search(template) and all(
        isinstance(part, str | int | float) for part in parts
    )


def _too_large(operation: ast.operator, left: Any, right: Any) -> bool:
    if isinstance(operation, ast.Mult):
        for sequence, times in ((left, right), (right, left)):
            if isinstance(sequence, str | list | tuple) and isinstance(times, int):
                return len(sequence) * times > LONGEST_VALUE
    return _size(left) + _size(right) > LONGEST_VALUE


def _size(value: Any) -> int:
    if isinstance(value, str | list | tuple | dict):
        return len(value)
    if isinstance(value, int) and value.bit_length() > _LONGEST_BITS:
        return LONGEST_VALUE + 1
    return 1


def unary(node: ast.UnaryOp, names: Names) -> Any:
    """Compute `-a` and `not a`."""
    value = names.value(node.operand)
    if isinstance(node.op, ast.USub) and isinstance(value, int | float):
        return -value
    if isinstance(node.op, ast.Not) and is_plain(value):
        return not value
    return UNKNOWN


def either(node: ast.IfExp, names: Names) -> Any:
    """Compute `a if test else b`; without a known test, only when both are the same."""
    test = names.value(node.test)
    if is_plain(test):
        return names.value(node.body if test else node.orelse)
    body, orelse = names.value(node.body), names.value(node.orelse)
    return body if body is orelse or (type(body) is type(orelse) and body == orelse) else UNKNOWN


def any_or_all(node: ast.BoolOp, names: Names) -> Any:
    """Compute `a or b` and `a and b` the way Python does: up to the first that decides."""
    certain = True
    value: Any = UNKNOWN
    for part in node.values:
        value = names.value(part)
        certain = certain and not isinstance(value, Unknown | Reference | Foreign)
        if certain and bool(value) is isinstance(node.op, ast.Or):
            return value
    return value if certain else UNKNOWN


def comparison(node: ast.Compare, names: Names) -> Any:
    """Compute `a == b`, `a in b` or `a is None`."""
    left = names.value(node.left)
    right = names.value(node.comparators[0])
    compare = _COMPARISONS.get(type(node.ops[0]))
    if compare is None or len(node.ops) > 1 or left is UNKNOWN or right is UNKNOWN:
        return UNKNOWN
    if right is None and isinstance(node.ops[0], ast.Is | ast.IsNot):
        return compare(left, None)
    if not is_plain(left) or not is_plain(right):
        return UNKNOWN
    try:
        return compare(left, right)
    except TypeError:
        return UNKNOWN


def _is_in(item: Any, container: Any) -> bool:
    return item in container


def _is_not_in(item: Any, container: Any) -> bool:
    return item not in container


_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: _is_in,
    ast.NotIn: _is_not_in,
}
