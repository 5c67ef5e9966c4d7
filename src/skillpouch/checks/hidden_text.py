"""Finds text that a person reading a skill would not see, but a model or a terminal would."""

import unicodedata
from collections import Counter
from itertools import islice

from skillpouch.problems import Problem, Severity
from skillpouch.text import find_hidden

_BOM = "\ufeff"
_PAGE_BREAK = "\x0c"  # an old habit between sections of source code, harmless
# Typesetting that text copied from a document brings along: worth knowing, no trick.
_MILD = frozenset("\u00ad")
_DIRECTION_MARKS = frozenset("\u061c\u200e\u200f")
_RIGHT_TO_LEFT = frozenset(("R", "AL"))
_ESCAPE_STARTS = frozenset("\x1b\x9b\x90\x98\x9d\x9e\x9f")

_TAG_BLOCK = range(0xE0000, 0xE0080)
_TAG_PRINTABLE = range(0x20, 0x7F)

_LINES_AT_MOST = 100
_NAMED_AT_MOST = 6
_SPELLED_AT_MOST = 200


def find_hidden_text(path: str, text: str) -> list[Problem]:
    """Give one problem per line that hides something; past a hundred, one for all the rest."""
    by_line = _hidden_by_line(text)
    reported = dict(islice(by_line.items(), _LINES_AT_MOST))
    right_to_left = _lines_written_right_to_left(text, reported)
    problems = [
        _problem(path, number, _severity(pieces, number in right_to_left), _message(pieces))
        for number, pieces in reported.items()
    ]
    if len(by_line) > len(reported):
        more = len(by_line) - len(reported)
        next_line = next(islice(by_line, len(reported), None))
        problems.append(_problem(path, next_line, "warning", f"{more:,} more lines hide text"))
    return problems


def _problem(path: str, line: int, severity: Severity, message: str) -> Problem:
    return Problem(path=path, code="hidden-text", severity=severity, message=message, line=line)


def _hidden_by_line(text: str) -> dict[int, list[str]]:
    by_line: dict[int, list[str]] = {}
    line, counted = 1, 0
    for place, piece in find_hidden(text):
        line += text.count("\n", counted, place)
        counted = place
        if seen := _without_harmless(piece, first=place == 0):
            by_line.setdefault(line, []).append(seen)
    return by_line


def _without_harmless(piece: str, *, first: bool) -> str:
    if first:
        piece = piece.removeprefix(_BOM)
    return piece.replace(_PAGE_BREAK, "")


def _lines_written_right_to_left(text: str, by_line: dict[int, list[str]]) -> set[int]:
    marked = {
        n for n, pieces in by_line.items() if not _DIRECTION_MARKS.isdisjoint("".join(pieces))
    }
    if not marked:
        return set()
    lines = text.split("\n")
    return {
        number
        for number in marked
        if any(
            unicodedata.bidirectional(char) in _RIGHT_TO_LEFT and char.isalpha()
            for char in lines[number - 1]
        )
    }


def _severity(pieces: list[str], right_to_left: bool) -> Severity:
    mild = _MILD | _DIRECTION_MARKS if right_to_left else _MILD
    return "info" if mild.issuperset("".join(pieces)) else "warning"


def _message(pieces: list[str]) -> str:
    escapes = sum(_is_escape(piece) for piece in pieces)
    characters = "".join(piece for piece in pieces if not _is_escape(piece))
    tags = [char for char in characters if ord(char) in _TAG_BLOCK]
    others = Counter(char for char in characters if ord(char) not in _TAG_BLOCK)
    parts = [_times(_name(char), count) for char, count in others.most_common(_NAMED_AT_MOST)]
    if len(others) > _NAMED_AT_MOST:
        parts.append(f"{len(others) - _NAMED_AT_MOST} other kinds")
    if escapes:
        parts.append(_times("terminal escape", escapes))
    if tags:
        parts.append(_times("tag character", len(tags)) + _spelling(tags))
    count = escapes + len(characters)
    noun = "character" if count == 1 else "characters"
    return f"{count} hidden {noun}: {', '.join(parts)}; remove what a reader cannot see"


def _is_escape(piece: str) -> bool:
    return piece[0] in _ESCAPE_STARTS


def _name(char: str) -> str:
    name = unicodedata.name(char, "control").lower()
    return f"U+{ord(char):04X} {name}"


def _times(what: str, count: int) -> str:
    return what if count == 1 else f"{what} ({count} times)"


def _spelling(tags: list[str]) -> str:
    codes = (ord(tag) - _TAG_BLOCK.start for tag in tags[:_SPELLED_AT_MOST])
    spelled = "".join(chr(code) for code in codes if code in _TAG_PRINTABLE)
    return f" that spell {spelled!r}" if spelled else ""
