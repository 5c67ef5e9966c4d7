"""What a server answers, as far as a download needs to know, and who may be asked."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol


class InterruptedDownloadError(Exception):
    """The connection was lost, or never came about: trying again may help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`headers` have lower-case names; `pieces` are the body as it was sent."""

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]


class Opener(Protocol):
    """Asks a server for a file, without following where it points; one for each skill.

    Raises InterruptedDownloadError when there is no answer, CallDeniedError when the host may not
    be asked.
    """

    def __call__(
        self, url: str, headers: Mapping[str, str]
    ) -> AbstractAsyncContextManager[Answer]: ...
