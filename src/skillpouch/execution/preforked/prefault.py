"""Records which memory a call touches, and prepares it in the children that wait.

After a fork each page is copied when it is first written, and mapped when it is first read. All
children of a prefork server touch nearly the same pages. One child notes them for its server. The
note is a hint: if it is wrong, children prepare memory that they do not need.
"""

from __future__ import annotations

import mmap
import sys
from posix import O_RDONLY, close, pread, read  # by name: a script may replace them in the module
from posix import open as open_file

from skillpouch.execution.preforked.c_functions import c_function

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Range = tuple[int, int, int]  # the first address, bytes, advice

_SHARED_BYTES = 128 * 1024  # enough for _MOST_RANGES lines of three numbers
_MOST_RANGES = 4_096
_MOST_COPIED, _MOST_MAPPED = 16 << 20, 128 << 20  # bytes; more than calls usually touch
_PAGE = mmap.PAGESIZE
# Bytes of one mapping; larger ones are skipped, as eight bytes are read for each page.
_LARGEST = 1 << 28
# Bits of a page's entry, proc_pid_pagemap(5): it is in memory, and (since Linux 4.2) mapped by no
# other process, so the child has written to it. Both can be read without privileges.
_PRESENT, _ALONE = 1 << 63, 1 << 56
# MADV_POPULATE_READ and _WRITE, madvise(2), since Linux 5.14; an older kernel answers EINVAL, and
# calls are merely slower.
_FOR_READING, _FOR_WRITING = 22, 23
_madvise = c_function("madvise")


class Pages:
    """The pages that calls touch; shared by a prefork server and the child that notes them."""

    def __init__(self) -> None:
        self._shared: mmap.mmap | None = None
        self._ranges: list[Range] = []
        self.wanted = False  # whether the next child notes the pages it touches

    @property
    def known(self) -> bool:
        return bool(self._ranges)

    def want(self) -> None:
        """In the prefork server: let the next child note its pages."""
        self._shared = mmap.mmap(-1, _SHARED_BYTES)
        self.wanted = True

    def watch(self) -> None:
        """In the child that notes, before its call: do not note if the script adds an audit hook.

        Noting opens files, which would be reported to that hook as if the script did it.
        """
        sys.addaudithook(self._hear)

    def _hear(self, event: str, _arguments: object) -> None:
        if event == "sys.addaudithook":
            self.wanted = False

    def make_ready(self) -> None:
        """In a waiting child: copy and map the pages that calls touch, before its call comes."""
        for each in self._ranges:
            _madvise(*each)  # type: ignore[misc]  # without it there are no ranges

    def note(self) -> None:
        """In a child, at its very end: write down the pages it touched."""
        if not self.wanted or not _madvise or self._shared is None:
            return
        try:
            text = b"".join(b"%d %d %d\n" % each for each in _touched())
        except BaseException:
            return  # no /proc, or no memory left: noting is optional
        if len(text) <= _SHARED_BYTES:
            self._shared[: len(text)] = text

    def learn(self) -> None:
        """In the prefork server: read what the last child noted."""
        if self._shared is None:
            return
        self.wanted = False
        lines = self._shared[:].rstrip(b"\0").split(b"\n")[:_MOST_RANGES]
        self._shared.close()
        self._shared = None
        try:
            ranges = [_range(*line.split()) for line in lines if line]
        except (TypeError, ValueError):
            return
        if _is_in_order(ranges) and _is_little(ranges):
            self._ranges = ranges


def _range(start: bytes, length: bytes, what: bytes) -> Range:
    """Parse a line of a note; refuse any advice to the kernel except these two."""
    found = (int(start), int(length), int(what))
    if found[0] < 0 or found[1] < 0 or found[2] not in (_FOR_READING, _FOR_WRITING):
        raise ValueError(found)
    return found


def _is_in_order(ranges: list[Range]) -> bool:
    """Tell whether the ranges are in order and do not overlap."""
    ends = [start + length for start, length, _ in ranges]
    return all(end <= start for end, (start, _, _) in zip(ends, ranges[1:]))


def _is_little(ranges: list[Range]) -> bool:
    copied = sum(length for _, length, what in ranges if what == _FOR_WRITING)
    return copied <= _MOST_COPIED and sum(length for _, length, _ in ranges) <= _MOST_MAPPED


def _touched() -> Iterator[Range]:
    entries = open_file("/proc/self/pagemap", O_RDONLY)
    try:
        for start, end, writable in _mappings():
            bits = _PRESENT | _ALONE if writable else _PRESENT
            what = _FOR_WRITING if writable else _FOR_READING
            data = pread(entries, (end - start) // _PAGE * 8, start // _PAGE * 8)
            begin = 0
            for number, entry in enumerate([*memoryview(data).cast("Q"), 0]):
                if entry & bits == bits:
                    continue
                if number > begin:
                    yield start + begin * _PAGE, (number - begin) * _PAGE, what
                begin = number + 1
    finally:
        close(entries)


def _mappings() -> Iterator[tuple[int, int, bool]]:
    """Yield the private mappings of this process: start, end, and whether it is writable.

    The list is read to its end first, because it changes with every new mapping.
    """
    file = open_file("/proc/self/maps", O_RDONLY)
    try:
        text = b""
        while piece := read(file, 1 << 16):
            text += piece
    finally:
        close(file)
    for line in text.splitlines():
        place, permissions, *_ = line.split(None, 5)
        start, _, end = place.partition(b"-")
        # Pages of the kernel, which cannot be populated.
        is_kernels = line.endswith((b"[vvar]", b"[vvar_vclock]", b"[vdso]", b"[vsyscall]"))
        size = int(end, 16) - int(start, 16)
        if permissions[:1] != b"r" or permissions[3:] != b"p" or is_kernels or size > _LARGEST:
            continue
        yield int(start, 16), int(end, 16), permissions[1:2] == b"w"
