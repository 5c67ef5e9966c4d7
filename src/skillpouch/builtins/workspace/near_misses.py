"""Why a text was not found in a file, and what was probably meant."""

import re
from difflib import SequenceMatcher

from skillpouch.text import clean

_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)
_MOST_LINES = 20_000
_LONGEST = 200
_ENOUGH = 0.6


def why_not_found(text: str, wanted: str) -> str:
    """Return the likeliest cause in one sentence."""
    cause = _cause(text, wanted)
    near = _nearest_line(text, wanted)
    said = f"the nearest is line {near[0]}: {near[1]!r}" if near else ""
    return "; ".join(part for part in (cause, said) if part) or "nothing in the file is like it"


def _cause(text: str, wanted: str) -> str:
    without_numbers = _NUMBERED.sub("", wanted)
    if without_numbers != wanted and without_numbers in text:
        return "it was copied with line numbers: leave them out"
    if clean(wanted) in clean(text):
        return "the file has characters there that are not seen"
    if _spaceless(wanted) and _spaceless(wanted) in _spaceless(text):
        return "only the white space differs: copy indentation and line ends as they are"
    if wanted.casefold() in text.casefold():
        return "only upper and lower case differ"
    return ""


def _spaceless(text: str) -> str:
    return "".join(text.split())


def _nearest_line(text: str, wanted: str) -> tuple[int, str] | None:
    """Find the line most like the first line of what was wanted."""
    target = next((line.strip() for line in wanted.split("\n") if line.strip()), "")[:_LONGEST]
    matcher = SequenceMatcher(autojunk=False, b=target)
    best, found = _ENOUGH, None
    for number, line in enumerate(text.split("\n", _MOST_LINES)[:_MOST_LINES], 1):
        candidate = line.strip()[:_LONGEST]
        matcher.set_seq1(candidate)
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            ratio = matcher.ratio()
            if ratio > best:
                best, found = ratio, (number, line[:_LONGEST])
    return found
