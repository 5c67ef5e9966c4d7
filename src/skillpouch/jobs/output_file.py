"""The output of a job in a file of bounded size: its head, and a ring with its tail."""

import logging
import os
import struct
from pathlib import Path

from skillpouch.jobs.job import OUTPUT_BYTES, JobOutput

_log = logging.getLogger(__name__)
_HEADER = struct.Struct("<8sQ")  # identifies the file; how many bytes were ever written
_MAGIC = b"skpouch1"
HEAD_BYTES = TAIL_BYTES = 4 * 1024 * 1024


class OutputWriter:
    """Writes what a call prints; the file is made with the first byte. Used by one thread.

    Readers see the count only after the bytes that it counts: a killed process leaves a file that
    can be read.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None
        self.total = 0
        self._is_broken = False

    def write(self, data: bytes) -> None:
        """Append bytes; on a full disk what follows is not kept, and the call goes on."""
        if self._is_broken or not data:
            return
        try:
            self._append(data)
        except OSError as error:
            self._is_broken = True
            _log.warning("the output of a job is no longer kept: %s", error)

    def _append(self, data: bytes) -> None:
        descriptor = self._descriptor
        if descriptor is None:
            descriptor = self._descriptor = self._open()
        position, left = self.total, memoryview(data)
        while left:
            count = min(len(left), _room(position))
            written = os.pwrite(descriptor, left[:count], _place(position))
            position, left = position + written, left[written:]
        self.total = position
        os.pwrite(descriptor, _HEADER.pack(_MAGIC, position), 0)

    def _open(self) -> int:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(self._path, flags, 0o600)
        self.total = _total(descriptor)  # an earlier attempt of the same job may have written
        return descriptor

    def close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class HeldOutput:
    """What a call prints: in memory until it becomes a job, from then on in the file of the job.

    As much is held as the file would keep.
    """

    def __init__(self) -> None:
        self._head, self._tail = bytearray(), bytearray()
        self.total = 0  # how many bytes were held
        self._writer: OutputWriter | None = None

    def write(self, data: bytes) -> None:
        """Append bytes."""
        if self._writer is not None:
            self._writer.write(data)
            return
        self.total += len(data)
        room = HEAD_BYTES - len(self._head)
        self._head += data[:room]
        self._tail += data[room:]
        del self._tail[:-TAIL_BYTES]

    def keep_in(self, path: Path) -> None:
        """Write what is held, and all that follows, to a file."""
        self._writer = OutputWriter(path)
        self._writer.write(bytes(self._head))
        if self._tail:
            self._writer.total = self.total - len(self._tail)
            self._writer.write(bytes(self._tail))
        self._head, self._tail = bytearray(), bytearray()

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()


def read_output(path: Path, offset: int, most_bytes: int = OUTPUT_BYTES) -> JobOutput:
    """Return the output from an offset, also while it is written; none without a file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return JobOutput(data=b"", offset=offset, next_offset=offset)
    try:
        return _read(descriptor, max(0, offset), max(0, most_bytes))
    finally:
        os.close(descriptor)


def output_size(path: Path) -> int:
    """Return how many bytes of the disk the output takes."""
    try:
        return path.lstat().st_size
    except OSError:
        return 0


def _read(descriptor: int, offset: int, most: int) -> JobOutput:
    total = _total(descriptor)
    start = min(max(offset, _kept_from(offset, total)), total)
    end = min(start + most, total)
    if start < HEAD_BYTES < end:
        end = HEAD_BYTES  # what follows it may be elsewhere
    data = _bytes(descriptor, start, end)
    # Bytes that were overwritten while they were read are left out, too.
    kept = _kept_from(start, _total(descriptor))
    if kept > start:
        data, start = data[kept - start :], min(kept, end)
    left_out = max(0, start - offset)
    return JobOutput(data=data, offset=start, next_offset=start + len(data), left_out=left_out)


def _kept_from(offset: int, total: int) -> int:
    """Return the first byte from an offset on that is still there."""
    return offset if offset < HEAD_BYTES else max(HEAD_BYTES, total - TAIL_BYTES)


def _bytes(descriptor: int, start: int, end: int) -> bytes:
    parts = []
    while start < end:
        part = os.pread(descriptor, min(end - start, _room(start)), _place(start))
        if not part:
            break
        parts.append(part)
        start += len(part)
    return b"".join(parts)


def _place(position: int) -> int:
    """Return where in the file a byte of the output lies."""
    if position < HEAD_BYTES:
        return _HEADER.size + position
    return _HEADER.size + HEAD_BYTES + (position - HEAD_BYTES) % TAIL_BYTES


def _room(position: int) -> int:
    """Return how many bytes lie together from a position on."""
    if position < HEAD_BYTES:
        return HEAD_BYTES - position
    return TAIL_BYTES - (position - HEAD_BYTES) % TAIL_BYTES


def _total(descriptor: int) -> int:
    head = os.pread(descriptor, _HEADER.size, 0)
    if len(head) < _HEADER.size:
        return 0
    magic, total = _HEADER.unpack(head)
    return int(total) if magic == _MAGIC else 0
