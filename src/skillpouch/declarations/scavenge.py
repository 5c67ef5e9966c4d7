"""Name and description saved, line by line, from frontmatter that is not YAML."""

import re
from collections.abc import Iterable
from itertools import islice

# The key may be capitalised or decorated as a heading, a list item or bold text.
_KEY_LINE = re.compile(
    r"^[\s#*>_-]{0,16}(name|description)[*_`]{0,3}\s{0,4}:[*_]{0,3}\s*(.*)$", re.IGNORECASE
)
_BLOCK_MARKS = {"|", ">", "|-", ">-", "|+", ">+"}
_LONGEST_BLOCK = 64  # lines
_QUOTES = "\"'"


def scavenge(front: str) -> dict[str, str]:
    """Return `name` and `description` as far as lines that look like them are found."""
    found: dict[str, str] = {}
    lines = front.split("\n")
    for number, line in enumerate(lines):
        match = _KEY_LINE.match(line[:2048])
        key = match.group(1).lower() if match else ""
        if match is None or key in found:
            continue
        value = match.group(2).strip()
        if value in _BLOCK_MARKS or not value:
            value = _indented_text(islice(lines, number + 1, number + 1 + _LONGEST_BLOCK))
        value = value.strip(_QUOTES).strip("*_` ")
        if value:
            found[key] = value
    return found


def _indented_text(lines: Iterable[str]) -> str:
    words: list[str] = []
    for line in lines:
        if line.strip() and not line[0].isspace():
            break
        words.append(line.strip())
    return " ".join(word for word in words if word)
