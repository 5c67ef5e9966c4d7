"""The streams of one call: input, answer, progress, and output captured in bounded memory."""

import asyncio
import contextlib
import logging
import math
import os
import socket
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from skillpouch.json_values import json_value
from skillpouch.results import Captured, Progress
from skillpouch.text import clean

_log = logging.getLogger(__name__)

_LARGEST_ANSWER = 16 * 1024 * 1024


def new_answer() -> int:
    """Return the descriptor of an empty file without a name."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("skillpouch-answer")
    fd, path = tempfile.mkstemp()
    os.unlink(path)  # noqa: PTH108 - a path of mkstemp
    return fd


def read_answer(fd: int) -> bytes:
    """Return the content of an answer file."""
    size = os.fstat(fd).st_size
    return os.pread(fd, min(size, _LARGEST_ANSWER), 0) if size else b""


class Streams:
    """The pipes of one program: both ends, until the program has received its own."""

    def __init__(self, *, feeds: bool, answers: bool, ordered: bool = False) -> None:
        self.feeds = feeds
        self._theirs: list[int] = []
        self.stdin = self.stdout = self.stderr = self._answer = -1
        self._orders: socket.socket | None = None  # the socket to a program that waits for its call
        try:
            self._open_stdin(feeds=feeds)
            self.stdout = self._open_output()
            self.stderr = self._open_output()
            if answers or ordered:
                self._answer = new_answer()
                self._theirs.append(os.dup(self._answer))
            if ordered:
                self._open_orders()
        except OSError:
            self.close_theirs()
            self.close()
            raise

    def _open_stdin(self, *, feeds: bool) -> None:
        if not feeds:
            return  # the sandbox opens /dev/null inside its own mounts
        read_end, self.stdin = os.pipe()
        self._theirs.append(read_end)
        os.set_blocking(self.stdin, False)

    def _open_output(self) -> int:
        read_end, write_end = os.pipe()
        self._theirs.append(write_end)
        os.set_blocking(read_end, False)
        return read_end

    def _open_orders(self) -> None:
        self._orders, theirs = socket.socketpair()
        self._orders.setblocking(False)
        self._theirs.append(theirs.detach())

    @property
    def theirs(self) -> tuple[int, ...]:
        """The program's ends, in the order of its descriptors; without stdin if none is fed.

        A /dev/null that the host opened would belong to the host's mount: through it, a program
        could change the mode of the machine's device.
        """
        return tuple(self._theirs)

    def take_orders(self) -> socket.socket:
        """Return the socket to a waiting program; from now on the caller must close it."""
        taken, self._orders = self._orders, None
        assert taken is not None
        return taken

    def close_theirs(self) -> None:
        for fd in self._theirs:
            os.close(fd)
        self._theirs.clear()

    def read_answer(self) -> bytes:
        return read_answer(self._answer) if self._answer >= 0 else b""

    def close(self) -> None:
        """Close our remaining ends; a reader or writer closes its end itself and sets it to -1."""
        for fd in (self.stdin, self.stdout, self.stderr, self._answer):
            if fd >= 0:
                os.close(fd)
        self.stdin = self.stdout = self.stderr = self._answer = -1
        if self._orders is not None:
            self._orders.close()


_MOST_PENDING = 64 * 1024 * 1024


class Conversation:
    """Writes to the standard input of a running program; its output is passed on and not kept.

    Belongs to the loop that runs the program. Data is kept until the program starts, and dropped
    after it has ended; no error is raised, because the end is reported in another way.
    """

    def __init__(self) -> None:
        self._pending = bytearray()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._fd = -1

    def say(self, data: bytes) -> None:
        """Write to the program's standard input as soon as it reads."""
        if len(self._pending) + len(data) > _MOST_PENDING:
            raise BufferError("the program does not read its standard input")
        self._pending += data
        if self._loop is not None and self._fd >= 0:
            self._feed()

    def attach(self, loop: asyncio.AbstractEventLoop, fd: int) -> None:
        """Start writing to this descriptor."""
        self._loop, self._fd = loop, fd
        self._feed()

    def detach(self) -> None:
        """Write no more: the descriptor is about to be closed."""
        if self._loop is not None and self._fd >= 0:
            self._loop.remove_writer(self._fd)
        self._fd = -1

    def _feed(self) -> None:
        loop = self._loop
        assert loop is not None
        try:
            while self._pending:
                del self._pending[: os.write(self._fd, self._pending)]
        except BlockingIOError:
            loop.add_writer(self._fd, self._feed)
            return
        except BrokenPipeError:
            self._pending.clear()
        loop.remove_writer(self._fd)


# PIPE_BUF of Linux: lines up to this length arrive unmixed, whoever writes them, pipe(7).
_LONGEST_LINE = 4096
_LONGEST_MESSAGE = 500
Redact = Callable[[Any], Any]  # returns a JSON value without secrets


