"""What a script takes from around itself: environment variables, its argv, a person's answer."""

import ast
from dataclasses import dataclass

from skillpouch.signatures.python.outline import Outline

_ASKING = {"getpass.getpass", "builtins.input"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    variables: tuple[str, ...]
    reads_argv: bool
    reads_input: bool


def surroundings_of(outline: Outline) -> Surroundings:
    """Look through the marked expressions of a script."""
    nodes = [node for expression in outline.marked for node in ast.walk(expression)]
    return Surroundings(
        variables=tuple(sorted({name for node in nodes if (name := _variable(node, outline))})),
        reads_argv=any(
            isinstance(node, ast.Name | ast.Attribute) and outline.dotted(node) == "sys.argv"
            for node in nodes
        ),
        reads_input=any(isinstance(node, ast.Call) and _asks(node, outline) for node in nodes),
    )


def _variable(node: ast.AST, outline: Outline) -> str:
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
        return _text(node.slice) if outline.dotted(node.value) == "os.environ" else ""
    if isinstance(node, ast.Call) and node.args:
        read = outline.dotted(node.func) in {"os.getenv", "os.environ.get", "os.environ.pop"}
        return _text(node.args[0]) if read else ""
    if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
        return _text(node.left) if outline.dotted(node.comparators[0]) == "os.environ" else ""
    return ""


def _text(node: ast.expr) -> str:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def _asks(node: ast.Call, outline: Outline) -> bool:
    if isinstance(node.func, ast.Name) and node.func.id == "input":
        return "input" not in outline.functions and "input" not in outline.origins
    return outline.dotted(node.func) in _ASKING
