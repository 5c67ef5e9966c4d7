"""What a Python script imports: each name, its line, and whether the script can do without."""

import ast
import warnings
from collections.abc import Iterable
from typing import NamedTuple

from skillpouch.signatures.python.outline import BLOCKS
from skillpouch.signatures.python.reading import read_python

_CAUGHT = frozenset({"ImportError", "ModuleNotFoundError", "Exception", "BaseException"})


class Import(NamedTuple):
    """One imported module; a relative one starts with dots. `names` are what `from` takes."""

    module: str
    line: int
    optional: bool = False
    names: tuple[str, ...] = ()


def python_imports(text: str) -> list[Import]:
    """Return the imports of a script in order; none when it is not Python.

    Optional is what is tried with `except ImportError`, or only there for type checkers.
    """
    # It refuses what would keep Python's parser busy for minutes, and finds most scripts simple.
    if not read_python(text).imports:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n"))
    found: list[Import] = []
    pending: list[tuple[ast.AST, bool]] = [(tree, False)]
    while pending:
        node, optional = pending.pop()
        found += _imports(node, optional=optional)
        pending += [(child, optional or _is_spared(node, block)) for block, child in _inside(node)]
    return sorted(found, key=lambda each: each.line)


def _inside(node: ast.AST) -> Iterable[tuple[str, ast.AST]]:
    blocks = BLOCKS.get(type(node), ())
    return ((block, child) for block in blocks for child in getattr(node, block))


def _imports(node: ast.AST, *, optional: bool) -> list[Import]:
    if isinstance(node, ast.Import):
        return [Import(alias.name, node.lineno, optional) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        names = tuple(alias.name for alias in node.names)
        return [Import("." * node.level + (node.module or ""), node.lineno, optional, names)]
    return []


def _is_spared(node: ast.AST, block: str) -> bool:
    """Tell whether a script goes on without what this part of a statement imports."""
    if isinstance(node, ast.Try | ast.TryStar):
        # What a handler imports instead is as optional as what could not be had.
        return block != "finalbody" and any(map(_catches_imports, node.handlers))
    if isinstance(node, ast.If) and block == "body":
        test = node.test
        return getattr(test, "id", getattr(test, "attr", "")) == "TYPE_CHECKING"
    return False


def _catches_imports(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return not _gives_up(handler)
    caught = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {getattr(each, "id", getattr(each, "attr", "")) for each in caught}
    return bool(names & _CAUGHT) and not _gives_up(handler)


def _gives_up(handler: ast.ExceptHandler) -> bool:
    """Tell whether a handler ends the script: then what it waited for is needed after all."""
    last = handler.body[-1]
    if isinstance(last, ast.Raise):
        return True
    called = last.value.func if _is_call(last) else None  # type: ignore[attr-defined]  # an Expr
    return getattr(called, "id", getattr(called, "attr", "")) in {"exit", "_exit", "quit"}


def _is_call(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
