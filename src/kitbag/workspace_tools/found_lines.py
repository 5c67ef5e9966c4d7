"""What a search wrote, line by line of JSON, as files with numbered lines."""

import json
import os
from base64 import b64decode
from dataclasses import dataclass, field
from typing import Any


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


def read_found(output: bytes) -> list[FoundFile]:
    """Return the files in which something was found, by path; binary ones are left out."""
    files: dict[str, FoundFile] = {}
    for row in output.splitlines():
        message = json.loads(row)
        data = message["data"]
        if message["type"] == "begin":
            path = _path(data)
            files[path] = FoundFile(path=path)
        elif message["type"] in ("match", "context"):
            files[_path(data)].lines += _lines(data, is_match=message["type"] == "match")
        elif message["type"] == "end" and data["binary_offset"] is not None:
            files.pop(_path(data), None)
    return [files[path] for path in sorted(files) if files[path].matches]


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
