"""Values that an expression certainly has: literals, operators and calls of known functions."""

import ast
import operator
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from skillpouch.signatures.python.values import (
    UNKNOWN,
    Enumeration,
    Foreign,
    NameResolver,
    Reference,
    Unknown,
    is_plain,
)

# Enough for any list of choices or help text; a limit against scripts that compute huge values.
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


def operation(node: ast.BinOp, names: NameResolver) -> Any:
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


def unary(node: ast.UnaryOp, names: NameResolver) -> Any:
    """Compute `-a` and `not a`."""
    value = names.value(node.operand)
    if isinstance(node.op, ast.USub) and isinstance(value, int | float):
        return -value
    if isinstance(node.op, ast.Not) and is_plain(value):
        return not value
    return UNKNOWN


def either(node: ast.IfExp, names: NameResolver) -> Any:
    """Compute `a if test else b`; if the test is unknown, only if both are the same."""
    test = names.value(node.test)
    if is_plain(test):
        return names.value(node.body if test else node.orelse)
    body, orelse = names.value(node.body), names.value(node.orelse)
    return body if body is orelse or (type(body) is type(orelse) and body == orelse) else UNKNOWN


def any_or_all(node: ast.BoolOp, names: NameResolver) -> Any:
    """Compute `a or b` and `a and b` the way Python does: up to the first that decides."""
    certain = True
    value: Any = UNKNOWN
    for part in node.values:
        value = names.value(part)
        certain = certain and not isinstance(value, Unknown | Reference | Foreign)
        if certain and bool(value) is isinstance(node.op, ast.Or):
            return value
    return value if certain else UNKNOWN


def comparison(node: ast.Compare, names: NameResolver) -> Any:
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


_LONGEST_RANGE = 1_000


def fold(node: ast.expr, names: NameResolver) -> Any:
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


def _constant(node: ast.Constant, _: NameResolver) -> Any:
    return node.value


def _elements(nodes: Iterable[ast.expr], names: NameResolver) -> list[Any] | None:
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


def _sequence(node: ast.List | ast.Tuple | ast.Set, names: NameResolver) -> Any:
    values = _elements(node.elts, names)
    if values is None:
        return UNKNOWN
    # A set keeps the order it was written in: choices are shown in that order.
    return tuple(values) if isinstance(node, ast.Tuple) else values


def _dict(node: ast.Dict, names: NameResolver) -> Any:
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


def _joined(node: ast.JoinedStr, names: NameResolver) -> Any:
    text = ""
    for part in node.values:
        value = names.value(part)
        if not isinstance(value, str) or len(text) + len(value) > LONGEST_VALUE:
            return UNKNOWN
        text += value
    return text


def _formatted(node: ast.FormattedValue, names: NameResolver) -> Any:
    value = names.value(node.value)
    if node.format_spec is not None or not isinstance(value, str | int | float):
        return UNKNOWN
    return repr(value) if node.conversion == ord("r") else str(value)


def _subscript(node: ast.Subscript, names: NameResolver) -> Any:
    value = names.value(node.value)
    if isinstance(node.slice, ast.Slice):
        return _slice(value, node.slice, names)
    if not isinstance(value, list | tuple | dict | str):
        return UNKNOWN
    try:
        return value[names.value(node.slice)]
    except (TypeError, LookupError):
        return UNKNOWN


def _slice(value: Any, part: ast.Slice, names: NameResolver) -> Any:
    start = names.value(part.lower) if part.lower else 0
    if isinstance(value, Reference):
        # Enough to tell `sys.argv[1:]` from any other part of it.
        whole = part.upper is None and part.step is None and type(start) is int
        return Reference(f"{value.name}[{start if whole else '?'}:]")
    if part.upper or part.step or type(start) is not int:
        return UNKNOWN
    return value[start:] if isinstance(value, list | tuple | str) else UNKNOWN


def _awaited(node: ast.Await, names: NameResolver) -> Any:
    return names.value(node.value)


def _table(node: ast.DictComp, names: NameResolver) -> Any:
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


def _comprehension(node: ast.ListComp | ast.SetComp | ast.GeneratorExp, names: NameResolver) -> Any:
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


_STRING_METHODS: dict[str, Callable[..., str]] = {
    "lower": str.lower,
    "upper": str.upper,
    "title": str.title,
    "capitalize": str.capitalize,
    "strip": str.strip,
}


