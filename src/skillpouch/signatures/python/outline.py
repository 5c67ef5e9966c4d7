"""The outline of a program: its imports, functions, and which of them runs when it is started."""

import ast
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from skillpouch.signatures.python.lines import Lines, Marks
from skillpouch.signatures.python.values import FunctionNode

# No script that a person wrote is larger, and its tree would fill the memory.
LONGEST_TEXT = 1_000_000
# Python's own parser takes quadratic time for `import a.a.a…`: minutes for a long one.
_LONGEST_NAME = 1_000
_DOTTED_NAME = re.compile(r"(?<![\w.])(?>(?:\w++\s*+\.\s*+)+)")


class UnreadableError(Exception):
    """A text that is not Python, or would keep its parser busy for minutes."""

    def __init__(self, reason: str, line: int | None = None) -> None:
        self.reason = reason
        self.line = line
        super().__init__(reason)


def with_plain_lines(text: str) -> str:
    """Return a text without a byte order mark, each line ended as on Unix."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def parse_python(text: str) -> ast.Module:
    """Parse a program; raise UnreadableError if it is invalid, or would take too long."""
    if len(text) > LONGEST_TEXT:
        raise UnreadableError(f"too long to read: {len(text):,} characters")
    if _has_endless_name(text):
        raise UnreadableError(f"a name of more than {_LONGEST_NAME:,} parts")
    try:
        with warnings.catch_warnings():
            # Warnings about invalid escapes are for the author, not for the user of a skill.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        line = error.lineno or 1
        raise UnreadableError(f"line {line}: not valid Python ({error.msg})", line) from None
    except (ValueError, RecursionError, MemoryError) as error:
        reason = str(error) or "nested too deeply"
        raise UnreadableError(f"line 1: not valid Python ({reason})", 1) from None


def _has_endless_name(text: str) -> bool:
    if text.count(".") <= _LONGEST_NAME:
        return False
    return any(name[0].count(".") > _LONGEST_NAME for name in _DOTTED_NAME.finditer(text))


# Words of expressions that read variables, the command line, or a person's answer.
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


# Returns the text of a module of the same skill by the name that a script imports, "" if there is
# none; a relative name starts with dots.
ModuleText = Callable[[str], str]


@dataclass(slots=True, eq=False)
class Outline:
    """What one pass over a module's statements found.

    `origins` maps imported names to full names: `ap` → `argparse`, `Path` → `pathlib.Path`.
    `marked` are expressions that may read variables, the command line, or a person's answer.
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
    main_blocks: list[ast.If] = field(default_factory=list)
    is_submodule: bool = False  # it imports relatively, which fails in a file run by its path
    module_text: ModuleText | None = None  # for modules of the same skill

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
        elif isinstance(node, ast.ImportFrom):
            outline.is_submodule = outline.is_submodule or node.level > 0
        elif isinstance(node, ast.If) and _is_main_block(node):
            outline.main_blocks.append(node)


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


# Top-level calls of a library that only prepare something, and do no work for a caller.
_PREPARING = (
    "sys.path.",
    "sys.stdout.",
    "sys.stderr.",
    "os.environ.",
    "logging.",
    "warnings.",
    "random.",
    "locale.",
    "signal.",
    "atexit.",
    "typing.",
    "matplotlib.use",
    "dotenv.load_dotenv",
)
# Methods that set up a library, or fill a collection of the module itself.
_SETTING = frozenset(
    {
        *("seed", "manual_seed", "set_option", "set_printoptions", "set_theme", "set_style"),
        *("setLevel", "addHandler", "reconfigure", "basicConfig", "getLogger", "rebuild"),
        *("register", "__init_subclass__", "filterwarnings"),
    }
)
_FILLING = frozenset({"append", "extend", "insert", "update", "setdefault", "add", "register"})
# What acts even when its answer is only kept: `done = subprocess.run(…)`.
_ACTING = ("subprocess.", "os.system", "os.popen", "shutil.", "runpy.", "requests.", "httpx.")
_WRITING = frozenset({"print", "write", "write_text", "write_bytes", "writelines", "dump"})


def acts_when_run(outline: Outline) -> bool:
    """Tell whether running the file would do something beyond defining things; in doubt it does."""
    mains = outline.main_blocks
    # Main blocks first: most scripts have one, and looking through the rest takes longer.
    return any(map(acts, mains)) or any(
        _does(node, outline) for node in outline.tree.body if node not in mains
    )


