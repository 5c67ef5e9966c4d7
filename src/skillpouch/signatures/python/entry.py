"""Whether a module is there to be run, and what it calls when it is."""

import ast
from collections.abc import Iterator

from skillpouch.signatures.python.outline import Outline

# Calls at the top of a library that prepare, but do nothing a caller would want done.
_PREPARING = (
    "sys.path.",
    "sys.stdout.",
    "sys.stderr.",
    "os.environ.",
    "logging.",
    "warnings.",
    "random.seed",
    "matplotlib.use",
    "dotenv.load_dotenv",
)


def has_entry(outline: Outline) -> bool:
    """Tell whether running the file would do something beyond defining things."""
    if any(isinstance(node, ast.ImportFrom) and node.level for node in outline.tree.body):
        return False  # an import from its own package fails in a file that is run by its path
    if "main" in outline.functions or "handler" in outline.functions:
        return True
    return any(
        not _refuses(node) if is_main_block(node) else _does(node, outline)
        for node in outline.tree.body
    )


def is_main_block(node: ast.stmt) -> bool:
    """Tell whether a statement is `if __name__ == "__main__":`, either way round."""
    return isinstance(node, ast.If) and any(
        isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test)
    )


def _refuses(node: ast.stmt) -> bool:
    """Tell whether a main block only says that the file is not to be run."""
    return isinstance(node, ast.If) and all(isinstance(part, ast.Raise) for part in node.body)


def mentions_when_run(outline: Outline, name: str) -> bool:
    """Tell whether running the file calls its own function of that name, or passes it on."""
    return any(
        isinstance(node, ast.Name) and node.id == name
        for statement in _statements_when_run(outline)
        for node in ast.walk(statement)
    )


def _statements_when_run(outline: Outline) -> Iterator[ast.stmt]:
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return (node for node in outline.tree.body if not isinstance(node, definitions))


def _does(node: ast.stmt, outline: Outline) -> bool:
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Call | ast.Await) and not _prepares(node.value, outline)
    if isinstance(node, ast.If | ast.For | ast.AsyncFor | ast.While):
        return any(_does(child, outline) for child in [*node.body, *node.orelse])
    # What happens when an import fails is no evidence: libraries print and leave, too.
    if isinstance(node, ast.Try):
        return any(_does(c, outline) for c in [*node.body, *node.orelse, *node.finalbody])
    if isinstance(node, ast.With | ast.AsyncWith):
        return any(_does(child, outline) for child in node.body)
    return isinstance(node, ast.Raise | ast.Assert)


def _prepares(node: ast.Call | ast.Await, outline: Outline) -> bool:
    called = node.func if isinstance(node, ast.Call) else node
    return outline.dotted(called).startswith(_PREPARING)
