"""Reads JSON from untrusted sources: returns a value or NO_VALUE, and never raises."""

import json
import math
from typing import Any

NO_VALUE = object()
# Every JSON library has a deepest level: pydantic, which writes the messages of MCP, stops at 255,
# and the message itself uses some of them. A deeper value is passed on as text.
_DEEPEST = 200
# One megabyte, because values need more memory than their text: sixteen megabytes of text can
# become half a gigabyte of small values.
LARGEST_VALUE = 1024 * 1024  # bytes of text that are read as a value

# Made once: `json.dumps` and `json.loads` with options make an encoder or a decoder per call.
json_text = json.JSONEncoder(ensure_ascii=False).encode
_STARTS = tuple('{["-0123456789tfn')


def json_value(text: str) -> Any:
    """Return the value of JSON text; NO_VALUE if it is not JSON, or no client could read it."""
    if not text.lstrip().startswith(_STARTS):
        return NO_VALUE
    try:
        value = _decode(text)
        if text.count("[") + text.count("{") > _DEEPEST and _is_too_deep(value):
            return NO_VALUE
        if "\\u" in text:
            json_text(value).encode()  # raises for a lone surrogate, such as "\ud800"
    except (ValueError, RecursionError):
        return NO_VALUE
    return value


def _is_too_deep(value: Any) -> bool:
    layer = [value]
    for _ in range(_DEEPEST + 1):
        inner = [item.values() if isinstance(item, dict) else item for item in layer]
        layer = [each for items in inner for each in items if isinstance(each, dict | list)]
        if not layer:
            return False
    return True


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large for a number")
    return number


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).decode
