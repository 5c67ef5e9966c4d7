"""Reads the interface of a Python program without running it."""

import ast
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace

from skillpouch.signatures.hand_written.hand_written import OwnUsage, read_hand_written
from skillpouch.signatures.hand_written.tracking import HandWrittenProgram
from skillpouch.signatures.python.argparse_reading import read_argparse
from skillpouch.signatures.python.click import read_click
from skillpouch.signatures.python.docstrings import leading_comment, leading_docstring
from skillpouch.signatures.python.functions import read_fire, read_handler, read_main
from skillpouch.signatures.python.outline import (
    LONGEST_TEXT,
    ModuleText,
    Outline,
    UnreadableError,
    acts_when_run,
    outline_of,
    parse_python,
    with_plain_lines,
)
from skillpouch.signatures.python.pep723 import read_dependencies
from skillpouch.signatures.python.typer import read_typer
from skillpouch.signatures.python.values import UncertainError
from skillpouch.signatures.signature import Interface, Signature, first_paragraph
from skillpouch.signatures.usage_lines import argument_list, listed_flags, own_usage

_ASKING = {"getpass.getpass", "builtins.input"}
_CALLED = ("handler", "main")  # by Skillpouch, whether or not the file calls them itself


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgramFacts:
    variables: tuple[str, ...]
    reads_argv: bool
    reads_input: bool


