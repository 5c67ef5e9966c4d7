"""A way to end a script from outside and still get what it printed."""

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Cancellation:
    """Pass it to `execute`; `cancel`, from any thread, ends the script with status `cancelled`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []
        self._cancelled = False

    def cancel(self) -> None:
        with self._lock:
            self._cancelled = True
            listeners = list(self._listeners)
        for listener in listeners:
            listener()

    @contextmanager
    def heard(self, end: Callable[[], None]) -> Iterator[None]:
        """Call `end` on the running loop when it is cancelled, or at once when it already is."""
        loop = asyncio.get_running_loop()

        def listen() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(end)

        with self._lock:
            self._listeners.append(listen)
            cancelled = self._cancelled
        if cancelled:
            listen()
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(listen)
