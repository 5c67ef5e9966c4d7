"""Bytes as they come over the wire become text: unpacked in small steps, in UTF-8."""

import codecs
import re
import zlib
from collections.abc import Iterator
from typing import Protocol

from skillpouch.net.http.errors import ExchangeError

# A few bytes may stand for a thousand times as many: this is how many there are at once.
_PIECE_BYTES = 64 * 1024
_EITHER = 32 + zlib.MAX_WBITS  # gzip or zlib, told by the first bytes
_CHARSET = re.compile(r"charset\s*=\s*\"?([A-Za-z0-9_.:-]+)", re.IGNORECASE)
# Only what is text: codecs also name compressors, and encodings that take quadratic time.
_TEXT = (
    "iso8859",
    "cp",
    "utf-16",
    "utf-32",
    "shift",
    "euc",
    "gb",
    "big5",
    "koi8",
    "mac",
    "iso2022",
)


class Unpacker(Protocol):
    """Takes packed bytes and gives pieces of bounded size."""

    def feed(self, data: bytes) -> Iterator[bytes]: ...

    def close(self) -> None:
        """Raise ExchangeError when something is missing at the end."""


class _Plain:
    def feed(self, data: bytes) -> Iterator[bytes]:
        yield data

    def close(self) -> None:
        return


class _Inflating:
    """gzip, also of several members, and deflate with or without its header."""

    def __init__(self, *, may_be_raw: bool) -> None:
        self._inflate = zlib.decompressobj(_EITHER)
        self._may_be_raw = may_be_raw
        self._is_new = True

    def feed(self, data: bytes) -> Iterator[bytes]:
        while data:
            piece = self._step(data)
            self._is_new = False
            if piece:
                yield piece
            data = self._inflate.unconsumed_tail
            if self._inflate.eof:
                data = self._inflate.unused_data.lstrip(b"\0")  # some pad to a block
                if data:
                    self._inflate, self._is_new = zlib.decompressobj(_EITHER), True

    def _step(self, data: bytes) -> bytes:
        try:
            return self._inflate.decompress(data, _PIECE_BYTES)
        except zlib.error as error:
            if not (self._may_be_raw and self._is_new):
                raise ExchangeError("encoding", f"it cannot be unpacked: {error}") from None
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        self._may_be_raw = False
        return self._step(data)

    def close(self) -> None:
        if not self._inflate.eof and not self._is_new:
            raise ExchangeError("encoding", "it was cut off: the packed text has no end")


def unpacker_for(encoding: str) -> Unpacker:
    """Return what unpacks an encoding; raise ExchangeError for one that nobody asked for."""
    match encoding.strip().lower():
        case "" | "identity":
            return _Plain()
        case "gzip" | "x-gzip":
            return _Inflating(may_be_raw=False)
        case "deflate":
            return _Inflating(may_be_raw=True)
        case _:
            raise ExchangeError("encoding", f"it is packed as {encoding!r:.60}, not as asked for")


class Recoder:
    """Makes UTF-8 of text in another encoding, in whatever pieces it comes."""

    def __init__(self, content_type: str) -> None:
        self._decoder = _decoder(content_type)

    def feed(self, data: bytes, *, final: bool = False) -> bytes:
        if self._decoder is None:
            return data
        return self._decoder.decode(data, final).encode("utf-8", "replace")


def _decoder(content_type: str) -> codecs.IncrementalDecoder | None:
    match = _CHARSET.search(content_type)
    try:
        name = codecs.lookup(match[1]).name if match else "utf-8"
    except LookupError:
        return None
    return codecs.getincrementaldecoder(name)("replace") if name.startswith(_TEXT) else None
