"""Functions of a program, and what it exports."""

from dataclasses import dataclass
from typing import Any

from skillpouch.signatures.javascript.tokens import Code, Span
from skillpouch.signatures.javascript.values import NOT_LITERAL, read_literal, text_of
from skillpouch.signatures.signature import JsonSchema

_LONGEST_TYPE = 400  # tokens of a return type or of type parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class JavaScriptFunction:
    parameters: tuple[Span, ...]
    body: Span
    name: str = ""
    doc: str = ""


def function_at(code: Code, position: int, doc: str = "") -> JavaScriptFunction | None:
    """The function whose expression, declaration or method begins at this token."""
    doc = doc or code[position].doc
    if code[position].text == "async" and code[position + 1].text != "=>":
        position += 1
    if code[position].text == "function":
        return _declared(code, position + 1, doc)
    if code[position].kind == "name" and code[position + 1].text == "=>":
        body = _body(code, position + 2)
        return JavaScriptFunction(parameters=((position, position + 1),), body=body, doc=doc)
    if code[position].kind == "name" and code[position + 1].text == "(":
        return _method(code, position, doc)
    return _arrow(code, _after_type_parameters(code, position), doc)


def _declared(code: Code, position: int, doc: str) -> JavaScriptFunction | None:
    if code[position].text == "*":
        position += 1
    name = ""
    if code[position].kind == "name":
        name = code[position].text
        position += 1
    return _with_parameters(code, _after_type_parameters(code, position), name, doc)


def _method(code: Code, position: int, doc: str) -> JavaScriptFunction | None:
    """`handler(args) { … }` inside an object; a mere call has no body."""
    return _with_parameters(code, position + 1, code[position].text, doc)


def _with_parameters(code: Code, opener: int, name: str, doc: str) -> JavaScriptFunction | None:
    if code[opener].text != "(" or opener not in code.partners:
        return None
    body = _after_return_type(code, code.after(opener))
    if code[body].text != "{":
        return None
    parameters = _parameters(code, opener)
    return JavaScriptFunction(name=name, parameters=parameters, body=_body(code, body), doc=doc)


def _arrow(code: Code, opener: int, doc: str) -> JavaScriptFunction | None:
    if code[opener].text != "(" or opener not in code.partners:
        return None
    arrow = _after_return_type(code, code.after(opener))
    if code[arrow].text != "=>":
        return None
    return JavaScriptFunction(
        parameters=_parameters(code, opener), body=_body(code, arrow + 1), doc=doc
    )


def _parameters(code: Code, opener: int) -> tuple[Span, ...]:
    return tuple(code.split((opener + 1, code.after(opener) - 1), ",", angles=True))


def _after_type_parameters(code: Code, position: int) -> int:
    if code[position].text != "<":
        return position
    depth = 0
    for step in range(position, min(position + _LONGEST_TYPE, len(code))):
        depth += (code[step].text == "<") - (code[step].text == ">")
        if depth == 0:
            return step + 1
    return position


def _after_return_type(code: Code, position: int) -> int:
    """The body's brace or the arrow, past `: Promise<{ count: number }>`."""
    if code[position].text != ":":
        return position
    limit = position + _LONGEST_TYPE
    while position < min(limit, len(code)):
        previous, position = code[position].text, position + 1
        text = code[position].text
        if text == "=>" or (text == "{" and previous not in {":", "|", "&", "<", ","}):
            return position
        if text in {"(", "[", "{"}:
            position = code.after(position) - 1
    return position


def _body(code: Code, position: int) -> Span:
    """The tokens of a block or of an arrow's expression."""
    if code[position].text == "{":
        return position + 1, code.after(position) - 1
    depth, end = code.depths[position] if position < len(code) else 0, position
    while end < len(code) and code.depths[end] >= depth and code[end].text not in {";", ","}:
        end = code.after(end)
    return position, min(end, len(code))


Properties = dict[str, JsonSchema]

