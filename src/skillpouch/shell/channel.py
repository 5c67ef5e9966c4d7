"""The host's end of a worker's socket: frames in, frames out, on whichever loop is using it."""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from skillpouch.shell.worker.frames import FrameError, Frames, frame

_PIECE = 262_144


class Channel:
    """Frames over a socket that outlives the event loops it is used on, one after the other.

    `on_end` hears why there is nothing more to come: "" when the other end closed it.
    """

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._frames = Frames()
        self._unsent = bytearray()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def is_quiet(self) -> bool:
        return not self._unsent

    def attach(
        self, on_frame: Callable[[dict[str, Any]], None], on_end: Callable[[str], None]
    ) -> None:
        """Read on the running loop until `detach`."""
        self._on_frame, self._on_end = on_frame, on_end
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._line.fileno(), self._read)

    def detach(self) -> None:
        if self._loop is not None:
            self._loop.remove_reader(self._line.fileno())
            self._loop.remove_writer(self._line.fileno())
            self._loop = None

    def send(self, value: dict[str, Any]) -> None:
        """Send now what the socket takes, and the rest when it takes more."""
        waiting = bool(self._unsent)
        self._unsent += frame(value)
        if not waiting:
            self._write()

    def _write(self) -> None:
        try:
            sent = self._line.send(self._unsent)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._unsent.clear()  # the reader hears of it
            sent = 0
        del self._unsent[:sent]
        if self._loop is None:
            return
        if self._unsent:
            self._loop.add_writer(self._line.fileno(), self._write)
        else:
            self._loop.remove_writer(self._line.fileno())

    def _read(self) -> None:
        try:
            data = self._line.recv(_PIECE)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._end("")
            return
        try:
            for value in self._frames.feed(data):
                if self._loop is None:
                    return  # what came before it ended this conversation
                self._on_frame(value)
        except FrameError as error:
            self._end(str(error))

    def _end(self, reason: str) -> None:
        self.detach()
        self._on_end(reason)
