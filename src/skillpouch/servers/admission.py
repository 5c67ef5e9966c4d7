"""Limits how many calls run and wait, and lets a server that stops finish its calls."""

import asyncio

from skillpouch.servers.faults import ServerBusyError, ServerStoppingError


class Admission:
    """Counts calls. One more than `most_running` waits; one more than `most_waiting` is refused.

    Belongs to the event loop that it is first used on.
    """

    def __init__(self, *, most_running: int = 64, most_waiting: int = 1_024) -> None:
        self._most_waiting = most_waiting
        self._free = asyncio.Semaphore(most_running)
        self._idle = asyncio.Event()
        self._idle.set()
        self.running = 0
        self.waiting = 0
        self.is_stopping = False

    def admitted(self) -> "AdmissionSlot":
        """Wait for a place and hold it, in `async with`."""
        return AdmissionSlot(self)

    async def enter(self) -> None:
        """Wait for a place.

        Raises:
            ServerBusyError: too many wait already.
            ServerStoppingError: nothing new is taken.
        """
        if self.is_stopping:
            raise ServerStoppingError
        if self._free.locked() and self.waiting >= self._most_waiting:
            raise ServerBusyError(self.running, self.waiting)
        self.waiting += 1
        self._idle.clear()
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
            self._settle()
        self.running += 1
        self._idle.clear()

    def leave(self) -> None:
        """Give a place back."""
        self.running -= 1
        self._free.release()
        self._settle()

    def _settle(self) -> None:
        if not self.running and not self.waiting:
            self._idle.set()

    async def drain(self, seconds: float) -> bool:
        """Refuse new calls, and wait for those that run; False when time runs out first."""
        self.is_stopping = True
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True


class AdmissionSlot:
    """One place while it is held. Not a generator, which is slower: every call takes a place."""

    __slots__ = ("_admission",)

    def __init__(self, admission: Admission) -> None:
        self._admission = admission

    async def __aenter__(self) -> None:
        await self._admission.enter()

    async def __aexit__(self, *_: object) -> None:
        self._admission.leave()
