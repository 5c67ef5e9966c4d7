"""The calls that run now: by name, so that anybody can end one, and ended with who asked."""

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from skillpouch.servers.grpc.errors import CallCancelledError, CallIdInUseError

Value = TypeVar("Value")


class RunningCalls:
    """Runs calls. Belongs to the event loop of its server."""

    def __init__(self) -> None:
        self._named: dict[tuple[str, str], asyncio.Task[Any]] = {}
        self._all: set[asyncio.Task[Any]] = set()

    async def run(self, session: str, call_id: str, coroutine: Coroutine[Any, Any, Value]) -> Value:
        """Run a call to its end. A client that goes away ends it; nothing of it is left then.

        Raises:
            CallIdInUseError: one of that name runs in the session.
            CallCancelledError: `cancel` was asked for it.
        """
        if (session, call_id) in self._named:
            coroutine.close()
            raise CallIdInUseError(call_id)
        task = asyncio.ensure_future(coroutine)
        self._all.add(task)
        if call_id:
            self._named[session, call_id] = task
        try:
            return await _ended(task)
        finally:
            self._all.discard(task)
            if call_id:
                del self._named[session, call_id]

    async def cancel(self, session: str, call_id: str) -> bool:
        """End a call, and return when it has ended; False when there is none of that name."""
        task = self._named.get((session, call_id))
        if task is None:
            return False
        task.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    async def cancel_all(self) -> None:
        """End every call, and return when they have ended."""
        for task in self._all:
            task.cancel()
        if self._all:
            await asyncio.wait(self._all)


async def _ended(task: "asyncio.Task[Value]") -> Value:
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is None or not current.cancelling():
            raise CallCancelledError from None
        task.cancel()
        while not task.done():
            # Whoever cancels again would leave a call behind whose processes are being ended.
            with suppress(asyncio.CancelledError):
                await asyncio.wait([task])
        raise
