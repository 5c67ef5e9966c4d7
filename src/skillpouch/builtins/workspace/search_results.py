"""Reads the output of a search, and makes one page of it for a model and for programs."""

import json
import os
from base64 import b64decode
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from skillpouch.builtins.workspace.context import ToolAnswer, shown_path
from skillpouch.calls import ToolCall
from skillpouch.text import clean

_NEVER_READ = (b'{"type":"begin"', b'{"type":"summary"', b'{"data":')
_END = b'{"type":"end"'
_NOT_BINARY = b'"binary_offset":null'


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundLine:
    number: int
    text: str
    is_match: bool


@dataclass(slots=True, kw_only=True)
class FoundFile:
    """The lines of one file: those that match, and those around them."""

    path: str
    lines: list[FoundLine] = field(default_factory=list)

    @property
    def matches(self) -> list[FoundLine]:
        return [line for line in self.lines if line.is_match]


def read_found(output: bytes, most: int = 0) -> list[FoundFile]:
    """Return the files in which something was found, by path; binary ones are left out.

    At most `most` matching lines of each file are kept; 0 means all.
    """
    files: dict[str, FoundFile] = {}
    for row in output.splitlines():
        # Two thirds of the rows are long and not needed: they are skipped without parsing.
        if row.startswith(_NEVER_READ) or (row.startswith(_END) and _NOT_BINARY in row):
            continue
        message = json.loads(row)
        data = message["data"]
        path = _path(data)
        if message["type"] == "end":
            files.pop(path, None)
        else:
            file = files.get(path) or files.setdefault(path, FoundFile(path=path))
            file.lines += _lines(data, is_match=message["type"] == "match")
    found = [files[path] for path in sorted(files)]
    if most:
        found = [_capped(file, most) for file in found]
    return [file for file in found if file.matches]


def _capped(file: FoundFile, most: int) -> FoundFile:
    # ripgrep stops after `most` matches, but context lines after the last one may match, too.
    places = [place for place, line in enumerate(file.lines) if line.is_match]
    return file if len(places) <= most else replace(file, lines=file.lines[: places[most]])


def _path(data: dict[str, Any]) -> str:
    return os.fsdecode(_bytes(data["path"])).removeprefix("./")


def _lines(data: dict[str, Any], *, is_match: bool) -> list[FoundLine]:
    text = _bytes(data["lines"]).decode("utf-8", "replace")
    rows = text.removesuffix("\n").split("\n")
    first = data["line_number"]
    return [
        FoundLine(number=first + place, text=row.removesuffix("\r"), is_match=is_match)
        for place, row in enumerate(rows)
    ]


def _bytes(value: dict[str, str]) -> bytes:
    """Return the bytes of a value in ripgrep's JSON: text, or base64 if it is not UTF-8."""
    return os.fsencode(value["text"]) if "text" in value else b64decode(value["bytes"])


_LONGEST_LINE = 500
_NOTHING = "[nothing was found]"
_PARTIAL = "[some files could not be read]"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Window:
    """Which of all entries are shown."""

    offset: int
    limit: int
    keep_bytes: int


def page_of(found: list[FoundFile], call: ToolCall, *, partial: bool) -> ToolAnswer:
    """Return the page that the arguments ask for, and where the next one begins."""
    given = call.arguments
    window = _Window(
        offset=given.get("offset", 0),
        limit=given.get("head_limit", 250),
        keep_bytes=call.limits.keep_bytes,
    )
    match given.get("output_mode", "content"):
        case "content":
            page = _content(found, given, window)
        case "files":
            page = _files(found, window)
        case _:
            page = _counts(found, window)
    return _answer(page, window.offset, partial=partial)


class _Page(NamedTuple):
    """What is shown: rows for a model, facts and whole lines for a program."""

    rows: list[str]
    facts: list[Any]
    total: int
    data: list[str]
    at_least: bool = False


def _answer(page: _Page, offset: int, *, partial: bool) -> ToolAnswer:
    shown = len(page.facts)
    notes = _notes(offset, shown, page.total, at_least=page.at_least)
    lines = [*page.rows, *notes, *([_PARTIAL] if partial else [])]
    after = offset + shown
    return ToolAnswer(
        text="\n".join(lines) or _NOTHING,
        structured={
            "results": page.facts,
            "total": page.total,
            "total_is_exact": not page.at_least,
            "next_offset": after if after < page.total and shown else None,
        },
        data="".join(f"{line}\n" for line in page.data),
        truncated=after < page.total,
    )


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
    return _Page(shown, shown, len(paths), shown)


def _counts(found: list[FoundFile], window: _Window) -> _Page:
    counts = [(shown_path(file.path), len(file.matches)) for file in found]
    shown = counts[window.offset : window.offset + window.limit]
    rows = [f"{path}:{count}" for path, count in shown]
    rows = rows[: _fitting(rows, window.keep_bytes)]
    facts = [{"path": path, "count": count} for path, count in shown[: len(rows)]]
    return _Page(rows, facts, len(counts), rows)


def _content(found: list[FoundFile], given: dict[str, Any], window: _Window) -> _Page:
    most = window.offset + window.limit + 1
    every = [
        (file, place) for file in found for place, line in enumerate(file.lines) if line.is_match
    ]
    rows, facts, data, size = list[str](), list[Any](), list[str](), 0
    last = ("", 0)
    for file, place in every[window.offset : window.offset + window.limit]:
        near = _near(file, place, given)
        near = [line for line in near if (file.path, line.number) > last]
        before = last if rows else None
        piece = _piece(file, near, before, given)
        size += sum(len(row.encode("utf-8", "replace")) + 1 for row in piece)
        if size > window.keep_bytes and rows:
            break
        rows += piece
        data += _piece(file, near, before, given, whole=True)
        match = file.lines[place]
        facts.append({"path": shown_path(file.path), "line": match.number, "text": _cut(match)})
        last = (file.path, near[-1].number)
    # In a file with `most` matches, further matches were not counted.
    at_least = any(len(file.matches) >= most for file in found)
    return _Page(rows, facts, len(every), data, at_least)


def _near(file: FoundFile, place: int, given: dict[str, Any]) -> list[FoundLine]:
    """Return a match and the lines around it, up to the next match."""
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
    file: FoundFile,
    near: list[FoundLine],
    last: tuple[str, int] | None,
    given: dict[str, Any],
    *,
    whole: bool = False,
) -> list[str]:
    """Return the rows of one match, after a separator line if it does not follow the last one."""
    has_context = any(given.get(name) for name in ("context", "-A", "-B"))
    gap = has_context and last is not None and last != (file.path, near[0].number - 1)
    return [*(["--"] if gap else []), *(_row(file.path, line, whole) for line in near)]


def _row(path: str, line: FoundLine, whole: bool) -> str:
    mark = ":" if line.is_match else "-"
    return f"{shown_path(path)}{mark}{line.number}{mark}{line.text if whole else _cut(line)}"


def _cut(line: FoundLine) -> str:
    text = clean(line.text)
    text = text.replace("\n", "\\r") if "\n" in text else text
    if len(text) <= _LONGEST_LINE:
        return text
    return f"{text[:_LONGEST_LINE]} [... {len(text) - _LONGEST_LINE:,} characters left out ...]"


def _fitting(rows: list[str], most_bytes: int) -> int:
    """Return how many rows fit; at least one, so that paging makes progress."""
    size = 0
    for count, row in enumerate(rows):
        size += len(row.encode("utf-8", "replace")) + 1
        if size > most_bytes:
            return max(1, count)
    return len(rows)
