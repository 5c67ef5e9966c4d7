"""The top level of a JavaScript module: what it declares, what it imports, what it does."""

from collections.abc import Iterator
from typing import NamedTuple

from skillpouch.signatures.javascript.tokens import Code, Token
from skillpouch.signatures.javascript.values import text_of

_LONGEST_TYPE = 400  # tokens of a type annotation
_LONGEST_IMPORT = 10  # `import type Default, { …any number… } from`
_PREFIXES = frozenset({"export", "default", "async", "declare", "abstract"})
_DECLARES = frozenset(
    [
        "import",
        "export",
        "function",
        "async",
        "class",
        "interface",
        "type",
        "enum",
        "namespace",
        "declare",
        "abstract",
        "const",
        "let",
        "var",
        "module",
        "exports",
    ]
)
_VARIABLES = frozenset({"const", "let", "var"})
_CONTINUES = frozenset({"extends", "implements", "from", "as", "in", "of", "instanceof"})


class Declared(NamedTuple):
    """Where the value of a top-level name begins, and the comment above its statement."""

    position: int
    doc: str


def declared_names(code: Code) -> dict[str, Declared]:
    """The functions and variables of the top level."""
    names: dict[str, Declared] = {}
    for position in code.find_outside("function", *_VARIABLES):
        is_function, name = code[position].text == "function", code[position + 1]
        value = position if is_function else _initial_value(code, position + 2)
        if name.kind == "name" and value is not None:
            names.setdefault(name.text, Declared(value, doc_above(code, position)))
    return names


def doc_above(code: Code, position: int) -> str:
    """The `/** … */` comment above a declaration, also above its `export` or `async`."""
    while not code[position].doc and code[position - 1].text in _PREFIXES:
        position -= 1
    return code[position].doc


def _initial_value(code: Code, position: int) -> int | None:
    if code[position].text == ":":
        for _ in range(_LONGEST_TYPE):
            if code[position].text in {"=", ";", ""} | _VARIABLES:
                break
            position = code.after(position)
    return position + 1 if code[position].text == "=" else None


def imported_names(code: Code) -> frozenset[str]:
    """The names that `import` statements bring in."""
    names: set[str] = set()
    for position in code.find_outside("import"):
        end = position + 1
        for _ in range(_LONGEST_IMPORT):
            if code[end].kind in {"string", "end"} or code[end].text == ";":
                break
            end = code.after(end)
        names.update(token.text for token in code.tokens[position + 1 : end])
    return frozenset(names)


def imported_modules(code: Code) -> frozenset[str]:
    """What it loads: `import … from`, `export … from`, `import()` and `require()`."""
    plain = [code[position + 1] for position in code.find("from", "import")]
    called = [
        code[position + 2]
        for position in code.find("require", "import")
        if code[position + 1].text == "(" and code[position - 1].text != "."
    ]
    return frozenset(text_of(token) for token in plain + called if token.kind == "string")


def does_something(code: Code) -> bool:
    """Whether any top-level statement is more than an import, a declaration or an export.

    A declaration that waits for its value, or reads the command line for it, is more.
    """
    waits = code.find_outside("await", "argv")
    parses = (
        code[at + 1].text == "(" and code[at - 1].text != "function"
        for at in code.find_outside("parseArgs")
    )
    return (
        bool(waits) or any(parses) or any(_acts(code, position) for position in _statements(code))
    )


def _statements(code: Code) -> Iterator[int]:
    previous = -1
    for position in (at for at, depth in enumerate(code.depths) if depth == 0):
        if previous < 0 or _begins_statement(code[position], code[previous]):
            yield position
        previous = position


def _begins_statement(token: Token, previous: Token) -> bool:
    """Semicolons are optional: a new line begins a statement unless either side goes on."""
    if previous.text == ";":
        return True
    if not token.first_on_line or token.text in _CONTINUES:
        return False
    if previous.text == "}":
        return token.kind != "punctuation" or token.text in {"(", "[", "!", "++", "--", ";", "{"}
    return token.kind not in {"punctuation", "template"} and (
        previous.kind != "punctuation" or previous.text in {")", "]", "++", "--"}
    )


def _acts(code: Code, position: int) -> bool:
    token, following = code[position], code[position + 1]
    if token.text == "import":
        return following.text in {"(", "."}
    if token.text == "type" and following.kind != "name":
        return True
    # A directive such as 'use strict', and what compilers write above CommonJS exports.
    if token.kind == "string" or token.text in {";", "}", "@"} or token.text.startswith("@"):
        return False
    if code.texts(position, 5) == ("Object", ".", "defineProperty", "(", "exports"):
        return False
    return token.text not in _DECLARES
