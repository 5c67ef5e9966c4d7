"""Worker processes and their sockets: one fresh spare, and used ones that stay with one tool."""

import asyncio
import importlib.util
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from skillpouch.execution.helper_process import HelperProcess
from skillpouch.runtime.extras import require_extra
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


_PROGRAM = Path(__file__).with_name("worker") / "main.py"
_GIB = 1024**3
# Three threads with stacks of 256 MiB, an arena of 128 MiB for each, and what Python and the engine
# map take nearly so much address space before a script has used any.
_RESERVED_BYTES = 3 * _GIB // 2
DEFAULT_MEMORY_BYTES = _GIB
_ENV = {
    "RUST_MIN_STACK": str(256 * 1024 * 1024),
    "TOKIO_WORKER_THREADS": "2",
}
_MOST_SCRIPTS = 200
_MOST_PEAK_BYTES = 512 * 1024 * 1024
_MOST_IDLE = 2


class Worker:
    """A process that runs scripts, and the channel to it."""

    def __init__(self, memory_bytes: int) -> None:
        words = (engine_folder(), str(_RESERVED_BYTES + memory_bytes))
        self.helper = HelperProcess(_PROGRAM, words, _ENV)
        self.channel = Channel(self.helper.line)
        self.protections: dict[str, str] = {}
        self.scripts = 0

    def is_fit(self, peak_bytes: int) -> bool:
        """Tell whether it may run another script."""
        young = self.scripts < _MOST_SCRIPTS and peak_bytes < _MOST_PEAK_BYTES
        return young and self.channel.is_quiet and self.helper.is_alive


class Workers:
    """The workers of one tool; those that nobody uses end by themselves after five minutes."""

    def __init__(self, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> None:
        self._memory_bytes = memory_bytes
        self._idle: list[Worker] = []
        self._lock = threading.Lock()

    def take(self) -> Worker:
        """Return a worker for the caller alone, and see to it that another is ready."""
        worker = self._take_idle()
        if worker is None and self._memory_bytes == DEFAULT_MEMORY_BYTES:
            worker = _spare.take()
        return worker or Worker(self._memory_bytes)

    def _take_idle(self) -> Worker | None:
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.helper.is_alive:
                    return worker
                worker.helper.end()
        return None

    def give_back(self, worker: Worker) -> bool:
        """Keep a worker for the next script; False when it is one too many."""
        with self._lock:
            if len(self._idle) >= _MOST_IDLE:
                return False
            self._idle.append(worker)
            return True

    def close(self) -> None:
        """End those that nobody uses."""
        with self._lock:
            idle, self._idle = self._idle, []
        for worker in idle:
            worker.helper.end()

    def __del__(self) -> None:
        self.close()


class _Spare:
    """One worker that has never run a script, started when the one before it was taken.

    Not so the first: a process that runs one script should not pay for two workers.
    """

    def __init__(self) -> None:
        self._worker: Worker | None = None
        self._is_first = True
        self._lock = threading.Lock()

    def take(self) -> Worker:
        with self._lock:
            worker, self._worker = self._worker, None
            if worker is not None and not worker.helper.is_alive:
                worker.helper.end()
                worker = None
            taken = worker or Worker(DEFAULT_MEMORY_BYTES)
            if not self._is_first:
                self._worker = Worker(DEFAULT_MEMORY_BYTES)
            self._is_first = False
            return taken

    def prepare(self) -> None:
        """Start it, unless it is there."""
        with self._lock:
            if self._worker is None or not self._worker.helper.is_alive:
                self._worker = Worker(DEFAULT_MEMORY_BYTES)


_spare = _Spare()


def prepare_spare() -> None:
    """Start the worker that the next script without one will take: it takes a tenth of a second."""
    _spare.prepare()


def engine_folder() -> str:
    """Return the folder that the engine is imported from; raise when it is not installed."""
    require_extra("bash")
    found = importlib.util.find_spec("bashkit")
    assert found is not None
    assert found.origin is not None
    return str(Path(found.origin).parent.parent)
