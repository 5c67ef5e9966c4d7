"""The first paragraph of a text a person wrote, on one line, short enough for a catalogue."""

import re

LONGEST_DESCRIPTION = 256

# "=====", "# ----", "*****": drawn around a title, never part of it.
_RULE = re.compile(r"^[\W_]{3,}$")


def first_paragraph(text: str) -> str:
    """Join the lines up to the first empty one; cut at 256 characters."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        stripped = line.strip()
        if not stripped and lines:
            break
        if stripped and not _RULE.match(stripped):
            lines.append(stripped)
    return " ".join(" ".join(lines).split())[:LONGEST_DESCRIPTION].rstrip()
