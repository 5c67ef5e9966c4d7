"""A body of several parts, files among them, streamed from disk."""

import re
import secrets
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from mimetypes import guess_type

from skillpouch.net.http.uploads import OpenFile

# As browsers do it: a quote or a line break would end the name.
_BREAKING = re.compile(r'[\x00-\x1f\x7f"\\]')


@dataclass(frozen=True, slots=True, kw_only=True)
class Content:
    """What is sent: pieces of known size, as often as it has to be sent."""

    content_type: str
    pieces: tuple[bytes | OpenFile, ...]

    @property
    def size(self) -> int:
        return sum(len(p) if isinstance(p, bytes) else p.size for p in self.pieces)

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self.pieces:
            if isinstance(piece, bytes):
                yield piece
            else:
                async for part in piece.pieces():
                    yield part


@dataclass(frozen=True, slots=True, kw_only=True)
class Upload:
    file: OpenFile
    filename: str
    content_type: str = ""

    @property
    def type(self) -> str:
        return self.content_type or guess_type(self.filename)[0] or "application/octet-stream"


def multipart_content(fields: Sequence[tuple[str, str | Upload]]) -> Content:
    """Return the fields as `multipart/form-data`."""
    boundary = secrets.token_hex(16)  # nobody can write it into a value before it is known
    pieces: list[bytes | OpenFile] = []
    for name, value in fields:
        head = f'--{boundary}\r\nContent-Disposition: form-data; name="{_quoted(name)}"'
        if isinstance(value, Upload):
            head += f'; filename="{_quoted(value.filename)}"\r\nContent-Type: {value.type}'
            pieces += [f"{head}\r\n\r\n".encode(), value.file, b"\r\n"]
        else:
            pieces.append(f"{head}\r\n\r\n{value}\r\n".encode())
    pieces.append(f"--{boundary}--\r\n".encode())
    return Content(content_type=f"multipart/form-data; boundary={boundary}", pieces=tuple(pieces))


def _quoted(text: str) -> str:
    return _BREAKING.sub(lambda match: f"%{ord(match[0]):02X}", text)
