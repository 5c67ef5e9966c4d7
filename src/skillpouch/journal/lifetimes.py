"""Closes journals before a fork and when the process ends; opens nothing."""

import atexit
import os
from typing import Protocol
from weakref import WeakSet


class Closable(Protocol):
    """What must not be open while a process forks."""

    def before_fork(self) -> None: ...
    def after_fork(self, *, child: bool) -> None: ...
    def close(self) -> None: ...


_open: "WeakSet[Closable]" = WeakSet()
_paused: list[Closable] = []


def watch(thing: Closable) -> None:
    """Look after it for as long as it is used."""
    _open.add(thing)


def _before_fork() -> None:
    _paused[:] = list(_open)
    for thing in _paused:
        thing.before_fork()


def _after_fork(*, child: bool) -> None:
    while _paused:
        _paused.pop().after_fork(child=child)


def _at_exit() -> None:
    for thing in list(_open):
        thing.close()


atexit.register(_at_exit)
os.register_at_fork(
    before=_before_fork,
    after_in_parent=lambda: _after_fork(child=False),
    after_in_child=lambda: _after_fork(child=True),
)
