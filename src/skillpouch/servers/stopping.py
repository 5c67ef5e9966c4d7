"""Being told to stop: the first signal lets running calls finish, the second does not."""

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """`asked` is set when the server should finish, `forced` when it should end at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.forced = asyncio.Event()

    def ask(self) -> None:
        """Ask, or ask again, which is an order."""
        (self.forced if self.asked.is_set() else self.asked).set()


@contextmanager
def signals_to(ask: Callable[[], None]) -> Iterator[None]:
    """Call a function for SIGTERM and SIGINT, from the main thread, while inside."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        for number in _SIGNALS:
            signal.signal(number, lambda _number, _frame: ask())
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
