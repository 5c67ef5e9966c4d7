"""One file, fetched whole: redirects, limits, and going on where a connection broke."""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urljoin

from skillpouch.provision.programs.answers import Answer, InterruptedDownloadError, Opener
from skillpouch.provision.programs.errors import DownloadError
from skillpouch.provision.programs.partial import Partial
from skillpouch.provision.programs.progress import Progress
from skillpouch.provision.programs.wanted import Wanted

_REDIRECTS = (301, 302, 303, 307, 308)
_OK, _PARTIAL, _UNSATISFIABLE = 200, 206, 416
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)\Z")
_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchLimits:
    """Bounds of one download."""

    most_bytes: int = 512 * _MIB
    seconds: float = 600.0
    attempts: int = 3
    redirects: int = 10


class _Again(Exception):  # noqa: N818 - a turn in the way, no failure
    """The answer says to ask once more: elsewhere, or for everything."""


class Fetch:
    """Fetches one file into a partial download, until all of it is there."""

    def __init__(
        self,
        wanted: Wanted,
        partial: Partial,
        opener: Opener,
        limits: FetchLimits,
        progress: Progress,
    ) -> None:
        self._wanted = wanted
        self._partial = partial
        self._opener = opener
        self._limits = limits
        self._progress = progress
        self._url = wanted.url

    async def run(self) -> None:
        """Fetch; raise DownloadError when it cannot be done within the limits."""
        try:
            async with asyncio.timeout(self._limits.seconds):
                await self._try_often()
        except TimeoutError:
            reason = f"it took more than {self._limits.seconds:g} s"
            raise self._error(reason, hint="call again: it goes on where it stopped") from None
        except OSError as error:
            raise self._error((error.strerror or str(error)).lower()) from None

    async def _try_often(self) -> None:
        lost: InterruptedDownloadError | None = None
        for _ in range(self._limits.attempts):
            try:
                await self._follow()
            except InterruptedDownloadError as error:
                lost = error
            else:
                return
        raise self._error(str(lost), hint="call again: it goes on where it stopped")

    async def _follow(self) -> None:
        self._url = self._wanted.url
        for _ in range(self._limits.redirects + 1):
            try:
                await self._ask()
            except _Again:
                continue
            return
        raise self._error(f"it was redirected more than {self._limits.redirects} times")

    async def _ask(self) -> None:
        known = self._wanted.sha256 is not None
        headers = self._partial.range_headers(hash_is_known=known)
        async with self._opener(self._url, {"accept-encoding": "identity", **headers}) as answer:
            if answer.status in _REDIRECTS:
                self._url = self._redirected(answer.headers.get("location", ""))
                raise _Again
            if answer.status == _UNSATISFIABLE and headers:
                self._partial.discard()
                raise _Again
            await self._receive(answer)

    def _redirected(self, location: str) -> str:
        found = urljoin(self._url, location)
        if not location or found.partition(":")[0].lower() != self._wanted.url.partition(":")[0]:
            raise self._error(f"it was redirected to {found!r:.200}, which is not https")
        return found

    async def _receive(self, answer: Answer) -> None:
        if answer.headers.get("content-encoding", "identity").lower() != "identity":
            raise self._error("the server encodes it, although it was asked not to")
        total = self._begin(answer)
        done = self._partial.size()
        self._refuse_large(total or done)
        self._progress.begin(self._wanted.host, done, total)
        with self._partial.file.open("ab") as file:
            async for piece in answer.pieces:
                done += len(piece)
                self._refuse_large(done)
                file.write(piece)
                self._progress.at(done, total)
        if total is not None and done != total:
            raise InterruptedDownloadError(f"{done:,} of {total:,} bytes came")

    def _begin(self, answer: Answer) -> int | None:
        """Return how many bytes there will be, with those that are there already."""
        if answer.status == _PARTIAL:
            return self._continued(answer.headers)
        if answer.status != _OK:
            raise self._error(f"the server answered {answer.status}")
        self._partial.restart(answer.headers)
        length = answer.headers.get("content-length", "")
        return int(length) if length.isascii() and length.isdigit() else None

    def _continued(self, headers: Mapping[str, str]) -> int:
        match = _RANGE.match(headers.get("content-range", ""))
        if match is None or int(match[1]) != self._partial.size():
            self._partial.discard()
            raise _Again
        return int(match[2])

    def _refuse_large(self, size: int) -> None:
        if size > self._limits.most_bytes:
            self._partial.discard()
            raise self._error(f"it is larger than the {self._limits.most_bytes:,} bytes allowed")

    def _error(self, reason: str, *, hint: str = "") -> DownloadError:
        return DownloadError(self._wanted.url, reason, hint=hint)
