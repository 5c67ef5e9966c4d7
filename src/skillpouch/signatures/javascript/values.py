"""Literal values and object literals of JavaScript, read from tokens."""

import math
import re
from typing import Any, Final, NamedTuple

from skillpouch.signatures.javascript.tokens import Code, Span, Token

NOT_LITERAL: Final = object()

_DEEPEST = 12  # arrays in arrays; no default value is deeper
_LONGEST_NUMBER = 30
_WORDS = {"true": True, "false": False, "null": None}
_ESCAPE = re.compile(
    r"\\(?:u\{([0-9A-Fa-f]{1,6})\}|u([0-9A-Fa-f]{4})|x([0-9A-Fa-f]{2})|(.))", re.DOTALL
)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": ""}


class ObjectMember(NamedTuple):
    """One member of an object literal; a spread or a computed key has the key ""."""

    key: str
    value: Span
    doc: str


def text_of(token: Token) -> str:
    """The text that a string, a template or a key stands for."""
    body = token.text
    if token.kind == "string":
        body = body[1:-1] if len(body) > 1 and body[-1] == body[0] else body[1:]
    if "\\" not in body:
        return body
    # Two escapes may make one character; half a pair alone is not text.
    plain = _ESCAPE.sub(_unescape, body)
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _unescape(match: re.Match[str]) -> str:
    code = match.group(1) or match.group(2) or match.group(3)
    if code is None:
        return _ESCAPED.get(match.group(4), match.group(4))
    return chr(min(int(code, 16), 0x10FFFF))


def read_literal(code: Code, span: Span, depth: int = 0) -> Any:
    """The value of a literal expression, or `NOT_LITERAL`."""
    start, end = span
    first = code[start]
    if end - start == 1:
        return _read_word(first)
    if first.text == "-" and end == start + 2 and code[start + 1].kind == "number":
        value = _read_number(code[start + 1].text)
        return value if value is NOT_LITERAL else -value
    if depth < _DEEPEST and code.after(start) == end:
        if first.text == "[":
            return _read_array(code, span, depth)
        if first.text == "{":
            return _read_object(code, start, depth)
    return NOT_LITERAL


def _read_word(token: Token) -> Any:
    if token.kind in {"string", "template"}:
        return text_of(token)
    if token.kind == "number":
        return _read_number(token.text)
    return _WORDS.get(token.text, NOT_LITERAL)


def _read_number(text: str) -> Any:
    plain = text.replace("_", "").removesuffix("n")
    if len(plain) > _LONGEST_NUMBER:
        return NOT_LITERAL
    for convert in (lambda digits: int(digits, 0), float):
        try:
            value = convert(plain)
        except ValueError:
            continue
        return value if math.isfinite(value) else NOT_LITERAL
    return NOT_LITERAL


def _read_array(code: Code, span: Span, depth: int) -> Any:
    items = code.split((span[0] + 1, span[1] - 1), ",")
    values = [read_literal(code, item, depth + 1) for item in items]
    return NOT_LITERAL if any(value is NOT_LITERAL for value in values) else values


def _read_object(code: Code, opener: int, depth: int) -> Any:
    entries = read_entries(code, opener)
    values = {entry.key: read_literal(code, entry.value, depth + 1) for entry in entries}
    if "" in values or any(value is NOT_LITERAL for value in values.values()):
        return NOT_LITERAL
    return values


def read_entries(code: Code, opener: int) -> list[ObjectMember]:
    """The members of the object literal that opens here, in order."""
    closer = code.after(opener) - 1
    return [_read_entry(code, part) for part in code.split((opener + 1, closer), ",")]


def _read_entry(code: Code, part: Span) -> ObjectMember:
    start, end = part
    token = code[start]
    if token.kind in {"name", "string", "number"} and code[start + 1].text == ":":
        return ObjectMember(text_of(token), (min(start + 2, end), end), token.doc)
    if token.text == "async" and code[start + 1].kind == "name":
        return ObjectMember(code[start + 1].text, part, token.doc)
    if token.kind == "name" and (end - start == 1 or code[start + 1].text == "("):
        return ObjectMember(token.text, part, token.doc)
    return ObjectMember("", part, token.doc)
