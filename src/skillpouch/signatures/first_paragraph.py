"""The first paragraph of a text a person wrote, on one line, short enough for a catalogue."""

import re

LONGEST_DESCRIPTION = 256

# "=====", "# ----", "*****": drawn around a title, never part of it.
_RULE = re.compile(r"^[\W_]{3,}$")
_USAGE = re.compile(r"(?:^|\s)usage:\s", re.IGNORECASE)


def first_paragraph(text: str) -> str:
    """Join the lines up to the first empty one; cut at 256 characters."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        stripped = line.strip()
        is_rule = _RULE.match(stripped) is not None
        if lines and (is_rule or not stripped):
            break  # a line drawn below a title ends it as a blank line does
        if stripped and not is_rule:
            lines.append(stripped)
    text = " ".join(" ".join(lines).split())
    described = _USAGE.split(text, maxsplit=1)[0] or text
    return described[:LONGEST_DESCRIPTION].rstrip()
