"""The body of a request, which is passed on up to its end: nothing can be sent behind it."""

import re

_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*(?:;[\t\x20-\x7e\x80-\xff]*)?\Z")
_LONGEST_LINE = 4_096
_MOST_TRAILERS = 64


class ChunkError(ValueError):
    """What should be a chunk is none."""


class CountedBody:
    """A body whose length was said."""

    def __init__(self, count: int) -> None:
        self._left = count

    @property
    def is_done(self) -> bool:
        return not self._left

    def feed(self, data: bytes) -> bytes:
        """Return what is to be sent on; what comes after the end is dropped."""
        passed = data[: self._left]
        self._left -= len(passed)
        return passed


class ChunkedBody:
    """A body that comes in chunks.

    Takes bytes as they come, gives the same chunks without extensions and trailers.
    """

    def __init__(self) -> None:
        self._line = b""
        self._left = 0  # of the chunk that is being passed on, with the line end behind it
        self._trailers = -1  # how many lines were seen behind the last chunk
        self.is_done = False

    def feed(self, data: bytes) -> bytes:
        """Return what is to be sent on; what comes after the end is dropped."""
        passed = bytearray()
        while data and not self.is_done:
            if self._left > 2:  # noqa: PLR2004 - the line end is looked at, not passed
                piece, data = data[: self._left - 2], data[self._left - 2 :]
                self._left -= len(piece)
                passed += piece
            else:
                data = self._take_line(data, passed)
        return bytes(passed)

    def _take_line(self, data: bytes, passed: bytearray) -> bytes:
        line, ending, data = (self._line + data).partition(b"\n")
        if not ending:
            if len(line) > _LONGEST_LINE:
                raise ChunkError("a line between chunks is too long")
            self._line = line
            return b""
        self._line = b""
        if not line.endswith(b"\r"):
            raise ChunkError("a line between chunks ends without a return")
        self._read_line(line[:-1], passed)
        return data

    def _read_line(self, line: bytes, passed: bytearray) -> None:
        if self._trailers >= 0:
            self._read_trailer(line, passed)
        elif self._left:
            if line:
                raise ChunkError("a chunk is longer than it said")
            self._left = 0
            passed += b"\r\n"
        else:
            self._read_size(line, passed)

    def _read_size(self, line: bytes, passed: bytearray) -> None:
        size = _SIZE.match(line)
        if size is None:
            raise ChunkError("the size of a chunk cannot be read")
        count = int(size[1], 16)
        passed += b"%x\r\n" % count
        if count:
            self._left = count + 2
        else:
            self._trailers = 0

    def _read_trailer(self, line: bytes, passed: bytearray) -> None:
        self._trailers += 1
        if self._trailers > _MOST_TRAILERS:
            raise ChunkError("there is too much behind the last chunk")
        if not line:
            passed += b"\r\n"
            self.is_done = True
