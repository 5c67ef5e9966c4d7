"""What a search wrote, line by line of JSON, as files with numbered lines."""

import json
import os
from base64 import b64decode
from dataclasses import dataclass, field, replace
from typing import Any

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

    Of each file at most so many lines count, unless `most` is 0.
    """
    files: dict[str, FoundFile] = {}
    for row in output.splitlines():
        # Two thirds of the rows say nothing that matters here, at length.
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
    # ripgrep stops at so many, but goes on to show the lines around the last of them.
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
    """Return what JSON cannot hold as it is: text, or bytes in base64."""
    return os.fsencode(value["text"]) if "text" in value else b64decode(value["bytes"])
