"""The environment variables of a nursery, those of a call, and which of them imports have read."""

from __future__ import annotations

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

_Environment = type(os.environ)
_read: set[str] = set()
_EVERY = "*"  # no variable has this name here: all of them were read


class _Watched(_Environment):  # type: ignore[misc,valid-type]
    """Notes what is read."""

    def __getitem__(self, name: str) -> str:
        _read.add(name)
        value: str = super().__getitem__(name)
        return value

    def __iter__(self) -> Iterator[str]:
        _read.add(_EVERY)
        return iter(super().__iter__())


class Variables:
    """What was set when the nursery started; a call changes only what differs from that.

    What a module reads when it is imported must be what it would have read in the call.
    """

    def __init__(self) -> None:
        self._before = dict(os.environ)

    def watch(self) -> None:
        os.environ.__class__ = _Watched

    def stop_watching(self) -> None:
        os.environ.__class__ = _Environment

    def count_read(self) -> int:
        return len(_read)

    def allow(self, wanted: dict[str, str]) -> bool:
        """Tell whether nothing that was read has another value in a call."""
        if not _read:
            return True
        before = self._before
        differ = {name for name in {*before, *wanted} if before.get(name) != wanted.get(name)}
        return not differ or not (_EVERY in _read or differ & _read)

    def take(self, wanted: dict[str, str]) -> None:
        """Set those of a call; what an import has set stays."""
        before, now = self._before, os.environ
        for name in before:
            if name not in wanted:
                del now[name]
        for name, value in wanted.items():
            if before.get(name) != value:
                now[name] = value
        if wanted.get("TZ") != before.get("TZ"):
            time.tzset()
