"""One builder at a time for one environment, among threads, event loops and processes."""

import asyncio
import fcntl
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from skillpouch.provision.packages.store import LOCK

_POLL_SECONDS = 0.1


@asynccontextmanager
async def hold(place: Path, on_wait: Callable[[], None]) -> AsyncIterator[None]:
    """Hold the lock of a place, which is made if need be; `on_wait` is called once when it is held.

    The kernel lets go of the lock of a process that is killed.
    """
    told = False
    while True:
        descriptor = _open(place)
        try:
            while not _try_lock(descriptor):
                if not told:
                    on_wait()
                told = True
                await asyncio.sleep(_POLL_SECONDS)
            # Whoever held it may have removed the whole place: then this lock guards nothing.
            if _is_at(descriptor, place):
                yield
                return
        finally:
            os.close(descriptor)


def try_hold(place: Path) -> int | None:
    """Lock a place that is there without waiting; return the descriptor, None when it is held."""
    descriptor = _open(place)
    if _try_lock(descriptor) and _is_at(descriptor, place):
        return descriptor
    os.close(descriptor)
    return None


def _open(place: Path) -> int:
    while True:
        place.mkdir(mode=0o700, exist_ok=True)
        try:
            return os.open(place / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            continue  # removed between the two


def _try_lock(descriptor: int) -> bool:
    # Of the open file and not of the process: threads exclude each other too.
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(descriptor: int, place: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), (place / LOCK).stat())
    except FileNotFoundError:
        return False
