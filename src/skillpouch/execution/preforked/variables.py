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
_EVERY = "*"  # stands for "all variables were read"; no variable has this name


class _Watched(_Environment):  # type: ignore[misc,valid-type]
    """Notes which variables are read."""

    def __getitem__(self, name: str) -> str:
        _read.add(name)
        value: str = super().__getitem__(name)
        return value

    def __iter__(self) -> Iterator[str]:
        _read.add(_EVERY)
        return iter(super().__iter__())


class Variables:
    """The variables at the start of the prefork server; a call sends only the differences.

    A variable that a module reads at import must have the same value in the call.
    """

    def __init__(self) -> None:
        # The bytes of `os.environ` itself: its methods would encode names and values again.
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
        """Tell whether no variable that was read at import differs in a call."""
        return not _read or _read.isdisjoint(map(os.fsdecode, (*changed, *removed)))

    def take(self, changed: dict[bytes, bytes], removed: list[bytes]) -> None:
        """Set the variables of a call; variables that an import has set stay."""
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
        """Return all variables of a call, without those that an import has set."""
        kept = {name: value for name, value in self._before.items() if name not in removed}
        return {**kept, **changed}
