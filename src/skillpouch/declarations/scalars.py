"""What an unquoted YAML scalar means: the core rules of YAML 1.2, without its surprises."""

import re
from math import isfinite
from typing import Any

_NUMBER_START = frozenset("-+.0123456789")
# 300 digits: what a person could mean, and far from Python's limit for int().
_INTEGER = re.compile(r"[-+]?[0-9]{1,300}\Z")
_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]{1,300}|[0-9]{1,300}(?:\.[0-9]{0,300})?)(?:[eE][-+]?[0-9]{1,3})?\Z"
)
_BASED = re.compile(r"0(?:x[0-9a-fA-F]{1,300}|o[0-7]{1,300})\Z")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}


def plain_scalar(text: str) -> Any:
    """Return null, a boolean, a number or, for everything else, the text. `no` stays text."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] in _NUMBER_START:
        if _INTEGER.match(text):
            return int(text)
        if _FLOAT.match(text):
            number = float(text)
            return number if isfinite(number) else text  # 1e999 is no number anyone meant
        if _BASED.match(text):
            return int(text, 0)
    return text
