r"""Patterns with `*` and `?`, matched in time that grows only with the text.

`*` is any text, also across dots, colons and slashes: `git.*` must not miss `git.remote.add`.
`?` is one character, `\` takes the meaning from the next one. Case matters.
"""

import posixpath
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from unicodedata import normalize

_PIECE = re.compile(r"\\(.)|(\*)|(\?)|(.)", re.DOTALL)
_SPECIAL = re.compile(r"[\\*?]")
_DETOUR = re.compile(r"(?:^|/)\.\.?(?:/|$)|//")


@lru_cache(maxsize=16_384)
def matcher(pattern: str) -> Callable[[str], object]:
    """Return a function that tells whether a whole text fits the pattern."""
    prefix, suffix, exact = literal_ends(pattern)
    if exact:
        return prefix.__eq__
    if pattern == f"{literally(prefix)}*{literally(suffix)}":
        # Nearly all patterns, and compiling an expression costs a hundred times as much.
        least = len(prefix) + len(suffix)
        return lambda text: len(text) >= least and text.startswith(prefix) and text.endswith(suffix)
    first, *others = _segments(pattern)
    if not others:
        return re.compile(first, re.DOTALL).fullmatch
    *middle, last = others
    # Each segment where it first fits, and never again elsewhere: for such patterns that loses
    # nothing, and no text makes the search go back.
    inner = "".join(f"(?>.*?{segment})" for segment in middle)
    return re.compile(f"{first}{inner}.*{last}", re.DOTALL).fullmatch


def any_fits(patterns: Sequence[str], text: str) -> bool:
    """Tell whether a text fits one of the patterns; no patterns at all mean every text."""
    return not patterns or any(matcher(pattern)(text) for pattern in patterns)


def _segments(pattern: str) -> list[str]:
    segments = [""]
    for match in _PIECE.finditer(pattern):
        escaped, star, question, plain = match.groups()
        if star:
            segments.append("")
        else:
            segments[-1] += "." if question else re.escape(escaped or plain)
    return segments


def literal_ends(pattern: str) -> tuple[str, str, bool]:
    """Return what every match begins with and ends with, and whether it is the only match."""
    prefix, suffix, exact = "", "", True
    for match in _PIECE.finditer(pattern):
        escaped, star, question, plain = match.groups()
        if star or question:
            suffix, exact = "", False
        elif exact:
            prefix += escaped or plain
        else:
            suffix += escaped or plain
    return prefix, suffix, exact


def literally(text: str) -> str:
    """Return the pattern that matches this text and no other."""
    return _SPECIAL.sub(r"\\\g<0>", text)


def spellings(text: str) -> tuple[str, ...]:
    """Return a text, and what it comes to as a path or address when it takes detours.

    Letters with accents are written in two ways that look the same: NFC is one of them.
    """
    composed = text if text.isascii() else normalize("NFC", text)
    others = () if composed == text else (composed,)
    if "/" not in text and text not in (".", ".."):
        return (text, *others)
    scheme, separator, rest = composed.rpartition("://")
    if not _DETOUR.search(rest):
        return (text, *others)
    straight = posixpath.normpath(rest)
    # POSIX keeps two leading slashes, and every system Skillpouch runs on reads them as one.
    return (text, *others, scheme + separator + re.sub(r"\A//+", "/", straight))
