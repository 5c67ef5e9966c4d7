"""Threads for functions that block: kept and used again, as many as are needed.

In a pool of a fixed size, functions that call functions could all wait for each other. Starting a
thread takes longer than most functions.
"""

import os
import queue
import threading
from collections import deque
from collections.abc import Callable

_IDLE_SECONDS = 10.0


class IdleThreads:
    """Runs work in an idle thread or a new one. They are daemons: none keeps the host alive."""

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
                    continue  # `run` has just taken this queue: work is about to arrive
                return
            self._idle.append(orders)

    def forget(self) -> None:
        """Forget all threads: after a fork they exist in the parent only."""
        self._idle.clear()


_threads = IdleThreads()
os.register_at_fork(after_in_child=_threads.forget)


def run_in_idle_thread(work: Callable[[], None]) -> None:
    """Begin work in a thread that nothing else uses until it is done."""
    _threads.run(work)
