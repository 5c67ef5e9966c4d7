"""`edit`: replaces a text in a file, and shows a short diff, or what was probably meant."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from skillpouch.builtins.workspace.context import (
    Definition,
    ToolAnswer,
    WorkspaceSession,
    files_of,
    files_to_write,
    number,
    remember_written,
    stamp_seen,
    switch,
    text,
)
from skillpouch.builtins.workspace.read import StoredText
from skillpouch.calls import ToolCall
from skillpouch.errors import ToolFaultError
from skillpouch.text import clean
from skillpouch.workspace.files import OpenFile, changed, is_same
from skillpouch.workspace.workspace import changed_file

_CONTEXT = 3
_MOST_HUNKS = 5
_LONGEST_LINE = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class TextEdit:
    """A range of a text, and its replacement."""

    start: int
    end: int
    new: str


def short_diff(text: str, changes: Sequence[TextEdit]) -> str:
    """Return the first hunks, each with three lines around it, and how many more there are."""
    groups = _groups(text, changes)
    shown = [_hunk(text, group) for group in groups[:_MOST_HUNKS]]
    left = len(groups) - len(shown)
    return "\n".join([*shown, f"[... {left:,} more places ...]"] if left else shown)


def _groups(text: str, changes: Sequence[TextEdit]) -> list[list[TextEdit]]:
    """Group changes whose surrounding lines touch."""
    groups: list[list[TextEdit]] = []
    for change in changes:
        if groups:
            between = text.count("\n", groups[-1][-1].end, change.start)
            if between <= 2 * _CONTEXT:
                groups[-1].append(change)
                continue
        groups.append([change])
    return groups


def _hunk(text: str, group: list[TextEdit]) -> str:
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
    line = text.count("\n", 0, first) + 1
    head = f"@@ line {line} @@"
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


_NUMBERED = re.compile(r"^ *\d+\t", re.MULTILINE)
_MOST_LINES = 20_000
_LONGEST = 200
_ENOUGH = 0.6


def why_not_found(text: str, wanted: str) -> str:
    """Return the likeliest cause in one sentence."""
    cause = _cause(text, wanted)
    near = _nearest_line(text, wanted)
    said = f"the nearest is line {near[0]}: {near[1]!r}" if near else ""
    return "; ".join(part for part in (cause, said) if part) or "nothing in the file resembles it"


def _cause(text: str, wanted: str) -> str:
    without_numbers = _NUMBERED.sub("", wanted)
    if without_numbers != wanted and without_numbers in text:
        return "it contains line numbers: leave them out"
    if clean(wanted) in clean(text):
        return "the file has invisible characters there"
    if _spaceless(wanted) and _spaceless(wanted) in _spaceless(text):
        return "only the white space differs: copy indentation and line ends as they are"
    if wanted.casefold() in text.casefold():
        return "only upper and lower case differ"
    return ""


def _spaceless(text: str) -> str:
    return "".join(text.split())


def _nearest_line(text: str, wanted: str) -> tuple[int, str] | None:
    """Find the line most similar to the first line of the wanted text."""
    target = next((line.strip() for line in wanted.split("\n") if line.strip()), "")[:_LONGEST]
    matcher = SequenceMatcher(autojunk=False, b=target)
    best, found = _ENOUGH, None
    for place, line in enumerate(text.split("\n", _MOST_LINES)[:_MOST_LINES], 1):
        candidate = line.strip()[:_LONGEST]
        matcher.set_seq1(candidate)
        if matcher.real_quick_ratio() > best and matcher.quick_ratio() > best:
            ratio = matcher.ratio()
            if ratio > best:
                best, found = ratio, (place, line[:_LONGEST])
    return found


DEFINITION = Definition(
    name="edit",
    description=(
        "Replace a text in a file of the workspace. It must occur exactly once, "
        "unless `replace_all` is set; line ends are kept as the file has them."
    ),
    parameters={
        "file_path": text("the file, relative to the workspace or absolute inside it"),
        "old_string": text("what is there now, exactly, without line numbers", minLength=1),
        "new_string": text("what is to be there"),
        "replace_all": switch("replace every occurrence"),
        "expected_replacements": number("fail unless it occurs exactly this many times", minimum=1),
        "dry_run": switch("show what would change, and change nothing"),
    },
    required=("file_path", "old_string", "new_string"),
    effects=("read", "write"),
)

_LARGEST = 16 * 1024 * 1024
_MOST_SHOWN = 10
_LONGEST_PREVIEW = 120


def run(call: ToolCall, session: WorkspaceSession) -> ToolAnswer:
    """Replace, and show the lines around each change."""
    arguments = call.arguments
    path = arguments["file_path"]
    with files_of(call).reading(path) as opened:
        known = session.seen(call.terms.workspace, opened.path)
        if known is not None and not is_same(known, stamp_seen(call, opened.stamp)):
            raise changed(path)
        stored = _stored(opened, path)
    changes = find_changes(stored, arguments, path)
    diff = clean(short_diff(stored.text, changes))
    facts: dict[str, Any] = {"path": opened.path, "replacements": len(changes), "diff": diff}
    if arguments.get("dry_run", False):
        return ToolAnswer(text=f"{path} would change:\n{diff}", structured=facts)
    data = apply(stored, changes)
    written = files_to_write(call).replace(path, data, expected=opened.stamp)
    remember_written(call, session, written)
    times = "" if len(changes) == 1 else f" in {len(changes):,} places"
    return ToolAnswer(
        text=f"changed {path}{times}:\n{diff}",
        structured=facts,
        files=(changed_file(written.path, written.size, "modified"),),
    )


def _stored(opened: OpenFile, path: str) -> StoredText:
    if opened.size > _LARGEST:
        hint = "use `bash` for large files"
        raise ToolFaultError("unsupported", f"{path!r} has {opened.size:,} bytes", hint=hint)
    data = opened.file.read(_LARGEST + 1)
    try:
        stored = StoredText.of(data)
    except UnicodeDecodeError as error:
        raise ToolFaultError("unsupported", f"{path!r} is not text: {error}") from None
    if "\0" in stored.text:
        raise ToolFaultError("unsupported", f"{path!r} is binary")
    return stored


def find_changes(stored: StoredText, arguments: dict[str, Any], path: str) -> list[TextEdit]:
    """Return each change that the arguments describe; raise when the place is not clear."""
    old = arguments["old_string"].replace("\r\n", "\n")
    new = arguments["new_string"].replace("\r\n", "\n")
    if old == new:
        raise ToolFaultError("invalid_argument", "old_string and new_string are the same")
    everywhere = arguments.get("replace_all", False)
    expected = arguments.get("expected_replacements", None if everywhere else 1)
    # Overlapping places are counted, too: it would not be clear which one is meant.
    places = _places(stored.text, old, step=len(old) if everywhere or expected != 1 else 1)
    if not places:
        hint = why_not_found(stored.text, old)
        raise ToolFaultError("not_found", f"{path!r} does not contain this old_string", hint=hint)
    if expected is not None and len(places) != expected:
        raise _wrong_count(stored.text, places, expected, path)
    return [TextEdit(start=place, end=place + len(old), new=new) for place in places]


def apply(stored: StoredText, changes: list[TextEdit]) -> bytes:
    """Return the bytes of the file with the changes; all else is unchanged."""
    pieces, done = list[str](), 0
    for change in changes:
        start, end = stored.stored_place(change.start), stored.stored_place(change.end)
        line_end = stored.line_end(change.start, change.end)
        pieces += [stored.stored[done:start], change.new.replace("\n", line_end)]
        done = end
    return stored.encode("".join([*pieces, stored.stored[done:]]))


def _places(text: str, wanted: str, *, step: int) -> list[int]:
    found: list[int] = []
    place = text.find(wanted)
    while place >= 0:
        found.append(place)
        place = text.find(wanted, place + step)
    return found


def _wrong_count(text: str, places: list[int], expected: int, path: str) -> ToolFaultError:
    lines = []
    for place in places[:_MOST_SHOWN]:
        start = text.rfind("\n", 0, place) + 1
        line = text[start : start + _LONGEST_PREVIEW].split("\n", maxsplit=1)[0]
        lines.append(f"  line {text.count(chr(10), 0, place) + 1}: {line}")
    more = [f"  … and {len(places) - _MOST_SHOWN:,} more"] if len(places) > _MOST_SHOWN else []
    listed = "\n".join([*lines, *more])
    hint = "add lines around it until it occurs once, or set replace_all"
    message = f"old_string is {len(places):,} times in {path!r}, not {expected:,}:\n{listed}"
    return ToolFaultError("conflict", message, hint=hint)
