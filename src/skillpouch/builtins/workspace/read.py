"""`read`: shows a file with line numbers, a part of it, or an image, in any encoding."""

import codecs
import io
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Protocol

from skillpouch.builtins.workspace.context import (
    Definition,
    ToolAnswer,
    WorkspaceSession,
    files_of,
    number,
    stamp_seen,
    text,
)
from skillpouch.calls import ToolCall
from skillpouch.errors import ToolFaultError
from skillpouch.results import Attachment
from skillpouch.text import clean
from skillpouch.workspace.files import OpenFile

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)
LONGEST_MAGIC = 12


def image_type(start: bytes) -> str:
    """Return the media type of an image that models can see, "" for anything else."""
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for magic, kind in _MAGIC if start.startswith(magic)), "")


LONGEST = 2000  # characters of a line that are shown
LONGEST_DATA = 8 * 1024 * 1024  # bytes of lines that a pipe gets
_CUT_BYTES = LONGEST * 4 + 1
_PIECE = 1024 * 1024


class LongLines(Protocol):
    """A binary file."""

    def readline(self, size: int = -1, /) -> bytes: ...
    def read(self, size: int = -1, /) -> bytes: ...
    def seek(self, offset: int, whence: int = 0, /) -> int: ...
    def tell(self) -> int: ...


def next_line(file: LongLines) -> str | None:
    """Return a line without its end, cut when it is long; None at the end of the file."""
    data = file.readline(_CUT_BYTES)
    if not data:
        return None
    rest = 0
    while not data.endswith(b"\n") and (more := file.readline(_PIECE)):
        rest += len(more.removesuffix(b"\n"))
        if more.endswith(b"\n"):
            break
    text = data.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
    if len(text) <= LONGEST and not rest:
        return text
    kept = text[:LONGEST]
    if not rest:
        return f"{kept} [... {len(text) - LONGEST:,} characters left out ...]"
    return f"{kept} [... {len(data) + rest - len(kept.encode()):,} bytes left out ...]"


def skip_lines(file: LongLines, count: int) -> int:
    """Skip lines; return how many were skipped."""
    for passed in range(count):
        data = file.readline(_PIECE)
        if not data:
            return passed
        while data and not data.endswith(b"\n"):
            data = file.readline(_PIECE)
    return count


def count_lines(file: LongLines) -> int:
    """Return how many lines are left."""
    count, last = 0, b"\n"
    while piece := file.read(_PIECE):
        count += piece.count(b"\n")
        last = piece[-1:]
    return count + (last != b"\n")


_LARGEST_CONVERTED = 16 * 1024 * 1024
_SNIFFED = 8192
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def _mark_of(start: bytes) -> tuple[bytes, str]:
    return next(((mark, name) for mark, name in _MARKS if start.startswith(mark)), (b"", "utf-8"))


def is_binary(file: io.BufferedReader, encoding: str | None) -> bool:
    """Tell whether a file is not text, by its first bytes."""
    start = file.read(_SNIFFED)
    file.seek(0)
    return b"\0" in start and _mark_of(start)[1] == "utf-8" and encoding is None


def as_utf8(file: io.BufferedReader, encoding: str | None, path: str) -> LongLines:
    """Return the file in UTF-8, without its byte order mark, whatever its encoding was."""
    start = file.read(4)
    mark, found = _mark_of(start)
    file.seek(len(mark))
    name = encoding or found
    if name.lower().replace("_", "-") in ("utf-8", "utf8"):
        return file
    data = file.read(_LARGEST_CONVERTED + 1)
    if len(data) > _LARGEST_CONVERTED:
        raise ToolFaultError("unsupported", f"{path!r} is too large to be read as {name}")
    try:
        return io.BytesIO(data.decode(name, "replace").encode("utf-8", "replace"))
    except (LookupError, ValueError):
        raise ToolFaultError("invalid_argument", f"there is no text encoding {name!r}") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredText:
    r"""A text with `\n` only, and the facts needed to write it back as it was stored.

    Bytes that are not UTF-8 stay unchanged.
    """

    text: str
    stored: str = field(repr=False)
    mark: bytes = b""
    encoding: str = "utf-8"
    returns: tuple[int, ...] = field(default=(), repr=False)  # line ends in `text` that are \r\n

    @classmethod
    def of(cls, data: bytes) -> "StoredText":
        mark, encoding = _mark_of(data)
        errors = "surrogateescape" if encoding == "utf-8" else "strict"
        stored = data[len(mark) :].decode(encoding, errors)
        pieces = stored.split("\r\n")
        returns, place = [], 0
        for piece in pieces[:-1]:
            place += len(piece)
            returns.append(place)
            place += 1
        text = "\n".join(pieces)
        return cls(text=text, stored=stored, mark=mark, encoding=encoding, returns=tuple(returns))

    def line_end(self, start: int, end: int) -> str:
        """Return the line end for a part of the text: of its first line, else of most lines."""
        first = self.text.find("\n", start, end)
        if first >= 0:
            place = bisect_left(self.returns, first)
            return "\r\n" if self.returns[place : place + 1] == (first,) else "\n"
        return "\r\n" if len(self.returns) * 2 > self.text.count("\n") else "\n"

    def stored_place(self, place: int) -> int:
        """Return the position in `stored` of a position in `text`."""
        return place + bisect_left(self.returns, place)

    def encode(self, stored: str) -> bytes:
        """Return the bytes of a whole new stored text."""
        errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
        return self.mark + stored.encode(self.encoding, errors)


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

_LARGEST_IMAGE = 5 * 1024 * 1024  # the limit of model providers
_NUMBER_WIDTH = 6


def run(call: ToolCall, session: WorkspaceSession) -> ToolAnswer:
    """Return the requested lines, and where to continue."""
    with files_of(call).reading(call.arguments["file_path"]) as opened:
        session.saw(call.terms.workspace, opened.path, stamp_seen(call, opened.stamp))
        return show(call, opened)


def show(call: ToolCall, opened: OpenFile) -> ToolAnswer:
    """Show an open file: an image as it is, of a text the requested lines."""
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


def _image(opened: OpenFile, kind: str) -> ToolAnswer:
    if opened.size > _LARGEST_IMAGE:
        hint = f"make it smaller than {_LARGEST_IMAGE:,} bytes"
        raise ToolFaultError("unsupported", f"{opened.path!r} has {opened.size:,} bytes", hint=hint)
    data = opened.file.read(_LARGEST_IMAGE)
    return ToolAnswer(
        text=f"{opened.path}: {kind}, {len(data):,} bytes",
        structured={"path": opened.path, "type": kind, "bytes": len(data)},
        attachments=(Attachment(name=opened.path, type=kind, data=data),),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shown:
    """The lines that are shown, from `first` on, and how many there are in all.

    `data` is the same part of the file as it is stored, with long lines uncut.
    """

    first: int
    rows: list[str]
    total: int
    hides: bool
    data: str

    @property
    def after(self) -> int:
        return self.first + len(self.rows)


def _lines(call: ToolCall, opened: OpenFile, file: LongLines) -> ToolAnswer:
    offset, limit = call.arguments.get("offset", 0), call.arguments.get("limit", 2000)
    shown = _show(file, offset, limit, call.limits.keep_bytes)
    is_more = shown.after < shown.total
    return ToolAnswer(
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
    notes = ["[invisible characters were left out]"] if shown.hides else []
    if shown.after < shown.total:
        said = f"lines {shown.first + 1:,} to {shown.after:,} of {shown.total:,}"
        notes.append(f"[{said}; go on with offset {shown.after}]")
    return notes
