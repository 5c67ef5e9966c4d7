"""A short diff of known places: only the lines around each change."""

from collections.abc import Sequence
from dataclasses import dataclass

_CONTEXT = 3
_MOST_HUNKS = 5
_LONGEST_LINE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What stands between two places of a text, and what is put there."""

    start: int
    end: int
    new: str


def short_diff(text: str, changes: Sequence[Change]) -> str:
    """Return the first hunks, each with three lines around it, and how many more there are."""
    groups = _groups(text, changes)
    shown = [_hunk(text, group) for group in groups[:_MOST_HUNKS]]
    left = len(groups) - len(shown)
    return "\n".join([*shown, f"[... {left:,} more places ...]"] if left else shown)


def _groups(text: str, changes: Sequence[Change]) -> list[list[Change]]:
    """Put changes together whose surroundings touch."""
    groups: list[list[Change]] = []
    for change in changes:
        if groups:
            between = text.count("\n", groups[-1][-1].end, change.start)
            if between <= 2 * _CONTEXT:
                groups[-1].append(change)
                continue
        groups.append([change])
    return groups


def _hunk(text: str, group: list[Change]) -> str:
    start = text.rfind("\n", 0, group[0].start) + 1
    end = text.find("\n", group[-1].end)
    end = len(text) if end < 0 else end
    pieces, place = list[str](), start
    for change in group:
        pieces += [text[place : change.start], change.new]
        place = change.end
    new = "".join(pieces) + text[place:end]
    before, first = _lines_before(text, start)
    old_lines, new_lines = text[start:end].split("\n"), new.split("\n")
    number = text.count("\n", 0, first) + 1
    head = f"@@ line {number} @@"
    same = 0
    while same < min(len(old_lines), len(new_lines)) and old_lines[same] == new_lines[same]:
        same += 1
    tail = 0
    most = min(len(old_lines), len(new_lines)) - same
    while tail < most and old_lines[-1 - tail] == new_lines[-1 - tail]:
        tail += 1
    kept = old_lines[len(old_lines) - tail :]
    return "\n".join(
        [
            head,
            *_marked(" ", [*before, *old_lines[:same]][-_CONTEXT:]),
            *_marked("-", old_lines[same : len(old_lines) - tail]),
            *_marked("+", new_lines[same : len(new_lines) - tail]),
            *_marked(" ", [*kept, *_lines_after(text, end)][:_CONTEXT]),
        ]
    )


def _marked(mark: str, lines: Sequence[str]) -> list[str]:
    return [f"{mark}{line[:_LONGEST_LINE]}" for line in lines]


def _lines_before(text: str, start: int) -> tuple[list[str], int]:
    first = start
    for _ in range(_CONTEXT):
        if first == 0:
            break
        first = text.rfind("\n", 0, first - 1) + 1
    return (text[first : start - 1].split("\n") if first < start else []), first


def _lines_after(text: str, end: int) -> list[str]:
    last = end
    for _ in range(_CONTEXT):
        following = text.find("\n", last + 1)
        if last >= len(text) or following < 0:
            last = len(text)
            break
        last = following
    after = text[end + 1 : last].removesuffix("\n")
    return after.split("\n") if after else []
