"""JSON that may be anything: a value, or none, and never another exception."""

import json
from typing import Any

NO_VALUE = object()
# Half a gigabyte of small values fits into sixteen megabytes of text.
LARGEST_VALUE = 1024 * 1024  # bytes of text that are read as a value

# Made once: `json.dumps` and `json.loads` with options make a coder per call.
json_text = json.JSONEncoder(ensure_ascii=False).encode
_STARTS = tuple('{["-0123456789tfn')


def json_value(text: str) -> Any:
    """Return the value that a text spells, NO_VALUE when it spells none."""
    if not text.lstrip().startswith(_STARTS):
        return NO_VALUE
    try:
        value = _decode(text)
        if "\\u" in text:
            json_text(value).encode()  # halves of characters are no text
    except (ValueError, RecursionError):
        return NO_VALUE
    return value


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")


_decode = json.JSONDecoder(parse_constant=_refuse_constant).decode
