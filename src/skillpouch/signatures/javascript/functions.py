"""A JavaScript or TypeScript function found in tokens: its name, its parameters, its body."""

from dataclasses import dataclass

from skillpouch.signatures.javascript.tokens import Code, Span

_LONGEST_TYPE = 400  # tokens of a return type or of type parameters


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    parameters: tuple[Span, ...]
    body: Span
    name: str = ""
    doc: str = ""


def function_at(code: Code, position: int, doc: str = "") -> Function | None:
    """The function whose expression, declaration or method begins at this token."""
    doc = doc or code[position].doc
    if code[position].text == "async" and code[position + 1].text != "=>":
        position += 1
    if code[position].text == "function":
        return _declared(code, position + 1, doc)
    if code[position].kind == "name" and code[position + 1].text == "=>":
        body = _body(code, position + 2)
        return Function(parameters=((position, position + 1),), body=body, doc=doc)
    if code[position].kind == "name" and code[position + 1].text == "(":
        return _method(code, position, doc)
    return _arrow(code, _after_type_parameters(code, position), doc)


def _declared(code: Code, position: int, doc: str) -> Function | None:
    if code[position].text == "*":
        position += 1
    name = ""
    if code[position].kind == "name":
        name = code[position].text
        position += 1
    return _with_parameters(code, _after_type_parameters(code, position), name, doc)


def _method(code: Code, position: int, doc: str) -> Function | None:
    """`handler(args) { … }` inside an object; a mere call has no body."""
    return _with_parameters(code, position + 1, code[position].text, doc)


def _with_parameters(code: Code, opener: int, name: str, doc: str) -> Function | None:
    if code[opener].text != "(" or opener not in code.partners:
        return None
    body = _after_return_type(code, code.after(opener))
    if code[body].text != "{":
        return None
    parameters = _parameters(code, opener)
    return Function(name=name, parameters=parameters, body=_body(code, body), doc=doc)


def _arrow(code: Code, opener: int, doc: str) -> Function | None:
    if code[opener].text != "(" or opener not in code.partners:
        return None
    arrow = _after_return_type(code, code.after(opener))
    if code[arrow].text != "=>":
        return None
    return Function(parameters=_parameters(code, opener), body=_body(code, arrow + 1), doc=doc)


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
