"""Environment variables of a prefork server and its calls, and which of them imports have read."""

from __future__ import annotations

import os
import time
from posix import putenv, unsetenv

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
    """What was set when the prefork server started; a call names only what differs from that.

    What a module reads when it is imported must be what it would have read in the call.
    """

    def __init__(self) -> None:
        # Python code of `os` would turn names and values into these again.
        self._bytes: dict[bytes, bytes] = os.environ._data  # type: ignore[attr-defined]
        self._before = dict(self._bytes)

    def watch(self) -> None:
        os.environ.__class__ = _Watched

    def stop_watching(self) -> None:
        os.environ.__class__ = _Environment

    def count_read(self) -> int:
        return len(_read)

    def all_were_read(self) -> bool:
        return _EVERY in _read

    def allow(self, changed: dict[bytes, bytes], removed: list[bytes]) -> bool:
        """Tell whether nothing that was read has another value in a call."""
        return not _read or _read.isdisjoint(map(os.fsdecode, (*changed, *removed)))

    def take(self, changed: dict[bytes, bytes], removed: list[bytes]) -> None:
        """Set those of a call; what an import has set stays."""
        now = self._bytes
        for name in removed:
            unsetenv(name)
            now.pop(name, None)
        for name, value in changed.items():
            putenv(name, value)
            now[name] = value
        if b"TZ" in changed or b"TZ" in removed:
            time.tzset()

    def all_of(self, changed: dict[bytes, bytes], removed: list[bytes]) -> dict[bytes, bytes]:
        """Return all variables of a call, with nothing that an import has set."""
        kept = {name: value for name, value in self._before.items() if name not in removed}
        return {**kept, **changed}
