"""`edit`: one text in a file replaced by another, and nothing else changed."""

from typing import Any

from skillpouch.builtins.workspace.answer import Answer
from skillpouch.builtins.workspace.definition import Definition, number, switch, text
from skillpouch.builtins.workspace.hunks import Change, short_diff
from skillpouch.builtins.workspace.near_misses import why_not_found
from skillpouch.builtins.workspace.protected import files_of
from skillpouch.builtins.workspace.session import WorkspaceSession
from skillpouch.builtins.workspace.text_forms import StoredText
from skillpouch.calls import ToolCall
from skillpouch.errors import ToolFaultError
from skillpouch.text import clean
from skillpouch.workspace.files import OpenFile, changed
from skillpouch.workspace.workspace import changed_file

DEFINITION = Definition(
    name="edit",
    description=(
        "Replace a text in a file of the workspace. It must be there exactly once, "
        "unless `replace_all` is set; line ends are kept as the file has them."
    ),
    parameters={
        "file_path": text("the file, relative to the workspace or absolute inside it"),
        "old_string": text("what is there now, exactly, without line numbers", minLength=1),
        "new_string": text("what is to be there"),
        "replace_all": switch("replace every occurrence"),
        "expected_replacements": number("fail unless it is there this many times", minimum=1),
        "dry_run": switch("show what would change, and change nothing"),
    },
    required=("file_path", "old_string", "new_string"),
    effects=("read", "write"),
)

_LARGEST = 16 * 1024 * 1024
_MOST_SHOWN = 10
_LONGEST_PREVIEW = 120


def run(call: ToolCall, session: WorkspaceSession) -> Answer:
    """Replace, and show the lines around each change."""
    arguments = call.arguments
    path = arguments["file_path"]
    with files_of(call).reading(path) as opened:
        known = session.seen(call.terms.workspace, opened.path)
        if known is not None and known != opened.stamp:
            raise changed(path)
        stored = _stored(opened, path)
    changes = find_changes(stored, arguments, path)
    diff = clean(short_diff(stored.text, changes))
    facts: dict[str, Any] = {"path": opened.path, "replacements": len(changes), "diff": diff}
    if arguments.get("dry_run", False):
        return Answer(text=f"{path} would change:\n{diff}", structured=facts)
    data = apply(stored, changes)
    written = files_of(call).replace(path, data, expected=opened.stamp)
    session.saw(call.terms.workspace, written.path, written.stamp)
    times = "" if len(changes) == 1 else f" in {len(changes):,} places"
    return Answer(
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


def find_changes(stored: StoredText, arguments: dict[str, Any], path: str) -> list[Change]:
    """Return each place that the arguments name; raise when they do not name it clearly."""
    old = arguments["old_string"].replace("\r\n", "\n")
    new = arguments["new_string"].replace("\r\n", "\n")
    if old == new:
        raise ToolFaultError("invalid_argument", "old_string and new_string are the same")
    everywhere = arguments.get("replace_all", False)
    expected = arguments.get("expected_replacements", None if everywhere else 1)
    # Places that overlap are counted, too: of those, no one could say which was meant.
    places = _places(stored.text, old, step=len(old) if everywhere or expected != 1 else 1)
    if not places:
        hint = why_not_found(stored.text, old)
        raise ToolFaultError("not_found", f"{path!r} does not hold this old_string", hint=hint)
    if expected is not None and len(places) != expected:
        raise _wrong_count(stored.text, places, expected, path)
    return [Change(start=place, end=place + len(old), new=new) for place in places]


def apply(stored: StoredText, changes: list[Change]) -> bytes:
    """Return the bytes of the file with the changes made: all else is what it was."""
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
    hint = "add lines around it until it is there once, or set replace_all"
    message = f"old_string is {len(places):,} times in {path!r}, not {expected:,}:\n{listed}"
    return ToolFaultError("conflict", message, hint=hint)
