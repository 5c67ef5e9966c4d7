"""A script seen once from above: its definitions, its imports, and where it looks around itself."""

import ast
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from skillpouch.signatures.python.lines import Lines, Marks
from skillpouch.signatures.python.values import FunctionNode

# Where a script looks around itself: variables, its command line, a person's answer.
_MARKED_WORDS = ("environ", "getenv", "argv", "input(", "getpass(")

# Which fields of a statement hold statements. All others hold expressions.
BLOCKS: dict[type[ast.AST], tuple[str, ...]] = {
    ast.Module: ("body",),
    ast.FunctionDef: ("body",),
    ast.AsyncFunctionDef: ("body",),
    ast.ClassDef: ("body",),
    ast.If: ("body", "orelse"),
    ast.For: ("body", "orelse"),
    ast.AsyncFor: ("body", "orelse"),
    ast.While: ("body", "orelse"),
    ast.With: ("body",),
    ast.AsyncWith: ("body",),
    ast.Try: ("body", "handlers", "orelse", "finalbody"),
    ast.TryStar: ("body", "handlers", "orelse", "finalbody"),
    ast.ExceptHandler: ("body",),
    ast.Match: ("cases",),
    ast.match_case: ("body",),
}


@dataclass(slots=True, eq=False)
class Outline:
    """What the one pass over a module's statements found.

    `origins` says what an imported name stands for: `ap` → `argparse`, `Path` → `pathlib.Path`.
    `marked` holds the expressions in which a script may look around itself.
    """

    text: str
    tree: ast.Module
    lines: Lines
    functions: dict[str, FunctionNode] = field(default_factory=dict)
    classes: dict[str, ast.ClassDef] = field(default_factory=dict)
    definitions: list[FunctionNode | ast.ClassDef] = field(default_factory=list)
    origins: dict[str, str] = field(default_factory=dict)
    imports: set[str] = field(default_factory=set)
    global_names: set[str] = field(default_factory=set)
    marked: list[ast.AST] = field(default_factory=list)

    def dotted(self, node: ast.expr) -> str:
        """Return the full name of an imported thing, "" for anything else."""
        if isinstance(node, ast.Name):
            return self.origins.get(node.id, "")
        if isinstance(node, ast.Attribute):
            owner = self.dotted(node.value)
            return f"{owner}.{node.attr}" if owner else ""
        return ""


def outline_of(text: str, tree: ast.Module) -> Outline:
    """Pass once over every statement; keep expressions only where a marked word stands."""
    outline = Outline(text=text, tree=tree, lines=Lines(text))
    marks = Marks()
    marks.add(line for word in _MARKED_WORDS for line in outline.lines.of(word))
    pending: list[tuple[ast.AST, bool]] = [(tree, bool(marks))]
    while pending:
        node, is_marked = pending.pop()
        for block in BLOCKS[type(node)]:
            for child in getattr(node, block):
                child_is_marked = is_marked and marks.within_node(child)
                if child_is_marked:
                    outline.marked += _expressions(child)
                kind = type(child)
                if kind in BLOCKS:
                    pending.append((child, child_is_marked))
                note = _NOTES.get(kind)
                if note:
                    note(child, outline)
    _note_top_level(outline)
    return outline


def _note_definition(node: FunctionNode | ast.ClassDef, outline: Outline) -> None:
    outline.definitions.append(node)


def _note_global(node: ast.Global, outline: Outline) -> None:
    outline.global_names.update(node.names)


def _note_top_level(outline: Outline) -> None:
    for node in outline.tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            outline.functions[node.name] = node
        elif isinstance(node, ast.ClassDef):
            outline.classes[node.name] = node


def _note_import(node: ast.Import, outline: Outline) -> None:
    for alias in node.names:
        outline.imports.add(alias.name)
        top = alias.name.partition(".")[0]
        outline.origins[alias.asname or top] = alias.name if alias.asname else top


def _note_import_from(node: ast.ImportFrom, outline: Outline) -> None:
    module = "." * node.level + (node.module or "")
    for alias in node.names:
        origin = module + alias.name if module.endswith(".") else f"{module}.{alias.name}"
        outline.imports.add(module if node.module else origin)
        outline.origins[alias.asname or alias.name] = origin


_NOTES: dict[type[ast.AST], Callable[[Any, Outline], None]] = {
    ast.FunctionDef: _note_definition,
    ast.AsyncFunctionDef: _note_definition,
    ast.ClassDef: _note_definition,
    ast.Import: _note_import,
    ast.ImportFrom: _note_import_from,
    ast.Global: _note_global,
}


def _expressions(node: ast.AST) -> list[ast.AST]:
    statements = BLOCKS.get(type(node), ())
    return [
        part
        for name, value in ast.iter_fields(node)
        if name not in statements
        for part in (value if isinstance(value, list) else [value])
        if isinstance(part, ast.AST)
    ]
