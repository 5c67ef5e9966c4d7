"""The section `## Configuration` of a SKILL.md: which environment variables it names."""

import re
from collections.abc import Iterator

from skillpouch.declarations.frontmatter import cut

_HEADING = re.compile(r"[ ]{0,3}(#{1,6})[ \t]+(.*?)[ \t#]*$")
_FENCE = re.compile(r"[ ]{0,3}(```+|~~~+)")
# `API_KEY`, `$API_KEY` or `API_KEY=…` between backticks.
_NAMED = re.compile(r"`\$?\{?([A-Z][A-Z0-9_]+)\}?(?:=[^`]*)?`")
_BULLET = re.compile(r"\s*(?:[-*+]|\d+[.)]|\|)\s*(?:\*\*)?`")
# In a block of commands or of settings: `export API_KEY=…`, `API_KEY=…`.
_ASSIGNED = re.compile(r"\s*(?:export\s+|set\s+)?([A-Z][A-Z0-9_]+)=")


def variables_in_body(raw: bytes) -> Iterator[tuple[str, int]]:
    """Return the variables that the section names, each with its line in the file."""
    parts = cut(raw)
    body = parts.raw_body.decode("utf-8", "replace")
    whole = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    first = whole.count(b"\n") - parts.raw_body.count(b"\n") + 1
    for line, text, fenced in _section(body):
        if fenced:
            found = _ASSIGNED.match(text)
            names = [found[1]] if found else []
        else:
            names = [name for name in _NAMED.findall(text) if "_" in name or _BULLET.match(text)]
        yield from ((name, first + line) for name in names)


def _section(body: str) -> Iterator[tuple[int, str, bool]]:
    """Return the lines below the heading, up to the next one of its rank or above."""
    rank, fence = 0, ""
    for number, text in enumerate(body.split("\n")):
        edge = _FENCE.match(text)
        if edge and (not fence or edge[1].startswith(fence)):
            fence = "" if fence else edge[1]
            continue
        heading = None if fence else _HEADING.match(text)
        if heading is not None:
            depth = len(heading[1])
            if heading[2].strip().lower() == "configuration":
                rank = rank or depth
            elif rank and depth <= rank:
                rank = 0
        elif rank:
            yield number, text, bool(fence)
