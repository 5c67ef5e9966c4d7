"""One page of what a search found, as text for a model and values for a program."""

from dataclasses import dataclass
from typing import Any

from kitbag.calls import ToolCall
from kitbag.hidden_text import clean
from kitbag.workspace_tools.answer import Answer
from kitbag.workspace_tools.found_lines import FoundFile, FoundLine
from kitbag.workspace_tools.shown_paths import shown_path

_LONGEST_LINE = 500
_NOTHING = "[nothing was found]"
_PARTIAL = "[some files could not be read]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """Which of all entries are shown."""

    offset: int
    limit: int
    keep_bytes: int


def page_of(found: list[FoundFile], call: ToolCall, *, partial: bool) -> Answer:
    """Return the page that the arguments ask for, and where the next one begins."""
    given = call.arguments
    window = _Window(
        offset=given.get("offset", 0),
        limit=given.get("head_limit", 250),
        keep_bytes=call.limits.keep_bytes,
    )
    match given.get("output_mode", "content"):
        case "content":
            rows, facts, total, at_least = _content(found, given, window)
        case "files":
            rows, facts, total, at_least = _files(found, window)
        case _:
            rows, facts, total, at_least = _counts(found, window)
    shown = len(facts)
    notes = _notes(window.offset, shown, total, at_least=at_least)
    lines = [*rows, *notes, *([_PARTIAL] if partial else [])]
    after = window.offset + shown
    return Answer(
        text="\n".join(lines) or _NOTHING,
        structured={
            "results": facts,
            "total": total,
            "total_is_exact": not at_least,
            "next_offset": after if after < total and shown else None,
        },
        truncated=after < total,
    )


_Page = tuple[list[str], list[Any], int, bool]


def _notes(offset: int, shown: int, total: int, *, at_least: bool) -> list[str]:
    of = f"of {'at least ' if at_least else ''}{total:,}"
    if total and offset >= total:
        return [f"[there are {total:,}: offset {offset:,} is past the end]"]
    if offset + shown < total:
        return [f"[{offset + 1:,} to {offset + shown:,} {of}; go on with offset {offset + shown}]"]
    return []


def _files(found: list[FoundFile], window: _Window) -> _Page:
    paths = [shown_path(file.path) for file in found]
    shown = paths[window.offset : window.offset + window.limit]
    shown = shown[: _fitting(shown, window.keep_bytes)]
    return shown, shown, len(paths), False


def _counts(found: list[FoundFile], window: _Window) -> _Page:
    counts = [(shown_path(file.path), len(file.matches)) for file in found]
    shown = counts[window.offset : window.offset + window.limit]
    rows = [f"{path}:{count}" for path, count in shown]
    rows = rows[: _fitting(rows, window.keep_bytes)]
    facts = [{"path": path, "count": count} for path, count in shown[: len(rows)]]
    return rows, facts, len(counts), False


def _content(found: list[FoundFile], given: dict[str, Any], window: _Window) -> _Page:
    most = window.offset + window.limit + 1
    every = [
        (file, place) for file in found for place, line in enumerate(file.lines) if line.is_match
    ]
    rows, facts, size = list[str](), list[Any](), 0
    last = ("", 0)
    for file, place in every[window.offset : window.offset + window.limit]:
        near = _near(file, place, given)
        near = [line for line in near if (file.path, line.number) > last]
        piece = _piece(file, near, last if rows else None, given)
        size += sum(len(row.encode("utf-8", "replace")) + 1 for row in piece)
        if size > window.keep_bytes and rows:
            break
        rows += piece
        match = file.lines[place]
        facts.append({"path": shown_path(file.path), "line": match.number, "text": _cut(match)})
        last = (file.path, near[-1].number)
    # Of a file with as many lines as were asked for at most, the others were not counted.
    at_least = any(len(file.matches) >= most for file in found)
    return rows, facts, len(every), at_least


def _near(file: FoundFile, place: int, given: dict[str, Any]) -> list[FoundLine]:
    """Return a line that was found and those around it, up to the next one that was found."""
    around = given.get("context", 0)
    lines, match = file.lines, file.lines[place]
    start = end = place
    while start and _is_around(lines[start - 1], match.number, given.get("-B", around)):
        start -= 1
    while end + 1 < len(lines) and _is_around(
        lines[end + 1], match.number, given.get("-A", around)
    ):
        end += 1
    return lines[start : end + 1]


def _is_around(line: FoundLine, number: int, distance: int) -> bool:
    return not line.is_match and abs(line.number - number) <= distance


def _piece(
    file: FoundFile, near: list[FoundLine], last: tuple[str, int] | None, given: dict[str, Any]
) -> list[str]:
    """Return the rows of one place, after a line that parts it from the place before."""
    has_context = any(given.get(name) for name in ("context", "-A", "-B"))
    gap = has_context and last is not None and last != (file.path, near[0].number - 1)
    return [*(["--"] if gap else []), *(_row(file.path, line) for line in near)]


def _row(path: str, line: FoundLine) -> str:
    mark = ":" if line.is_match else "-"
    return f"{shown_path(path)}{mark}{line.number}{mark}{_cut(line)}"


def _cut(line: FoundLine) -> str:
    text = clean(line.text)
    text = text.replace("\n", "\\r") if "\n" in text else text
    if len(text) <= _LONGEST_LINE:
        return text
    return f"{text[:_LONGEST_LINE]} [... {len(text) - _LONGEST_LINE:,} characters left out ...]"


def _fitting(rows: list[str], most_bytes: int) -> int:
    """Return how many rows fit; at least one, so that paging goes on."""
    size = 0
    for count, row in enumerate(rows):
        size += len(row.encode("utf-8", "replace")) + 1
        if size > most_bytes:
            return max(1, count)
    return len(rows)
