"""What happens while a script runs, for those who watch."""

import asyncio
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from skillpouch.shell.responses import ScriptCall, Status

EventKind = Literal["started", "call_started", "call_ended", "output", "ended"]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScriptEvent:
    """One thing that happened; which fields are filled depends on `kind`.

    `call` belongs to `call_started` and `call_ended`, `stdout` and `stderr` to `output`, and
    `status` to `ended`.
    """

    kind: EventKind
    call: ScriptCall | None = None
    stdout: str = ""
    stderr: str = ""
    status: Status | None = None


OnStatus = Callable[[ScriptEvent], None]


class Watchers:
    """Tells those who watch, on their loop, in the order in which things happened.

    What one of them raises is logged: it is not the script's fault.
    """

    def __init__(self, *watchers: OnStatus | None) -> None:
        self._watchers = [watcher for watcher in watchers if watcher is not None]
        self._loop = asyncio.get_running_loop() if self._watchers else None
        self._thread = threading.get_ident()

    def __bool__(self) -> bool:
        return bool(self._watchers)

    def tell(self, event: ScriptEvent) -> None:
        if self._loop is None:
            return
        if threading.get_ident() == self._thread:
            self._tell(event)
        else:
            self._loop.call_soon_threadsafe(self._tell, event)

    def _tell(self, event: ScriptEvent) -> None:
        for watcher in self._watchers:
            try:
                watcher(event)
            except Exception:  # noqa: BLE001 - whatever a stranger raises
                _log.exception("a watcher of a script failed")
