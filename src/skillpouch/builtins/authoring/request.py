"""Checks what an agent passes to `define_tool`, and makes the files of a skill from it."""

import ast
import io
import json
import re
import tokenize
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

from skillpouch.declarations.declared import DeclarationError
from skillpouch.declarations.parameters import read_parameters
from skillpouch.errors import ToolFaultError
from skillpouch.signatures.javascript.statements import default_export
from skillpouch.signatures.javascript.tokens import Code, read_tokens
from skillpouch.signatures.python.pep723 import read_block
from skillpouch.text import clean

_IMPORT = re.compile(r"\s*import\b[^'\"`;]*?['\"][^'\"\n]+['\"][ \t]*;?[ \t]*(?:\n|\Z)")
_BRACKETS = frozenset(("(", ")", "[", "]", "{", "}", "${"))
# Words and operators that Python does not have: enough to recognise JavaScript.
_ONLY_HERE = re.compile(
    r"(?<![\w.$])(?:const|let|var|function|new|typeof)\s+[\w{\[(]|=>|===|!==|\|\||&&"
)


def is_javascript(code: str) -> bool:
    """Tell whether a text that is not Python looks like JavaScript."""
    return _ONLY_HERE.search(code) is not None


def javascript_module(code: str, description: str) -> str:
    """Return a module whose default export does what the code says.

    The code is the body of `async function handler(args)`, imports first if it has any, or a
    module that exports a function by itself.
    """
    text = code.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    tokens = read_tokens(text)
    _require_balance(tokens, text)
    module = text if default_export(tokens) is not None else _wrapped(text)
    # These two characters also end a line in JavaScript, and so the comment.
    said = " ".join(re.split(r"[\u2028\u2029]", description))
    return f"// {said}\n\n{module}\n"


def _wrapped(text: str) -> str:
    """Put the body into a function; imports must stay outside of it."""
    end = 0
    while found := _IMPORT.match(text, end):
        end = found.end()
    imports = text[:end].strip()
    head = f"{imports}\n\n" if imports else ""
    return f"{head}export default async function handler(args) {{\n{text[end:]}\n}}"


def _require_balance(code: Code, text: str) -> None:
    """Refuse a body that would close the function around it, or leave it open."""
    for position, token in enumerate(code.tokens):
        if (
            token.kind == "punctuation"
            and token.text in _BRACKETS
            and position not in code.partners
        ):
            line = text.count("\n", 0, token.start) + 1
            message = f"code: line {line}: {token.text!r} has no matching bracket"
            raise ToolFaultError("invalid_argument", message)


Parameters = dict[str, dict[str, Any]]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")  # what every model provider accepts
_OURS = "__workDir"
_TYPES = ("string", "number", "boolean", "object", "array")
_NOT_HERE = ("$ref", "$defs", "definitions", "allOf", "anyOf", "oneOf")


def read_definitions(given: Any) -> Parameters:
    """Return each parameter with a type and a description; raise ToolFaultError without a type.

    A map of names, a list and a JSON Schema for an object are all understood.
    """
    try:
        schema = read_parameters({"parameters": given}) or {}
        if any(key in schema for key in _NOT_HERE):
            raise _fault("map each parameter name to its definition")
        required = schema.get("required", [])
        found = {
            name: _definition(name, what, optional=name not in required)
            for name, what in schema.get("properties", {}).items()
        }
        read_parameters({"parameters": found})  # the result must still be a valid schema
    except DeclarationError as error:
        raise _fault(error.message.removeprefix("parameters: ")) from None
    return found


def _definition(name: str, what: Any, *, optional: bool) -> dict[str, Any]:
    if not _NAME.match(name) or name == _OURS:
        raise _fault(f"{name!r:.80} is not a name for a parameter: use letters, digits and '_'")
    if not isinstance(what, dict):
        raise _fault(f"{name!r} is not described by an object")
    kind, facts = _kind(name, what)
    described = " ".join(clean(str(what.get("description") or "")).split())
    definition = {
        **{key: value for key, value in what.items() if key not in ("type", "description")},
        **facts,
    }
    definition |= {"type": kind, "description": described or name.replace("_", " ")}
    return definition | ({"optional": True} if optional else {})


