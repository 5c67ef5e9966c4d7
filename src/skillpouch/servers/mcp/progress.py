"""What a running tool prints, as progress: the newest line, not more often than anybody reads."""

import asyncio
import codecs
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Literal, Self

from skillpouch.text import clean

Report = Callable[[float, float | None, str | None], Awaitable[None]]

_PAUSE_SECONDS = 0.1
_LONGEST_LINE = 500


class Progress:
    """Sends how many bytes were printed so far and the last line, while inside.

    `heard` never waits: what comes faster than it is sent is told of by the next report.
    """

    def __init__(self, report: Report) -> None:
        self._report = report
        self._bytes = 0
        self._decoders = {
            stream: codecs.getincrementaldecoder("utf-8")("replace")
            for stream in ("stdout", "stderr")
        }
        self._line = ""
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def heard(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        """Take a piece of output."""
        self._bytes += len(data)
        lines = self._decoders[stream].decode(data)[-4 * _LONGEST_LINE :].split("\n")
        said = [line.strip() for line in lines if line.strip()]
        if said:
            self._line = clean(said[-1])[-_LONGEST_LINE:]
        self._news.set()

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._send())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _send(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            await self._report(float(self._bytes), None, self._line or None)
            await asyncio.sleep(_PAUSE_SECONDS)