def facts_of(outline: Outline) -> ProgramFacts:
    """Look through the marked expressions of a script."""
    nodes = [node for expression in outline.marked for node in ast.walk(expression)]
    return ProgramFacts(
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


_TESTING = frozenset({"pytest", "unittest"})

_OF_WORDS = ("argparse", "click", "typer")  # readers of programs that certainly take words

# Libraries that derive an interface from a program at run time, so that it cannot be read.
_NOT_READ = ("optparse", "docopt", "absl.flags", "absl", "tap", "plac", "cyclopts")

# Descriptions without information, such as "Main entry point."
_SAYS_NOTHING = re.compile(
    r"(?:(?:the|main|cli|script|command[- ]?line|program|entry|point|function|interface|run|for)"
    r"[\s.-]*)*",
    re.IGNORECASE,
)

_READERS: tuple[Callable[[Outline], Signature | None], ...] = (
    read_handler,
    read_argparse,
    read_click,
    read_typer,
    read_fire,
    read_main,
)


def read_python(
    text: str, *, filename: str = "", module_text: ModuleText | None = None
) -> Signature:
    """Return the signature of a script; never raises, whatever the text."""
    text = with_plain_lines(text)
    try:
        tree = parse_python(text)
    except UnreadableError as error:
        return _unreadable(text, error.reason, error.line)
    try:
        return _read(text, tree, filename, module_text)
    except RecursionError:
        return _unreadable(text, "its definitions are nested too deeply to follow", None)


def _read(text: str, tree: ast.Module, filename: str, module_text: ModuleText | None) -> Signature:
    outline = outline_of(text, tree)
    outline.module_text = module_text
    surroundings = facts_of(outline)
    signature = _interface(outline, surroundings, filename)
    description = _description(outline) or signature.interface.description or leading_comment(text)
    return replace(
        signature,
        interface=replace(signature.interface, description=description),
        variables=surroundings.variables,
        dependencies=read_dependencies(text),
        imports=frozenset(outline.imports),
        has_entry=signature.interface.convention in _CALLED or acts_when_run(outline),
        is_submodule=outline.is_submodule,
        is_test=bool(_TESTING & {name.partition(".")[0] for name in outline.imports}),
        reads_input=surroundings.reads_input,
    )


def _interface(outline: Outline, surroundings: ProgramFacts, filename: str) -> Signature:
    reader = ""
    try:
        for read in _READERS:
            reader = read.__name__.removeprefix("read_")
            if signature := read(outline):
                return signature
    except UncertainError as error:
        reads_words = reader in _OF_WORDS
        words = argument_list("", own_usage(outline.text, filename)) if reads_words else None
        return Signature(
            reader=reader,
            interface=words or Interface(convention="stdin"),
            uncertain=error.reason,
            uncertain_line=error.line,
        )
    library = next((name for name in _NOT_READ if name in outline.imports), None)
    if library:
        return Signature(
            reader="comments",
            interface=Interface(convention="stdin"),
            uncertain=f"its command line is read by {library}",
        )
    if surroundings.reads_argv:
        return _words(outline, filename)
    found = None if _INPUT.search(outline.text) else _entry_elsewhere(outline, filename)
    return found or Signature(reader="comments", interface=Interface(convention="stdin"))


_INPUT = re.compile(r"\bstdin\b|\binput\(")
_LEAVING = frozenset({"sys.exit", "exit", "quit", "SystemExit", "asyncio.run"})


def _entry_elsewhere(outline: Outline, filename: str) -> Signature | None:
    """Return the interface of a script that leaves all of its work to code of another file.

    That is the last call when it runs, without arguments: `main()` of a module of the skill, which
    is read in its place; or of a package, which may read any words.
    """
    origins = _last_called(outline)
    for origin in origins:
        module = origin.rpartition(".")[0]
        text = outline.module_text(module) if outline.module_text and module else ""
        if text:
            found = read_python(text, filename=filename)
            takes_words = found.interface.convention == "argv" or found.commands
            return found if takes_words else None
        if origin.partition(".")[0] not in sys.stdlib_module_names and not origin.startswith("."):
            words = argument_list("", own_usage(outline.text, filename))
            return Signature(reader="comments", interface=words)
    return None


def _last_called(outline: Outline) -> list[str]:
    """Return where the function comes from that is called at last, and what decorates it."""
    body = outline.main_blocks[-1].body if outline.main_blocks else outline.tree.body
    node: ast.AST | None = body[-1] if body else None
    node = (
        getattr(node, "exc", None) if isinstance(node, ast.Raise) else getattr(node, "value", None)
    )
    while isinstance(node, ast.Call) and ast.unparse(node.func) in _LEAVING and node.args:
        node = node.args[0]
    if not isinstance(node, ast.Call) or node.args or node.keywords:
        return []
    own = outline.functions.get(node.func.id) if isinstance(node.func, ast.Name) else None
    if own is None:
        return [origin] if (origin := outline.dotted(node.func)) else []
    decorators = (each.func if isinstance(each, ast.Call) else each for each in own.decorator_list)
    return [origin for each in decorators if (origin := outline.dotted(each))]


_EXITS = frozenset({"sys.exit", "os._exit", "exit", "quit"})


def _words(outline: Outline, filename: str) -> Signature:
    """Return the interface of a script that reads the words of its command line by hand."""
    usage = own_usage(outline.text, filename)
    program = HandWrittenProgram(
        body=outline.tree.body,
        is_python=True,
        argv={"sys.argv": -1},
        origins=outline.origins,
        exits=_EXITS,
    )
    found = read_hand_written(program, OwnUsage(usage, listed_flags(outline.text)))
    return Signature(
        reader="argv",
        interface=found.interface or argument_list("", usage),
        uncertain=found.reason,
        uncertain_line=found.line,
    )


def _description(outline: Outline) -> str:
    functions = (outline.functions.get(name) for name in ("handler", "main"))
    documented = [outline.tree, *(node for node in functions if node)]
    texts = (first_paragraph(ast.get_docstring(node) or "") for node in documented)
    return next((text for text in texts if not _SAYS_NOTHING.fullmatch(text)), "")


def _unreadable(text: str, reason: str, line: int | None) -> Signature:
    head = text[:LONGEST_TEXT]
    description = first_paragraph(leading_docstring(head)) or leading_comment(head)
    return Signature(
        reader="comments",
        interface=_doubtful(head, description),
        uncertain=reason,
        uncertain_line=line,
        dependencies=read_dependencies(head),
    )


def _doubtful(text: str, description: str) -> Interface:
    """Return the likelier interface of an unreadable script: words if it mentions them."""
    if "argparse" in text or "sys.argv" in text:
        return argument_list(description, own_usage(text))
    return Interface(convention="stdin", description=description)
