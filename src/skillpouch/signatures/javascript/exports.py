"""What a JavaScript module exports to be called, in every way that people write it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from skillpouch.signatures.javascript.functions import Function, function_at
from skillpouch.signatures.javascript.statements import (
    Declared,
    declared_names,
    imported_names,
)
from skillpouch.signatures.javascript.tokens import Code
from skillpouch.signatures.javascript.values import read_entries

_MOST_STEPS = 5  # `const a = b; const b = c;` … and never in a circle
_MOST_EXPORTS = 20
_HANDLERS = frozenset({"default", "handler"})


@dataclass(frozen=True, slots=True, kw_only=True)
class DefaultExport:
    """An export that can be called; `function` is None when it is made elsewhere."""

    position: int
    function: Function | None = None


def default_export(code: Code) -> DefaultExport | None:
    """The handler of a module: its default export, or the `handler` of `module.exports`."""
    names = declared_names(code)
    found = (_resolve(code, value, names) for value in _exported_values(code))
    return next((export for export in islice(found, _MOST_EXPORTS) if export), None)


def _exported_values(code: Code) -> Iterator[Declared]:
    for position in code.find_outside("export", "module", "exports"):
        token = code[position]
        if token.text == "export":
            yield from _module_exports(code, position)
        elif code[position + 1].text == ".":
            value = _after_assignments(code, position)
            if value is not None:
                yield Declared(value, token.doc)


def _module_exports(code: Code, position: int) -> Iterator[Declared]:
    """`export default …`, `export { handler as default }`, and an export called `handler`."""
    following, doc = code[position + 1].text, code[position].doc
    if following == "default":
        yield Declared(position + 2, doc)
    elif following == "{":
        for name in range(position + 2, code.after(position + 1)):
            if code.texts(name + 1, 2) == ("as", "default"):
                yield Declared(name, doc)
    elif code.texts(position + 1, 3)[-2:] == ("function", "handler") or (
        code.texts(position + 1, 2) == ("function", "handler")
    ):
        yield Declared(position + 1, doc)
    elif code.texts(position + 2, 2) == ("handler", "="):  # export const handler = …
        yield Declared(position + 4, doc)


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
    code: Code, value: Declared, names: dict[str, Declared], steps: int = _MOST_STEPS
) -> DefaultExport | None:
    position, doc = value
    if function := function_at(code, position, doc):
        is_class = function.name[:1].isupper()  # one written before the language had them
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
        return _resolve(code, Declared(declared.position, declared.doc or doc), names, steps - 1)
    return DefaultExport(position=position) if token.text in imported_names(code) else None


def _handler_of_object(
    code: Code, value: Declared, names: dict[str, Declared], steps: int
) -> DefaultExport | None:
    for entry in read_entries(code, value.position):
        if entry.key in _HANDLERS:
            inner = Declared(entry.value[0], entry.doc or value.doc)
            return _resolve(code, inner, names, steps)
    return None


def _wrapped(
    code: Code, position: int, names: dict[str, Declared], steps: int
) -> DefaultExport | None:
    """`wrap(handler)` can be called as well, but its parameters are those of `wrap`."""
    call = position
    while code[call].kind == "name" and code[call + 1].text == "." and call < position + 8:
        call += 2
    if code[call].kind != "name" or code[call + 1].text != "(":
        return None
    inner = _resolve(code, Declared(call + 2, ""), names, steps)
    return DefaultExport(position=position) if inner else None
