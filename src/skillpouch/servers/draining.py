"""Stopping in order: nothing new is taken, what runs may finish, and a second word ends it."""

import asyncio

from skillpouch.servers.admission import Admission
from skillpouch.servers.stopping import Stop


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
