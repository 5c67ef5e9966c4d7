"""The body of a Python function, made into the script of a tool."""

import ast
import io
import tokenize
import warnings
from collections.abc import Iterator

_INDENT = "    "
_ASYNC = (ast.Await, ast.AsyncFor, ast.AsyncWith)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_FSTRING_START = getattr(tokenize, "FSTRING_START", -1)
_FSTRING_END = getattr(tokenize, "FSTRING_END", -1)


class NotPythonError(Exception):
    """A text that is not the body of a Python function."""


def python_module(code: str, description: str) -> str:
    """Return a script whose `handler(args)` does what the code says.

    The code is the body of that function, or a module that defines it. Nothing else in it
    changes: not a character of a string, not a line that could end up outside the function.
    """
    # As Python reads a file: other line ends would count differently here and there.
    text = code.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    # Not before the third line: in the first two a word could be taken for the encoding.
    source = f"# Made by define_tool.\n#\n# {description}\n\n\n{_module(text)}\n"
    _compiled(source)
    return source


def _module(text: str) -> str:
    if text[:1].isspace():
        return _function(text, _body_of(f"if True:\n{text}"))
    tree = _parsed(text)
    if _defines_handler(tree):
        return text
    return _function("\n".join(_indented(text)), tree.body)


def _defines_handler(tree: ast.Module) -> bool:
    functions = ast.FunctionDef | ast.AsyncFunctionDef
    return any(isinstance(node, functions) and node.name == "handler" for node in tree.body)


def _function(body: str, wanted: list[ast.stmt]) -> str:
    head = "async def" if any(map(_waits, wanted)) else "def"
    module = f"{head} handler(args):\n{body}"
    if _shape(_body_of(module)) != _shape(wanted):
        raise NotPythonError("not valid as the body of a function")
    return module


def _body_of(text: str) -> list[ast.stmt]:
    """Return what is inside the one statement of a text."""
    node, *others = _parsed(text).body
    if others:
        raise NotPythonError("not valid as the body of a function: its indentation ends")
    assert isinstance(node, ast.If | ast.FunctionDef | ast.AsyncFunctionDef)
    return node.body


def _indented(text: str) -> Iterator[str]:
    inside = _lines_inside_strings(text)
    for number, line in enumerate(text.split("\n"), start=1):
        yield line if number in inside or not line.strip() else f"{_INDENT}{line}"


def _lines_inside_strings(text: str) -> set[int]:
    """Return the lines that begin inside a string: what is put before them becomes part of it."""
    found: set[int] = set()
    opened: list[int] = []
    for token in tokenize.generate_tokens(io.StringIO(f"{text}\n").readline):
        if token.type == _FSTRING_START:
            opened.append(token.start[0])
        elif token.type == _FSTRING_END:
            found.update(range(opened.pop() + 1, token.end[0] + 1))
        elif token.type == tokenize.STRING:
            found.update(range(token.start[0] + 1, token.end[0] + 1))
    return found


def _waits(node: ast.AST) -> bool:
    """Tell whether a statement awaits something, not counting functions inside it."""
    if isinstance(node, _ASYNC) or (isinstance(node, ast.comprehension) and node.is_async):
        return True
    if isinstance(node, _SCOPES):
        return False
    return any(map(_waits, ast.iter_child_nodes(node)))


def _shape(body: list[ast.stmt]) -> list[str]:
    return [ast.dump(node) for node in body]


def _parsed(text: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            # An escape that Python frowns upon is its author's business.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        raise NotPythonError(f"line {error.lineno or 1}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise NotPythonError(f"not valid Python: {str(error) or 'nested too deeply'}") from None


def _compiled(source: str) -> None:
    """Refuse what parses and is still no program: `break` outside a loop, `return` in a class."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "tool", "exec", dont_inherit=True)
    except SyntaxError as error:
        raise NotPythonError(f"{error.msg}: {(error.text or '').strip()!r:.80}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise NotPythonError(f"not valid Python: {str(error) or 'nested too deeply'}") from None
