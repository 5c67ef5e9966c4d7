"""Threads for functions that block: kept and used again, as many as are needed.

In a pool of a fixed size, functions that call functions could all wait for each other. To start a
thread for each takes longer than most functions do.
"""

import os
import queue
import threading
from collections import deque
from collections.abc import Callable

_IDLE_SECONDS = 10.0


class IdleThreads:
    """Runs work in a thread that is idle, or in a new one. None of them keeps the host alive."""

    def __init__(self) -> None:
        self._idle: deque[queue.SimpleQueue[Callable[[], None]]] = deque()

    def run(self, work: Callable[[], None]) -> None:
        """Begin work at once; it must not raise."""
        try:
            orders = self._idle.pop()
        except IndexError:
            orders = queue.SimpleQueue()
            threading.Thread(
                target=self._serve, args=(orders,), name="skillpouch-function", daemon=True
            ).start()
        orders.put(work)

    def _serve(self, orders: "queue.SimpleQueue[Callable[[], None]]") -> None:
        while True:
            try:
                orders.get(timeout=_IDLE_SECONDS)()
            except queue.Empty:
                try:
                    self._idle.remove(orders)
                except ValueError:
                    continue  # somebody has just taken it: work is on its way
                return
            self._idle.append(orders)

    def forget(self) -> None:
        """Know of none: in a forked child they are the parent's."""
        self._idle.clear()


_threads = IdleThreads()
os.register_at_fork(after_in_child=_threads.forget)


def run_in_idle_thread(work: Callable[[], None]) -> None:
    """Begin work in a thread of its own for as long as it takes."""
    _threads.run(work)
