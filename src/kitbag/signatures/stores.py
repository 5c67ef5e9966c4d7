"""Which names a block of statements sets, and to what when it sets them exactly once."""

import ast
from collections.abc import Iterable, Iterator

from kitbag.signatures.outline import BLOCKS

_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_CHANGING = frozenset(
    ("append", "add", "extend", "insert", "update", "remove", "pop", "clear", "setdefault", "sort")
)

Stores = dict[str, ast.expr | None]


def stores_of(body: Iterable[ast.stmt]) -> Stores:
    """Map each name to the one expression it is set to, or to None when there is more to it."""
    found: Stores = {}
    for node in _statements(body):
        for name, value in _sets(node):
            found[name] = None if name in found else value
    return found


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.AST]:
    pending = list[ast.AST](body)[::-1]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, _INNER):
            for block in BLOCKS.get(type(node), ())[::-1]:
                pending += getattr(node, block)[::-1]


def _sets(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _targets(target, node.value)
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        yield from _targets(node.target, node.value if isinstance(node, ast.AnnAssign) else None)
    elif isinstance(node, ast.Expr):
        yield from _changes(node.value)
    else:
        yield from _sets_to_parts(node)


def _sets_to_parts(node: ast.AST) -> Iterator[tuple[str, None]]:
    """Yield the names that a loop, a `with` or an `except` sets."""
    targets: list[ast.expr | None] = []
    if isinstance(node, ast.For | ast.AsyncFor):
        targets = [node.target]
    elif isinstance(node, ast.With | ast.AsyncWith):
        targets = [item.optional_vars for item in node.items]
    elif isinstance(node, ast.ExceptHandler) and node.name:
        yield node.name, None
    for target in targets:
        if target:
            for name, _ in _targets(target, None):
                yield name, None


def _targets(target: ast.expr, value: ast.expr | None) -> Iterator[tuple[str, ast.expr | None]]:
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


def _changes(node: ast.expr) -> Iterator[tuple[str, None]]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        owner = node.func.value
        if node.func.attr in _CHANGING and isinstance(owner, ast.Name):
            yield owner.id, None
