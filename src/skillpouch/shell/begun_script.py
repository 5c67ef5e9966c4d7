"""A script that a blocked thread waits for, without a loop: nothing in it waits."""

import asyncio
from collections.abc import Callable

from skillpouch.shell.worker.order import Done, OnCommand, OnText, Order
from skillpouch.shell.worker.script import Immediate, Shell


class BegunScript:
    """A script on a thread of its own, for a thread that waits for it and does nothing else.

    All that touches the engine happens there: it may not be asked for anything by a thread on
    which it is running already, and who waits for this script may well be a command of another.
    """

    def __init__(
        self, order: Order, on_command: OnCommand, on_text: OnText, immediate: Immediate
    ) -> None:
        self._making = (order, on_command, immediate)
        self._on_text = on_text
        self._shell: Shell | None = None
        self._cancelled = False
        self._ended: Done | BaseException | None = None

    def begin(self, loop: asyncio.AbstractEventLoop, tell: Callable[[], None]) -> None:
        """Begin; `tell` is called when it is over. A command that was hidden waits on the loop."""

        def run() -> None:
            try:
                self._ended = self._run(loop)
            except BaseException as error:  # noqa: BLE001 - raised where the end is waited for
                self._ended = error
            tell()
            if self._shell is not None:
                self._shell.leave()  # while somebody reads what it gave

        self._making[2].in_thread(run)

    def _run(self, loop: asyncio.AbstractEventLoop) -> Done:
        self._shell = shell = Shell(*self._making, loop)
        if self._cancelled:
            shell.cancel()
        return shell.run_alone(self._on_text)

    def cancel(self) -> None:
        """End it, and begin no command of it any more."""
        self._cancelled = True
        if self._shell is not None:
            self._shell.cancel()

    def end(self) -> Done:
        """Return how it ended, when it is over."""
        if isinstance(self._ended, BaseException):
            raise self._ended
        assert self._ended is not None
        return self._ended
