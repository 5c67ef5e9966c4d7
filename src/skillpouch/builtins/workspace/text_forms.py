"""How a text is stored: its encoding, its mark, its line ends. What is written back keeps them."""

import codecs
import io
from bisect import bisect_left
from dataclasses import dataclass, field

from skillpouch.builtins.workspace.lines import LongLines
from skillpouch.errors import ToolFaultError

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
    """Tell whether a file is no text, by its first bytes."""
    start = file.read(_SNIFFED)
    file.seek(0)
    return b"\0" in start and _mark_of(start)[1] == "utf-8" and encoding is None


def as_utf8(file: io.BufferedReader, encoding: str | None, path: str) -> LongLines:
    """Return the file after its mark, in UTF-8 whatever it was stored in."""
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
    r"""A text with `\n` only, and what is needed to write parts of it back as they were stored.

    Bytes that are no UTF-8 stay what they are.
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
        """Return how a line ends in a part of the text: as its first does, else as most do."""
        first = self.text.find("\n", start, end)
        if first >= 0:
            place = bisect_left(self.returns, first)
            return "\r\n" if self.returns[place : place + 1] == (first,) else "\n"
        return "\r\n" if len(self.returns) * 2 > self.text.count("\n") else "\n"

    def stored_place(self, place: int) -> int:
        """Return where a place of `text` is in what is stored."""
        return place + bisect_left(self.returns, place)

    def encode(self, stored: str) -> bytes:
        """Return the bytes of a whole new stored text."""
        errors = "surrogateescape" if self.encoding == "utf-8" else "strict"
        return self.mark + stored.encode(self.encoding, errors)