def call_builtin(name: str, arguments: list[Any]) -> Any:
    """Return what `list(x)`, `sorted(x)`, `range(3)` … give, UNKNOWN for anything else."""
    if name == "range" and all(type(argument) is int for argument in arguments):
        try:
            return range(*arguments)
        except (TypeError, ValueError):
            return UNKNOWN
    sequences = [items_of(argument) for argument in arguments]
    known = [sequence for sequence in sequences if sequence is not None]
    if not known or len(known) < len(sequences):
        return UNKNOWN
    builder = _BUILDERS.get(name)
    return builder(known) if builder else UNKNOWN


def call_method(owner: Any, method: str, arguments: list[Any]) -> Any:
    """Return what a method of a known string, list or dict gives, UNKNOWN for anything else."""
    if isinstance(owner, str):
        return _call_string_method(owner, method, arguments)
    if isinstance(owner, list | dict) and method == "copy":
        return owner.copy()
    return _dict_view(owner, method) if isinstance(owner, dict) and not arguments else UNKNOWN


def _call_string_method(owner: str, method: str, arguments: list[Any]) -> Any:
    if method in _STRING_METHODS and not arguments:
        return _STRING_METHODS[method](owner)
    if method == "split" and all(isinstance(part, str) and part for part in arguments[:1]):
        return owner.split(*arguments[:1])
    if method == "join" and len(arguments) == 1:
        return _join(owner, items_of(arguments[0]))
    return UNKNOWN


def _dict_view(owner: dict[Any, Any], method: str) -> Any:
    if method == "keys":
        return list(owner)
    if method == "values":
        return list(owner.values())
    if method == "items":
        return list(owner.items())
    return UNKNOWN


def _join(separator: str, parts: list[Any] | None) -> Any:
    if parts is None or not all(isinstance(part, str) for part in parts):
        return UNKNOWN
    if sum(map(len, parts)) + len(separator) * len(parts) > LONGEST_VALUE:
        return UNKNOWN
    return separator.join(parts)


def _same(known: list[list[Any]]) -> Any:
    return known[0]


def _tuple(known: list[list[Any]]) -> Any:
    return tuple(known[0])


def _sorted(known: list[list[Any]]) -> Any:
    try:
        return sorted(known[0])
    except TypeError:
        return UNKNOWN


def _unique(known: list[list[Any]]) -> Any:
    try:
        return list(dict.fromkeys(known[0]))
    except TypeError:
        return UNKNOWN


def _length(known: list[list[Any]]) -> Any:
    return len(known[0])


def _enumerate(known: list[list[Any]]) -> Any:
    return list(enumerate(known[0]))


def _zip(known: list[list[Any]]) -> Any:
    return list(zip(*known, strict=False))


def _reversed(known: list[list[Any]]) -> Any:
    return known[0][::-1]


_BUILDERS: dict[str, Callable[[list[list[Any]]], Any]] = {
    "list": _same,
    "tuple": _tuple,
    "iter": _same,
    "sorted": _sorted,
    "set": _unique,
    "frozenset": _unique,
    "len": _length,
    "enumerate": _enumerate,
    "zip": _zip,
    "reversed": _reversed,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ResolvedCall:
    """`complete` is False when `*values` or `**values` could not be resolved."""

    line: int
    arguments: list[Any] = field(default_factory=list)
    keywords: dict[str, Any] = field(default_factory=dict)
    complete: bool = True

    def text(self, keyword: str) -> str:
        value = self.keywords.get(keyword)
        return value if isinstance(value, str) else ""

    def is_set(self, keyword: str) -> bool:
        return self.keywords.get(keyword) is True

    def get(self, keyword: str, default: Any = UNKNOWN) -> Any:
        return self.keywords.get(keyword, default)


def read_call(node: ast.Call, names: NameResolver) -> ResolvedCall:
    """Compute the arguments of a call, `*` and `**` included where they are known."""
    arguments: list[Any] = []
    keywords: dict[str, Any] = {}
    complete = True
    for argument in node.args:
        if not isinstance(argument, ast.Starred):
            arguments.append(names.value(argument))
            continue
        spread = items_of(names.value(argument.value))
        complete = complete and spread is not None
        arguments += spread or []
    for keyword in node.keywords:
        value = names.value(keyword.value)
        if keyword.arg:
            keywords[keyword.arg] = value
        elif isinstance(value, dict) and all(isinstance(key, str) for key in value):
            keywords |= value
        else:
            complete = False
    return ResolvedCall(line=node.lineno, arguments=arguments, keywords=keywords, complete=complete)
