"""The plain YAML that most frontmatter is, read by line: the same values, five times sooner.

Only what cannot mean anything else is taken: `key: value` with a one-line value, and one level of
the same, or of a list, below a bare `key:`. For everything else the real parser is asked.
"""

import re
from typing import Any

from skillpouch.declarations.scalars import plain_scalar

# Characters that end a line, or are forbidden, or that a parser may see differently.
_UNUSUAL = re.compile("[\x00-\x09\x0b-\x1f\x7f-\xa0\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")
_LINE = re.compile(
    r"(?P<indent>  )?"
    r"(?:(?P<key>[A-Za-z_][\w-]{0,63}):(?: +|(?=$))|(?P<item>- +))"
    r"(?:"
    # A colon before a space would make a mapping, a number sign after one a comment.
    r"(?P<plain>[A-Za-z0-9](?:[^:#]|:(?=[^ ])|(?<=[^ ])#)*)"
    r'|"(?P<double>[^"\\]*)"'
    r"|'(?P<single>[^']*)'"
    r")? *"
)


def read_plain(front: str, first_line: int) -> tuple[dict[str, Any], dict[str, int]] | None:
    """Return the values and the line of each key, or None when this is not plain enough."""
    if _UNUSUAL.search(front):
        return None
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    open_key = ""  # the bare `key:` whose entries the following lines may be
    for number, line in enumerate(front.split("\n"), first_line):
        if not line:
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            return None
        if match["indent"]:
            if not open_key or not _put_below(values, open_key, match):
                return None
            continue
        key, value = match["key"], _value(match)
        if not key or key in values:
            return None
        values[key], lines[key] = value, number
        open_key = key if value is None and line.endswith(":") else ""
    return values, lines


def _put_below(values: dict[str, Any], open_key: str, match: re.Match[str]) -> bool:
    holder, key, value = values[open_key], match["key"], _value(match)
    if value is None:
        return False  # a deeper level
    if holder is None:
        holder = values[open_key] = {} if key else []
    if key:
        if not isinstance(holder, dict) or key in holder:
            return False
        holder[key] = value
    else:
        if not isinstance(holder, list):
            return False
        holder.append(value)
    return True


def _value(match: re.Match[str]) -> Any:
    plain = match["plain"]
    if plain is not None:
        return plain_scalar(plain.rstrip(" "))
    double = match["double"]
    return double if double is not None else match["single"]
