"""How a server starts, drains and stops: signals, running calls, the ready line."""

import asyncio
import signal
import threading
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from skillpouch.runtime.loop_thread import run_blocking
from skillpouch.servers.admission import Admission

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class Stop:
    """`asked` is set when the server should finish, `forced` when it should end at once."""

    def __init__(self) -> None:
        self.asked = asyncio.Event()
        self.forced = asyncio.Event()

    def ask(self) -> None:
        """Ask the server to stop; the second time, force it to."""
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


async def drained(stop: Stop, admission: Admission, seconds: float) -> bool:
    """Wait for the word, then for the calls; False when some still run.

    They do when time is over first, or when somebody asked for the end a second time.
    """
    await stop.asked.wait()
    drain = asyncio.create_task(admission.drain(seconds))
    forced = asyncio.create_task(stop.forced.wait())
    await asyncio.wait([drain, forced], return_when=asyncio.FIRST_COMPLETED)
    finished = drain.done() and drain.result()
    for task in (drain, forced):
        task.cancel()
    return finished


def serve_until_signalled(serve: Callable[[Stop], Awaitable[None]]) -> None:
    """Serve until it ends by itself, or SIGTERM or Ctrl-C comes. For the main thread."""
    asks: list[Callable[[], object]] = []
    early = threading.Event()  # asked before there was a loop to ask on

    async def run() -> None:
        stop, loop = Stop(), asyncio.get_running_loop()
        asks.append(lambda: loop.call_soon_threadsafe(stop.ask))
        if early.is_set():
            stop.ask()
        await serve(stop)

    def ask() -> None:
        early.set()
        for each in asks:
            each()

    with signals_to(ask):
        run_blocking(run())


Value = TypeVar("Value")


async def run_to_its_end(coroutine: Coroutine[Any, Any, Value]) -> Value:
    """Run something; when the waiter is cancelled, cancel it once and wait until it has ended.

    Cancel scopes cancel their tasks again at every step until they leave; a call whose processes
    are being killed would spin for as long as that takes.
    """
    import anyio

    task = asyncio.ensure_future(coroutine)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        task.cancel()
        with anyio.CancelScope(shield=True):
            await asyncio.wait([task])
        raise
