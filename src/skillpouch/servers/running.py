"""Running a server on Skillpouch's own loop, where calls are started without changing threads."""

import asyncio
import threading
from collections.abc import Awaitable, Callable

from skillpouch.runtime.loop_thread import run_blocking
from skillpouch.servers.stopping import Stop, signals_to


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
