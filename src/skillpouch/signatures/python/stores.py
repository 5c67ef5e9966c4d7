"""Which names a block of statements sets, and to what when it sets them exactly once."""

import ast
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from skillpouch.signatures.python.outline import BLOCKS

_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_CHANGING = frozenset(
    ("append", "add", "extend", "insert", "update", "remove", "pop", "clear", "setdefault", "sort")
)

Stores = dict[str, ast.expr | None]
Set = tuple[str, ast.expr | None]


def stores_of(body: Iterable[ast.stmt]) -> Stores:
    """Map each name to the one expression it is set to, or to None when there is more to it."""
    found: Stores = {}
    pending = list[ast.AST](body)[::-1]
    while pending:
        node = pending.pop()
        kind = type(node)
        sets = _SETS.get(kind)
        if sets:
            for name, value in sets(node):
                found[name] = None if name in found else value
        if kind in BLOCKS and kind not in _INNER:
            for block in BLOCKS[kind][::-1]:
                pending += getattr(node, block)[::-1]
    return found


def _assign(node: ast.Assign) -> Iterator[Set]:
    for target in node.targets:
        yield from _targets(target, node.value)


def _annotated(node: ast.AnnAssign) -> Iterator[Set]:
    if node.value:
        yield from _targets(node.target, node.value)


def _changed(node: ast.AugAssign | ast.For | ast.AsyncFor) -> Iterator[Set]:
    return _targets(node.target, None)


def _with(node: ast.With | ast.AsyncWith) -> Iterator[Set]:
    for item in node.items:
        if item.optional_vars:
            yield from _targets(item.optional_vars, None)


def _except(node: ast.ExceptHandler) -> Iterator[Set]:
    if node.name:
        yield node.name, None


def _method(node: ast.Expr) -> Iterator[Set]:
    """Yield the list or dict that a method changes in place."""
    call = node.value
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
        owner = call.func.value
        if call.func.attr in _CHANGING and isinstance(owner, ast.Name):
            yield owner.id, None


def _targets(target: ast.expr, value: ast.expr | None) -> Iterator[Set]:
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name):
        yield target.value.id, None
        yield target.value.id, None
    elif isinstance(target, ast.Tuple | ast.List):
        parts: list[ast.expr | None] = [None] * len(target.elts)
        if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts):
            parts = list(value.elts)
        for element, part in zip(target.elts, parts, strict=True):
            yield from _targets(element, part)


_SETS: dict[type[ast.AST], Callable[[Any], Iterator[Set]]] = {
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _changed,
    ast.For: _changed,
    ast.AsyncFor: _changed,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.ExceptHandler: _except,
    ast.Expr: _method,
}
