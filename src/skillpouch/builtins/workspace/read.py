"""`read`: a file of the workspace with line numbers, a part of it, or an image."""

from dataclasses import dataclass

from skillpouch.builtins.workspace.answer import Answer
from skillpouch.builtins.workspace.definition import Definition, number, text
from skillpouch.builtins.workspace.images import LONGEST_MAGIC, image_type
from skillpouch.builtins.workspace.lines import (
    LONGEST_DATA,
    LongLines,
    count_lines,
    next_line,
    skip_lines,
)
from skillpouch.builtins.workspace.protected import files_of
from skillpouch.builtins.workspace.session import WorkspaceSession
from skillpouch.builtins.workspace.text_forms import as_utf8, is_binary
from skillpouch.calls import ToolCall
from skillpouch.errors import ToolFaultError
from skillpouch.results import Attachment
from skillpouch.text import clean
from skillpouch.workspace.files import OpenFile

DEFINITION = Definition(
    name="read",
    description="Read a file of the workspace: its lines with their numbers, or an image.",
    parameters={
        "file_path": text("the file, relative to the workspace or absolute inside it"),
        "offset": number("lines to leave out at the start (0: from the first)", default=0),
        "limit": number("lines to show at most", minimum=1, default=2000),
        "encoding": text("how the text is encoded, when it is not UTF-8 or UTF-16 with a mark"),
    },
    required=("file_path",),
)

_LARGEST_IMAGE = 5 * 1024 * 1024  # what model providers take
_NUMBER_WIDTH = 6


def run(call: ToolCall, session: WorkspaceSession) -> Answer:
    """Return the lines asked for, and say where to go on."""
    with files_of(call).reading(call.arguments["file_path"]) as opened:
        session.saw(call.terms.workspace, opened.path, opened.stamp)
        return show(call, opened)


def show(call: ToolCall, opened: OpenFile) -> Answer:
    """Show a file that is open: an image as it is, of a text the lines that are asked for."""
    start = opened.file.read(LONGEST_MAGIC)
    opened.file.seek(0)
    if kind := image_type(start):
        return _image(opened, kind)
    encoding = call.arguments.get("encoding")
    if is_binary(opened.file, encoding):
        hint = "it is not text; `bash` has programs that look into such files"
        raise ToolFaultError(
            "unsupported", f"{opened.path!r} is binary, {opened.size:,} bytes", hint=hint
        )
    return _lines(call, opened, as_utf8(opened.file, encoding, opened.path))


def _image(opened: OpenFile, kind: str) -> Answer:
    if opened.size > _LARGEST_IMAGE:
        hint = f"make it smaller than {_LARGEST_IMAGE:,} bytes"
        raise ToolFaultError("unsupported", f"{opened.path!r} has {opened.size:,} bytes", hint=hint)
    data = opened.file.read(_LARGEST_IMAGE)
    return Answer(
        text=f"{opened.path}: {kind}, {len(data):,} bytes",
        structured={"path": opened.path, "type": kind, "bytes": len(data)},
        attachments=(Attachment(name=opened.path, type=kind, data=data),),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """The lines that are shown, from `first` on, and how many there are in all.

    `data` is the same part of the file as it is stored, long lines whole.
    """

    first: int
    rows: list[str]
    total: int
    hides: bool
    data: str

    @property
    def after(self) -> int:
        return self.first + len(self.rows)


def _lines(call: ToolCall, opened: OpenFile, file: LongLines) -> Answer:
    offset, limit = call.arguments.get("offset", 0), call.arguments.get("limit", 2000)
    shown = _show(file, offset, limit, call.limits.keep_bytes)
    is_more = shown.after < shown.total
    return Answer(
        text="\n".join([*shown.rows, *_notes(offset, shown)]),
        structured={
            "path": opened.path,
            "first_line": shown.first + 1,
            "lines": len(shown.rows),
            "total_lines": shown.total,
            "next_offset": shown.after if is_more else None,
        },
        data=shown.data,
        truncated=is_more,
    )


def _show(file: LongLines, offset: int, limit: int, keep_bytes: int) -> _Shown:
    first = skip_lines(file, offset)
    start = end = file.tell()
    rows, size, read, hides = list[str](), 0, 0, False
    while len(rows) < limit and (line := next_line(file)) is not None:
        read += 1
        visible = clean(line).replace("\n", "\\r")  # a carriage return inside a line
        row = f"{first + read:>{_NUMBER_WIDTH}}\t{visible}"
        size += len(row.encode("utf-8", "replace")) + 1
        if size > keep_bytes and rows:
            break
        hides = hides or len(visible) < len(line)
        rows.append(row)
        end = file.tell()
    total = first + read + count_lines(file)
    file.seek(start)
    data = file.read(min(end - start, LONGEST_DATA)).decode("utf-8", "replace")
    return _Shown(first=first, rows=rows, total=total, hides=hides, data=data)


def _notes(offset: int, shown: _Shown) -> list[str]:
    if shown.total == 0:
        return ["[the file is empty]"]
    if offset >= shown.total:
        return [f"[the file has {shown.total:,} lines: offset {offset:,} is past its end]"]
    notes = ["[characters that are not seen were left out]"] if shown.hides else []
    if shown.after < shown.total:
        said = f"lines {shown.first + 1:,} to {shown.after:,} of {shown.total:,}"
        notes.append(f"[{said}; go on with offset {shown.after}]")
    return notes
