"""The input and answer of a call, and a conversation with its program while it runs."""

import asyncio
import os
import socket
import tempfile

_LARGEST_ANSWER = 16 * 1024 * 1024


def new_answer() -> int:
    """Return the descriptor of an empty file that only its holders see."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("skillpouch-answer")
    fd, path = tempfile.mkstemp()
    os.unlink(path)  # noqa: PTH108 - a path of the standard library's own making
    return fd


def read_answer(fd: int) -> bytes:
    """Return what was written."""
    size = os.fstat(fd).st_size
    return os.pread(fd, min(size, _LARGEST_ANSWER), 0) if size else b""


class Streams:
    """Both ends, until the program has been given its own."""

    def __init__(self, *, feeds: bool, answers: bool, ordered: bool = False) -> None:
        self.feeds = feeds
        self._theirs: list[int] = []
        self.stdin = self.stdout = self.stderr = self._answer = -1
        self._orders: socket.socket | None = None  # to a program that waits for its call
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
            return  # who starts the program opens the null device, as the program sees it
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
        """The program's ends, in the order of its descriptors; of its input only if it has one.

        A descriptor of the null device would be opened through the host's mount, and its mode,
        the machine's, could be changed by it.
        """
        return tuple(self._theirs)

    def take_orders(self) -> socket.socket:
        """Return the line to a program that waits: from now on the caller closes it."""
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
        """Close what is left of our ends; who reads or writes one closes it and sets it to -1."""
        for fd in (self.stdin, self.stdout, self.stderr, self._answer):
            if fd >= 0:
                os.close(fd)
        self.stdin = self.stdout = self.stderr = self._answer = -1
        if self._orders is not None:
            self._orders.close()


_MOST_PENDING = 64 * 1024 * 1024


class Conversation:
    """What is said to a program, in order; its output is heard and not kept.

    Belongs to the loop that runs the program. What is said before it starts or after it has
    ended is kept or lost without complaint: that it ended is heard in another way.
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
        """Begin to write."""
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
