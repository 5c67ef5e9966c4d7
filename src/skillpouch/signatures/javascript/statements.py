"""Statements of a program and the patterns they bind, found among its tokens."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

from skillpouch.signatures.javascript.functions import JavaScriptFunction, function_at
from skillpouch.signatures.javascript.tokens import Code, Token
from skillpouch.signatures.javascript.values import read_entries, text_of

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
_ACTING = (
    *("parseArgs", "execSync", "execFileSync", "spawn", "spawnSync", "execFile", "fetch"),
    *("writeFileSync", "listen", "createServer"),
)
_VARIABLES = frozenset({"const", "let", "var"})
_CONTINUES = frozenset({"extends", "implements", "from", "as", "in", "of", "instanceof"})


class TopLevelName(NamedTuple):
    """Where the value of a top-level name begins, and the comment above its statement."""

    position: int
    doc: str


def declared_names(code: Code) -> dict[str, TopLevelName]:
    """The functions and variables of the top level."""
    names: dict[str, TopLevelName] = {}
    for position in code.find_outside("function", *_VARIABLES):
        is_function, name = code[position].text == "function", code[position + 1]
        value = position if is_function else _initial_value(code, position + 2)
        if name.kind == "name" and value is not None:
            names.setdefault(name.text, TopLevelName(value, doc_above(code, position)))
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
    """Tell whether any top-level statement is more than an import, a declaration or an export.

    So is a declaration that uses `await`, reads the command line, or starts or writes something.
    In a file that exports nothing, so is one that calls a function of this file.
    """
    called = set(_ACTING)
    if not code.find_outside("export", "exports"):
        called |= declared_names(code).keys()
    calls = (
        code[at + 1].text == "(" and code[at - 1].text != "function"
        for at in code.find_outside(*called)
    )
    return (
        bool(code.find_outside("await", "argv"))
        or any(calls)
        or any(_acts(code, position) for position in _statements(code))
    )


def _statements(code: Code) -> Iterator[int]:
    previous = -1
    for position in (at for at, depth in enumerate(code.depths) if depth == 0):
        if previous < 0 or _begins_statement(code[position], code[previous]):
            yield position
        previous = position


def _begins_statement(token: Token, previous: Token) -> bool:
    """Tell whether a token begins a statement.

    Semicolons are optional: a new line does, unless an operator before or after continues it.
    """
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
    if token.text == "import":  # `import "./main.js"` runs that file
        return following.text in {"(", "."} or text_of(following).startswith(".")
    if token.text == "type" and following.kind != "name":
        return True
    # A directive such as 'use strict', and what compilers write above CommonJS exports.
    if token.kind == "string" or token.text in {";", "}", "@"} or token.text.startswith("@"):
        return False
    if code.texts(position, 5) == ("Object", ".", "defineProperty", "(", "exports"):
        return False
    return token.text not in _DECLARES


_MOST_STEPS = 5  # from name to name, as in `const a = b; const b = c;`; ends cycles, too
_MOST_EXPORTS = 20
_HANDLERS = frozenset({"default", "handler"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultExport:
    """An export that can be called; `function` is None if it is not defined in this file."""

    position: int
    function: JavaScriptFunction | None = None


def default_export(code: Code) -> DefaultExport | None:
    """The handler of a module: its default export, or the `handler` of `module.exports`."""
    names = declared_names(code)
    found = (_resolve(code, value, names) for value in _exported_values(code))
    return next((export for export in islice(found, _MOST_EXPORTS) if export), None)


def _exported_values(code: Code) -> Iterator[TopLevelName]:
    for position in code.find_outside("export", "module", "exports"):
        token = code[position]
        if token.text == "export":
            yield from _module_exports(code, position)
        elif code[position + 1].text == ".":
            value = _after_assignments(code, position)
            if value is not None:
                yield TopLevelName(value, token.doc)


def _module_exports(code: Code, position: int) -> Iterator[TopLevelName]:
    """`export default …`, `export { handler as default }`, and an export called `handler`."""
    following, doc = code[position + 1].text, code[position].doc
    if following == "default":
        yield TopLevelName(position + 2, doc)
    elif following == "{":
        for name in range(position + 2, code.after(position + 1)):
            if code.texts(name + 1, 2) == ("as", "default"):
                yield TopLevelName(name, doc)
    elif code.texts(position + 1, 3)[-2:] == ("function", "handler") or (
        code.texts(position + 1, 2) == ("function", "handler")
    ):
        yield TopLevelName(position + 1, doc)
    elif code.texts(position + 2, 2) == ("handler", "="):  # export const handler = …
        yield TopLevelName(position + 4, doc)


def _after_assignments(code: Code, position: int) -> int | None:
    """Where the value of `module.exports = exports.default = …` begins."""
    value = _after_assignment(code, position)
    for _ in range(_MOST_STEPS):
        further = _after_assignment(code, value) if value is not None else None
        value = value if further is None else further
    return value


def _after_assignment(code: Code, position: int) -> int | None:
    if code.texts(position, 3) == ("module", ".", "exports"):
        position += 2
    elif code[position].text != "exports":
        return None
    position += 1
    if code[position].text == "." and code[position + 1].text in _HANDLERS:
        position += 2
    return position + 1 if code[position].text == "=" else None


def _resolve(
    code: Code, value: TopLevelName, names: dict[str, TopLevelName], steps: int = _MOST_STEPS
) -> DefaultExport | None:
    position, doc = value
    if function := function_at(code, position, doc):
        is_class = function.name[:1].isupper()  # by convention, a constructor
        return None if is_class else DefaultExport(position=position, function=function)
    if steps == 0:
        return None
    token, following = code[position], code[position + 1]
    if token.text == "{":
        return _handler_of_object(code, value, names, steps - 1)
    if following.text in {"(", "."}:
        return _wrapped(code, position, names, steps - 1)
    if token.text in names:
        declared = names[token.text]
        return _resolve(
            code, TopLevelName(declared.position, declared.doc or doc), names, steps - 1
        )
    return DefaultExport(position=position) if token.text in imported_names(code) else None


def _handler_of_object(
    code: Code, value: TopLevelName, names: dict[str, TopLevelName], steps: int
) -> DefaultExport | None:
    for entry in read_entries(code, value.position):
        if entry.key in _HANDLERS:
            inner = TopLevelName(entry.value[0], entry.doc or value.doc)
            return _resolve(code, inner, names, steps)
    return None


def _wrapped(
    code: Code, position: int, names: dict[str, TopLevelName], steps: int
) -> DefaultExport | None:
    """`wrap(handler)` can be called as well, but its parameters are those of `wrap`."""
    call = position
    while code[call].kind == "name" and code[call + 1].text == "." and call < position + 8:
        call += 2
    if code[call].kind != "name" or code[call + 1].text != "(":
        return None
    inner = _resolve(code, TopLevelName(call + 2, ""), names, steps)
    return DefaultExport(position=position) if inner else None
