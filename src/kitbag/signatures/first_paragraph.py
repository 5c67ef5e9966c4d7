"""The first paragraph of a text a person wrote, on one line, short enough for a catalogue."""

import re

LONGEST_DESCRIPTION = 256

# "=====", "# ----", "*****": drawn around a title, never part of it.
_RULE = re.compile(r"^[\W_]{3,}$")


def first_paragraph(text: str) -> str:
    """Join the lines up to the first empty one; cut at a word, with `…`, past 256 characters."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        stripped = line.strip()
        if not stripped and lines:
            break
        if stripped and not _RULE.match(stripped):
            lines.append(stripped)
    return _cut(" ".join(" ".join(lines).split()))


def _cut(text: str) -> str:
    if len(text) <= LONGEST_DESCRIPTION:
        return text
    room = LONGEST_DESCRIPTION - 1
    head, space, _ = text[: room + 1].rpartition(" ")
    return (head.rstrip() if space else text[:room]) + "…"
