"""Talking with a program while it runs, instead of giving it everything at once."""

import asyncio
import os

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
            raise BufferError("the program does not read what it is told")
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
