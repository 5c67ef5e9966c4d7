"""Waiting to the end, also when cancelled."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

Value = TypeVar("Value")


class Outlasting(asyncio.Future[Value]):
    """A result that cannot be given up: whoever does goes on waiting, for an end that comes sooner.

    With `on_cancel`, which sees to that. To shield an ordinary future takes another one and one
    more turn of the loop.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_cancel: Callable[[], object] | None = None
    ) -> None:
        super().__init__(loop=loop)
        self.on_cancel = on_cancel
        self.is_unwanted = False
        self._message: Any = None

    def cancel(self, msg: Any = None) -> bool:
        """Hear that a task that waits is cancelled, and have the end come; True while it has not.

        The task is told nothing, and must be once there is an end.
        """
        if self.on_cancel is None or self.done():
            return super().cancel(msg)
        self._message = msg if self._message is None else self._message
        self.is_unwanted = True
        self.on_cancel()
        return True

    def end_cancelled(self) -> None:
        """Raise CancelledError where it is waited for."""
        super().cancel(self._message)

    def cancellation(self) -> asyncio.CancelledError:
        """Return what to raise there, with the message of who cancelled first."""
        return asyncio.CancelledError(*(() if self._message is None else (self._message,)))
