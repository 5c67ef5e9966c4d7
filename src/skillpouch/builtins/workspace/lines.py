"""Lines of a file of any size, read so that none of them is ever held whole."""

from typing import Protocol

LONGEST = 2000  # characters of a line that are shown
LONGEST_DATA = 8 * 1024 * 1024  # bytes of lines that a pipe is given
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
    """Go past some lines; return how many there were to go past."""
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