class ProgressLines:
    """Reads lines of JSON such as `{"done": 3, "total": 10, "message": "pages"}`.

    Untrusted: what is no such line is counted in `ignored`. A line that has no `done` or no `total`
    leaves it as it was.
    """

    def __init__(self, redact: Redact) -> None:
        self._redact = redact
        self._last = Progress(0.0)
        self._line = bytearray()
        self._is_too_long = False
        self.ignored = 0

    def feed(self, data: bytes) -> Progress | None:
        """Take a piece; return the last report that it completes, None if there is none."""
        found = None
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._add(line)
            read = None if self._is_too_long else self._read(bytes(self._line))
            if read is None:
                self.ignored += bool(self._line.strip())
            else:
                found = self._last = read
            self._line.clear()
            self._is_too_long = False
        self._add(rest)
        return found

    def _add(self, part: bytes) -> None:
        room = _LONGEST_LINE - len(self._line)
        self._is_too_long = self._is_too_long or len(part) > room
        self._line += part[: max(0, room)]

    def _read(self, line: bytes) -> Progress | None:
        value = json_value(line.decode("utf-8", "replace"))
        if not isinstance(value, dict) or not {"done", "total", "message"} & value.keys():
            return None
        value = self._redact(value)
        done = _number(value.get("done", self._last.done))
        total = value.get("total", self._last.total)
        number = None if total is None else _number(total)
        message = value.get("message", "")
        if done is None or (number is None) != (total is None) or not isinstance(message, str):
            return None
        # Cut first: the rest of a long message need not be looked at.
        shown = " ".join(clean(message[: 2 * _LONGEST_MESSAGE]).split())
        return Progress(done, number, shown[:_LONGEST_MESSAGE])