_FALLBACKS = frozenset({"??", "||"})
_CHANGES = frozenset({"=", "(", "++", "--", "+=", "-=", "??=", "||="})
# Members of every array or object: a parameter used with these is not an object of arguments.
_NOT_PROPERTIES = frozenset({"length", "constructor", "prototype", "hasOwnProperty"})
_TYPES: dict[type, str] = {
    bool: "boolean",
    str: "string",
    int: "number",
    float: "number",
    list: "array",
    dict: "object",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionParameter:
    """`args: Options = {}` or `{ text, mode = "fast" }: Options`."""

    name: str = ""
    pattern: int | None = None  # where its braces open
    type: Span | None = None


def read_parameter(code: Code, span: Span) -> FunctionParameter:
    """Take one parameter of a function apart."""
    binding = code.split(span, "=")[0]
    after = code.after(span[0])
    after += code[after].text == "?"
    annotated = code[after].text == ":" and after + 1 < binding[1]
    kind = (after + 1, binding[1]) if annotated else None
    if code[span[0]].text == "{":
        return FunctionParameter(pattern=span[0], type=kind)
    return FunctionParameter(name=code[span[0]].text, type=kind)


def schema_of_default(value: Any) -> JsonSchema:
    """Return type and default from a default value; `{}` if it is not a plain value."""
    kind = _TYPES.get(type(value))
    return {"type": kind, "default": value} if kind else {}


def taken_properties(
    code: Code, function: JavaScriptFunction, parameter: FunctionParameter
) -> Properties | None:
    """Return every property that the function reads, or None if it uses the object as a whole."""
    if parameter.pattern is not None:
        return read_pattern(code, parameter.pattern)
    found: Properties = {}
    for position in range(*function.body):
        if not _names_variable(code, position, parameter.name):
            continue
        taken = _taken_at(code, position)
        if taken is None:
            return None
        for key, schema in taken.items():
            found[key] = found.get(key) or schema
    return found


def _names_variable(code: Code, position: int, name: str) -> bool:
    token = code[position]
    return (
        token.kind == "name" and token.text == name and code[position - 1].text not in {".", "?."}
    )


def _taken_at(code: Code, position: int) -> Properties | None:
    if code[position + 1].text in {".", "?."}:
        return _read_access(code, position + 2)
    opener = code.partners.get(position - 2, -1)
    destructured = code[position - 1].text == "=" and code[opener - 1].text in {
        "const",
        "let",
        "var",
    }
    if opener >= 0 and destructured and code[opener].text == "{" and _ends_here(code, position + 1):
        return read_pattern(code, opener)
    return None


def _ends_here(code: Code, position: int) -> bool:
    """After `= args`: the end of the statement, or `|| {}`."""
    if code[position].text in _FALLBACKS and code.texts(position + 1, 2) == ("{", "}"):
        position += 3
    token = code[position]
    return token.text in {";", ",", "}", ""} or (token.first_on_line and token.kind == "name")


def _read_access(code: Code, position: int) -> Properties | None:
    """`args.mode`, and its default when it is followed by `?? "fast"`."""
    name, following = code[position], code[position + 1].text
    if name.kind != "name" or following in _CHANGES or name.text in _NOT_PROPERTIES:
        return None
    if following in _FALLBACKS:
        value = read_literal(code, (position + 2, code.after(position + 2)))
        return {name.text: schema_of_default(value)}
    return {name.text: {}}


def read_pattern(code: Code, opener: int) -> Properties | None:
    """`{ text, mode = "fast", __workDir: workDir }`; None when a rest or computed key is in it."""
    found: Properties = {}
    for part in code.split((opener + 1, code.after(opener) - 1), ","):
        key = code[part[0]]
        if key.kind not in {"name", "string"}:
            return None
        left, *right = code.split(part, "=")
        target = code[part[0] + 2].text if part[0] + 2 < left[1] else ""
        value = read_literal(code, right[0]) if right else NOT_LITERAL
        nested = {"{": {"type": "object"}, "[": {"type": "array"}}.get(target, {})
        found[text_of(key)] = schema_of_default(value) or nested
    return found