def _is_main_block(node: ast.If) -> bool:
    """Tell whether a statement is `if __name__ == "__main__":`, either way round."""
    return any(isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test))


def acts(node: ast.If) -> bool:
    """Tell whether a main block does more than to say that the file must not be run."""
    return not all(
        isinstance(part, ast.Pass)
        or (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))
        # `raise SystemExit(main())` is not a refusal.
        or (isinstance(part, ast.Raise) and len(_calls_in(part)) <= 1)
        for part in node.body
    )


def mentions_when_run(outline: Outline, name: str) -> bool:
    """Tell whether running the file calls its own function of that name, or passes it on."""
    return any(
        isinstance(node, ast.Name) and node.id == name
        for statement in _statements_when_run(outline)
        for node in ast.walk(statement)
    )


def may_run(outline: Outline, name: str) -> bool:
    """Tell whether running the file may come to a definition of its own, in doubt that it may.

    It does not where a main block does other things, and nothing that these lead to names it.
    """
    if not any(map(acts, outline.main_blocks)):
        return True
    own = {**outline.functions, **outline.classes}
    if own[name].decorator_list:
        return True  # somebody else may call it
    todo: list[ast.stmt] = list(_statements_when_run(outline))
    seen: set[str] = set()
    while todo:
        found = {word for part in ast.walk(todo.pop()) for word in _words_of(part)} - seen
        seen |= found
        todo += [own[word] for word in found if word in own]
    return name in seen


def _words_of(node: ast.AST) -> tuple[str, ...]:
    if isinstance(node, ast.Name):
        return (node.id,)
    if isinstance(node, ast.Attribute):
        return (node.attr,)
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return (node.value,)  # globals()["main"]
    return ()


def _statements_when_run(outline: Outline) -> Iterator[ast.stmt]:
    definitions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return (node for node in outline.tree.body if not isinstance(node, definitions))


def _does(node: ast.stmt, outline: Outline) -> bool:
    if isinstance(node, ast.Expr):
        return _expression_does(node.value, outline)
    if isinstance(node, ast.While):
        return True
    # Handlers do not count: after a failed import, libraries print a message and exit, too.
    blocks = (name for name in BLOCKS.get(type(node), ()) if name != "handlers")
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return False
    if any(_does(child, outline) for name in blocks for child in getattr(node, name)):
        return True
    return isinstance(node, ast.Raise | ast.Assert) or any(
        _acts(call, outline) for part in _expressions(node) for call in _calls_in(part)
    )


def _expression_does(node: ast.expr, outline: Outline) -> bool:
    calls = _calls_in(node)
    if isinstance(node, ast.Call) and not _works(node, outline):
        # `sys.path.insert(0, str(Path(__file__).parent))`
        return any(_acts(call, outline) for call in calls)
    if calls:
        return any(_works(call, outline) for call in calls)
    return not isinstance(node, ast.Constant | ast.Name | ast.Attribute)


def _calls_in(node: ast.AST) -> list[ast.Call]:
    if isinstance(node, ast.Constant | ast.Name | ast.Attribute | ast.Lambda):
        return []
    return [part for part in ast.walk(node) if isinstance(part, ast.Call)]


def _works(call: ast.Call, outline: Outline) -> bool:
    """Tell whether a call whose answer nobody keeps does more than set up the module."""
    if outline.dotted(call.func).startswith(_PREPARING):
        return False
    if not isinstance(call.func, ast.Attribute):
        return True
    if call.func.attr in _SETTING:
        return False
    owner = call.func.value
    if isinstance(owner, ast.Call):  # globals().update(…)
        owner = owner.func
    return not (
        call.func.attr in _FILLING
        and isinstance(owner, ast.Name)
        and owner.id not in outline.origins
    )


def _acts(call: ast.Call, outline: Outline, depth: int = 3) -> bool:
    """Tell whether a call whose answer is kept may also print, write or start something."""
    if outline.dotted(call.func).startswith(_ACTING):
        return True
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    name = call.func.id if isinstance(call.func, ast.Name) else name
    if name in _WRITING:
        return True
    own = outline.functions.get(name) if isinstance(call.func, ast.Name) else None
    if own is None or not depth:
        return False
    return any(_acts(inner, outline, depth - 1) for part in own.body for inner in _calls_in(part))
