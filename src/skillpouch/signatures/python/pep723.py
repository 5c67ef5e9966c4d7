"""The PEP 723 block of a script: which Python and which packages it asks for."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from io import StringIO
from typing import Any

from skillpouch.signatures.signature import Dependencies

_OPEN = "# /// script"
_CLOSE = "# ///"


@dataclass(frozen=True, slots=True, kw_only=True)
class Malformed:
    """A block that cannot be used, and the reason."""

    reason: str
    line: int


def read_dependencies(text: str) -> Dependencies | None:
    """Return what the script's block asks for, None without a usable block."""
    block = read_block(text)
    return block if isinstance(block, Dependencies) else None


def read_block(text: str) -> Dependencies | Malformed | None:
    """Return what the block asks for, why it cannot be used, or None when there is no block."""
    found = read_table(text)
    return _dependencies(*found) if isinstance(found, tuple) else found


def read_table(text: str) -> tuple[dict[str, Any], int] | Malformed | None:
    """Return the whole table of the block, with its first line."""
    if _OPEN not in text:
        return None
    found = dict(_blocks([line.rstrip("\r") for line in text.split("\n")]))
    blocks = {line: content for line, content in found.items() if content is not None}
    if len(blocks) > 1:
        blocks = {line: blocks[line] for line in _comments_in(text) if line in blocks} or blocks
    if not blocks:
        unclosed = next(iter(found), None)
        reason = "the script block is never closed"
        return None if unclosed is None else Malformed(reason=reason, line=unclosed)
    (line, content), *more = blocks.items()
    if more:
        return Malformed(reason="more than one script block", line=more[0][0])
    import tomllib

    try:
        return tomllib.loads(content), line
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        return Malformed(reason=f"not valid TOML: {error}", line=line)


# By line and not by the expression in the PEP, which takes quadratic time on a file of openings.
def _blocks(lines: list[str]) -> Iterator[tuple[int, str | None]]:
    position = 0
    while position < len(lines):
        opening = position
        position += 1
        if lines[opening] != _OPEN:
            continue
        while position < len(lines) and (lines[position] + " ").startswith("# "):
            position += 1
        inside = lines[opening + 1 : position]
        if _CLOSE not in inside:
            yield opening + 1, None
            continue
        # The last closing line ends the block, as in the PEP.
        end = len(inside) - 1 - inside[::-1].index(_CLOSE)
        yield opening + 1, "\n".join(line[2:] for line in inside[:end])


def _comments_in(text: str) -> Iterator[int]:
    """Yield the lines with comments: a block in a string, such as a template, is none."""
    import tokenize

    with suppress(tokenize.TokenError, SyntaxError):
        for token in tokenize.generate_tokens(StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0]


def _dependencies(table: dict[str, Any], line: int) -> Dependencies | Malformed:
    requires_python = table.get("requires-python", "")
    packages = table.get("dependencies", [])
    if not isinstance(requires_python, str):
        return Malformed(reason="requires-python is not a string", line=line)
    if not isinstance(packages, list) or not all(isinstance(item, str) for item in packages):
        return Malformed(reason="dependencies is not a list of strings", line=line)
    return Dependencies(requires_python=requires_python, packages=tuple(packages))
