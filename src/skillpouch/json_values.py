"""Reads JSON from untrusted sources: a value or nothing, and never another exception."""

import json
import math
from typing import Any

NO_VALUE = object()
# Readers of JSON give up somewhere: pydantic, which writes the messages of MCP, at 255 levels,
# some of which are the message's own. What is deeper is text.
_DEEPEST = 200
# Half a gigabyte of small values fits into sixteen megabytes of text.
LARGEST_VALUE = 1024 * 1024  # bytes of text that are read as a value

# Made once: `json.dumps` and `json.loads` with options make a coder per call.
json_text = json.JSONEncoder(ensure_ascii=False).encode
_STARTS = tuple('{["-0123456789tfn')


def json_value(text: str) -> Any:
    """Return the value that a text spells, NO_VALUE when it spells none that clients can read."""
    if not text.lstrip().startswith(_STARTS):
        return NO_VALUE
    try:
        value = _decode(text)
        if text.count("[") + text.count("{") > _DEEPEST and _is_too_deep(value):
            return NO_VALUE
        if "\\u" in text:
            json_text(value).encode()  # halves of characters are not text
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