def _kind(name: str, what: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the type, one of those of tools.json, and further keywords that it needs."""
    kind = what.get("type")
    if isinstance(kind, list):
        kinds = [each for each in kind if each != "null"]
        kind = kinds[0] if len(kinds) == 1 else None
    if kind is None and _are_texts(what.get("enum")):
        kind = "string"
    if kind == "integer":
        return "number", {"multipleOf": 1}
    if kind not in _TYPES:
        raise _fault(f"{name!r} needs a 'type' out of {', '.join(_TYPES)}")
    return kind, {}


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(v, str) for v in values)


def _fault(message: str) -> ToolFaultError:
    example = '{"city": {"type": "string", "description": "which city"}}'
    return ToolFaultError("invalid_argument", f"parameters: {message}", hint=f"such as {example}")


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
    # The line ends that Python's parser counts; others would give different line numbers.
    text = code.replace("\r\n", "\n").replace("\r", "\n").strip("\n")
    # The description starts in the third line: in the first two, Python looks for an encoding.
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
    """Return the lines that begin inside a string: indenting them would change the string."""
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
            # Warnings, such as those for invalid escapes, are not reported to the agent.
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        raise NotPythonError(f"line {error.lineno or 1}: {error.msg}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise NotPythonError(f"not valid Python: {str(error) or 'nested too deeply'}") from None


def _compiled(source: str) -> None:
    """Refuse code that parses but does not compile: `break` outside a loop, `return` in a class."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "tool", "exec", dont_inherit=True)
    except SyntaxError as error:
        raise NotPythonError(f"{error.msg}: {(error.text or '').strip()!r:.80}") from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise NotPythonError(f"not valid Python: {str(error) or 'nested too deeply'}") from None


Language = Literal["python", "javascript"]
LANGUAGES: tuple[str, ...] = get_args(Language)
NAME = r"^[a-z][a-z0-9_]*$"
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1000
LONGEST_CODE = 200_000
_YES_AND_NO = {"true": True, "false": False, "yes": True, "no": False, "1": True, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRequest:
    """A tool to be made; `source` is the whole script, `parameters` as tools.json has them."""

    name: str
    description: str
    parameters: Parameters
    language: Language
    source: str
    persistent: bool = False

    @property
    def skill(self) -> str:
        """The name of its skill: `fetch_weather` → `fetch-weather`."""
        return re.sub("_+", "-", self.name).strip("-")


def read_request(arguments: Mapping[str, Any]) -> ToolRequest:
    """Read the arguments of `define_tool`; raise ToolFaultError when they are wrong."""
    description = " ".join(clean(arguments["description"]).split())
    if not description:
        raise ToolFaultError("invalid_argument", "description: say what the tool does")
    language, source = _source(arguments["code"], arguments.get("language"), description)
    return ToolRequest(
        name=arguments["name"],
        description=description,
        parameters=read_definitions(_object(arguments.get("parameters"))),
        language=language,
        source=source,
        persistent=_switch(arguments.get("persistent", False)),
    )


def _without_packages(source: str) -> str:
    """Refuse a script block: packages are approved only for skills that a person can read."""
    if read_block(source) is None:
        return source
    raise ToolFaultError(
        "invalid_argument",
        "code: it holds a script block (`# /// script`), but such a tool has no packages",
        hint="remove the block and import only packages that are installed",
    )


def _object(given: Any) -> Any:
    if given is None or (isinstance(given, str) and not given.strip()):
        return {}
    if not isinstance(given, str):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError) as error:
        raise ToolFaultError("invalid_argument", f"parameters: not JSON: {error!s:.200}") from None


def _switch(given: Any) -> bool:
    if isinstance(given, bool):
        return given
    try:
        return _YES_AND_NO[given.strip().lower() or "false"]
    except KeyError:
        raise ToolFaultError(
            "invalid_argument", f"persistent: {given!r:.60} is neither 'true' nor 'false'"
        ) from None


def _source(code: str, language: str | None, description: str) -> tuple[Language, str]:
    if not code.strip():
        raise ToolFaultError("invalid_argument", "code: it is empty")
    if language == "javascript":
        return "javascript", javascript_module(code, description)
    try:
        return "python", _without_packages(python_module(code, description))
    except NotPythonError as error:
        if language is None and is_javascript(code):
            return "javascript", javascript_module(code, description)
        raise ToolFaultError(
            "invalid_argument",
            f"code: {error}",
            hint="give the body of `def handler(args):`, or say language='javascript'",
        ) from None


MARK = ("defined-by", "define_tool")  # in `metadata`: marks skills that an agent wrote
_EXTENSIONS = {"python": ".py", "javascript": ".js"}

_SKILL_MD = """---
name: {skill}
description: {quoted}
metadata:
  {key}: {value}
---

# {title}

The tool `{name}` of this skill was made by an agent. {description}

Its declaration is in `tools.json`, its code in `{script}`.
"""


def skill_files(request: ToolRequest) -> dict[str, str]:
    """Return the files of a skill with this one tool, by path."""
    script = f"scripts/{request.name}{_EXTENSIONS[request.language]}"
    entry = {
        "name": request.name,
        "description": request.description,
        "script": script,
        "parameters": request.parameters,
    }
    page = _SKILL_MD.format(
        skill=request.skill,
        quoted=_quoted(request.description),
        key=MARK[0],
        value=MARK[1],
        title=request.skill.replace("-", " ").capitalize(),
        name=request.name,
        description=request.description,
        script=script,
    )
    return {
        "SKILL.md": page,
        "tools.json": json.dumps([entry], indent=2, ensure_ascii=False) + "\n",
        script: request.source,
    }


def _quoted(text: str) -> str:
    """Return text as a YAML scalar in which `---` cannot look like the end of the frontmatter."""
    return json.dumps(text, ensure_ascii=False).replace("---", "\\x2d\\x2d\\x2d")
