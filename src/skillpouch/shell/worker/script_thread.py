"""A thread for scripts that do one thing after the other, while the first one watches the host."""

from __future__ import annotations

import os
import select
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

# Only Linux tells when one half of a socket is closed; that both are is always told.
_HOST_IS_GONE = getattr(select, "POLLRDHUP", 0)
_STACK_BYTES = 256 * 1024 * 1024  # as the engine's own threads have it: scripts nest deeply


class ScriptThread:
    """Runs work on one thread; whoever has it run waits, and ends the process with its host.

    The end of the host's socket is seen without reading it: what is there to be read are answers,
    and they are for the script.
    """

    def __init__(self, line: int) -> None:
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._done, self._tell = os.pipe()
        self._events = select.poll()
        self._events.register(line, _HOST_IS_GONE)
        self._events.register(self._done, select.POLLIN)
        before = threading.stack_size(_STACK_BYTES)
        threading.Thread(target=self._serve, daemon=True).start()
        threading.stack_size(before)

    def run(self, work: Callable[[], None]) -> None:
        """Return when the work is done."""
        self._work.put(work)
        ready = [number for number, _ in self._events.poll()]
        if self._done not in ready:
            os._exit(0)  # the host is gone: nobody wants it done
        os.read(self._done, 1)

    def _serve(self) -> None:
        while True:
            work = self._work.get()
            try:
                work()
            except BaseException:  # noqa: BLE001 - whatever it is
                os._exit(1)  # the host sees that this worker is gone, and takes the next
            os.write(self._tell, b".")
