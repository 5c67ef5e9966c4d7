"""JSON that may be anything: a value, or none, and never another exception."""

import json
from typing import Any

NO_VALUE = object()
_STARTS = tuple('{["-0123456789tfn')


def json_value(text: str) -> Any:
    """Return the value that a text spells, NO_VALUE when it spells none."""
    if not text.lstrip().startswith(_STARTS):
        return NO_VALUE
    try:
        value = json.loads(text, parse_constant=_refuse_constant)
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode()  # halves of characters are no text
    except (ValueError, RecursionError):
        return NO_VALUE
    return value


def _refuse_constant(word: str) -> None:
    raise ValueError(f"{word} is not JSON")