def _number(value: Any) -> float | None:
    """Return a finite number that is not negative, None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if 0 <= number < math.inf else None


# At most this much is read, and one report passed on, in each pause: a program that writes more
# waits, as for any pipe that is full.
_MOST_REPORTS = 8192
_PAUSE_SECONDS = 0.05
_MOST_AT_END = 256  # pieces; a pipe holds fewer (pipe-max-size, pipe(7))


class ProgressPipe:
    """A named pipe in `folder` by which a program reports its progress, while inside.

    `path` is what the program opens, "" if no pipe can be made there. Any process of a call can
    open it, in any sandbox that shows the folder, and none has to inherit anything.
    """

    def __init__(self, folder: Path, redact: Redact, tell: Callable[[Progress], None]) -> None:
        self.path = f"{folder}/{os.urandom(16).hex()}"
        self._lines = ProgressLines(redact)
        self._tell: Callable[[Progress], None] | None = tell
        self._loop = asyncio.get_running_loop()
        self._pause: asyncio.TimerHandle | None = None
        self._fd = -1

    def __enter__(self) -> Self:
        try:
            os.mkfifo(self.path, 0o600)
            # Also for writing, fifo(7): otherwise it would end whenever a program closes it.
            self._fd = os.open(self.path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:  # such as a file system without pipes: then nothing is reported
            self._remove()
            self.path = ""
        else:
            self._loop.add_reader(self._fd, self._hear)
        return self

    def __exit__(self, *_: object) -> None:
        if self._fd < 0:
            return
        self._loop.remove_reader(self._fd)
        if self._pause is not None:
            self._pause.cancel()
        last = None
        for _piece in range(_MOST_AT_END):
            data = self._read()
            if not data:
                break
            last = self._lines.feed(data) or last
        self._pass_on(self._lines.feed(b"\n") or last)  # the last line may lack its end
        os.close(self._fd)
        self._remove()
        if self._lines.ignored:
            _log.info("%d lines that a call reported are no progress", self._lines.ignored)

    def _hear(self) -> None:
        self._loop.remove_reader(self._fd)
        self._pause = self._loop.call_later(_PAUSE_SECONDS, self._go_on)
        self._pass_on(self._lines.feed(self._read()))

    def _go_on(self) -> None:
        self._pause = None
        self._loop.add_reader(self._fd, self._hear)

    def _read(self) -> bytes:
        try:
            return os.read(self._fd, _MOST_REPORTS)
        except BlockingIOError:
            return b""

    def _pass_on(self, progress: Progress | None) -> None:
        if progress is None or self._tell is None:
            return
        try:
            self._tell(progress)
        except Exception:  # noqa: BLE001 - the caller's own code, on which no call depends
            self._tell = None
            _log.exception("progress is not reported any more")

    def _remove(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self.path)  # noqa: PTH108 - for each call that is watched


FOLDERS = (".skillpouch", "output")


class SavedOutput:
    """A new file below `<workspace>/.skillpouch/output/`."""

    def __init__(self, path: Path, fd: int) -> None:
        self._path = path
        self._fd = fd

    def write(self, data: bytes) -> None:
        """Write as far as the disk allows: a full disk must not fail the call."""
        view = memoryview(data)
        with contextlib.suppress(OSError):
            while view:
                view = view[os.write(self._fd, view) :]

    def close(self) -> Path | None:
        """Return the path of the output, unless the tool has replaced the file."""
        made = os.fstat(self._fd)
        os.close(self._fd)
        try:
            there = os.lstat(self._path)
        except OSError:
            return None
        is_same = (there.st_dev, there.st_ino) == (made.st_dev, made.st_ino)
        return self._path if is_same else None


def save_output(workspace: Path, name: str) -> SavedOutput | None:
    """Open a new file, or return None if it cannot be made in the workspace."""
    opened = open_new_file(workspace, name)
    return SavedOutput(*opened) if opened else None


def kept_output(workspace: Path, name: str, data: bytes, keep_bytes: int) -> Captured:
    """Return a complete output in the form of captured output: cut, and saved in a file."""
    kept = Captured.of(data, keep_bytes)
    file = save_output(workspace, name) if kept.truncated else None
    if file is None:
        return kept
    file.write(data)
    return replace(kept, saved_to=file.close())


def open_new_file(workspace: Path, name: str) -> tuple[Path, int] | None:
    """Make a new file below `<workspace>/.skillpouch/output/` and return it opened.

    The host writes here unconfined and the tool may write the workspace, so no symbolic link
    is followed below it and no existing file is opened.
    """
    file_name = f"{os.urandom(8).hex()}.{name}"
    folders = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    new_file = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    opened: list[int] = []
    try:
        opened.append(os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
        for folder in FOLDERS:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, dir_fd=opened[-1])
            opened.append(os.open(folder, folders, dir_fd=opened[-1]))
        fd = os.open(file_name, new_file, 0o600, dir_fd=opened[-1])
    except OSError:
        return None
    finally:
        for folder_fd in opened:
            os.close(folder_fd)
    return workspace.joinpath(*FOLDERS, file_name), fd


_LONGEST_CHARACTER = 4


class Capture:
    """Takes a stream in pieces of any size and never holds more than about `keep_bytes`."""

    def __init__(self, keep_bytes: int, open_file: Callable[[], SavedOutput | None]) -> None:
        self._keep_bytes = keep_bytes
        self._open_file = open_file
        self._file: SavedOutput | None = None
        self._kept = bytearray()  # everything, up to the limit; after that, the head
        self._tail = bytearray()
        self._split = False
        self.total_bytes = 0

    def add(self, piece: bytes) -> None:
        self.total_bytes += len(piece)
        if not self._split:
            if self.total_bytes <= self._keep_bytes:
                self._kept += piece
                return
            piece = self._divide(piece)
        elif self._file is not None:
            self._file.write(piece)
        self._tail += piece
        # Trimmed only when it is much too long, so that bytes are not moved for every piece.
        room = self._keep_bytes - len(self._kept)
        if len(self._tail) > 2 * room + self._keep_bytes:
            del self._tail[: len(self._tail) - room]

    def _divide(self, piece: bytes) -> bytes:
        """Split off the head and start the file; return the start of the tail."""
        self._split = True
        self._file = self._open_file()
        whole = bytes(self._kept) + piece
        if self._file is not None:
            self._file.write(whole)
        head = (self._keep_bytes + 1) // 2
        self._kept = bytearray(whole[:head])
        return whole[head:]

    def finish(self) -> Captured:
        if not self._split:
            return Captured(head=bytes(self._kept), total_bytes=self.total_bytes)
        room = self._keep_bytes - len(self._kept)
        tail = bytes(self._tail[len(self._tail) - room :]) if room else b""
        saved_to = self._file.close() if self._file is not None else None
        return Captured(
            head=_without_broken_end(bytes(self._kept)),
            tail=_without_broken_start(tail),
            total_bytes=self.total_bytes,
            saved_to=saved_to,
        )


def _without_broken_end(data: bytes) -> bytes:
    """Drop a UTF-8 character whose last bytes are missing."""
    for back in range(1, min(_LONGEST_CHARACTER, len(data)) + 1):
        byte = data[-back]
        if byte & 0xC0 == 0x80:  # noqa: PLR2004 - a continuation byte
            continue
        return data[:-back] if _length(byte) > back else data
    return data


def _without_broken_start(data: bytes) -> bytes:
    """Drop the last bytes of a UTF-8 character whose first are missing."""
    for place, byte in enumerate(data[:_LONGEST_CHARACTER]):
        if byte & 0xC0 != 0x80:  # noqa: PLR2004
            return data[place:]
    # Only continuation bytes: the rest of one character or, if there are four, not UTF-8.
    return data if len(data) >= _LONGEST_CHARACTER else b""


def _length(first: int) -> int:
    for length, mask, bits in ((2, 0xE0, 0xC0), (3, 0xF0, 0xE0), (4, 0xF8, 0xF0)):
        if first & mask == bits:
            return length
    return 1
