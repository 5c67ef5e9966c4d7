"""Shells, each for one script at a time: cleared and used again where that shows in nothing."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from bashkit import Bash, BuiltinContext, BuiltinResult, ExecutionProfile

from skillpouch.shell.worker.reading import FEW_COMMANDS, named

if TYPE_CHECKING:
    from skillpouch.shell.worker.order import Order

    _Pairs = tuple[tuple[str, Any], ...]
    Kind = tuple[tuple[str, ...], tuple[str, ...], _Pairs, _Pairs, frozenset[str]]

_NEVER_SECONDS = 86_400.0  # time is kept by whoever gave the order, and stops while people think


class Tenant(Protocol):
    """A script that runs in a room, and answers the commands that it calls."""

    async def forward(self, context: BuiltinContext) -> BuiltinResult: ...

    def now(self, context: BuiltinContext) -> BuiltinResult: ...


class Room:
    """A shell, and whose script runs in it: to make one takes four times as long as to clear it."""

    def __init__(
        self, order: Order, commands: tuple[str, ...], now: frozenset[str], kind: Kind | None
    ) -> None:
        self.kind = kind
        self.tenant: Tenant | None = None
        self.cleared_at = 0.0
        self._stubs = order.stubs
        builtins: dict[str, Any] = dict.fromkeys(order.stubs, self._refuse)
        for name in commands:
            builtins[name] = self._now if name in now else self._forward
        settings: dict[str, Any] = {
            "custom_builtins": builtins,
            "env": order.env,
            "profile": ExecutionProfile.Interactive,
            "timeout_seconds": _NEVER_SECONDS,
            **order.limits,
        }
        if order.state is None:
            self.bash = Bash(**settings)
        else:
            self.bash = Bash.from_snapshot(order.state, **settings)

    def add(self, commands: tuple[str, ...], *, now: bool) -> None:
        """Let the script that runs call more commands; the room is never used for another."""
        self.kind = None
        for name in commands:
            do = self._now if now else self._forward
            self.bash.add_builtin(name, do)  # type: ignore[attr-defined]  # not in its stub file

    async def _forward(self, context: BuiltinContext) -> BuiltinResult:
        return CANCELLED if self.tenant is None else await self.tenant.forward(context)

    def _now(self, context: BuiltinContext) -> BuiltinResult:
        return CANCELLED if self.tenant is None else self.tenant.now(context)

    def _refuse(self, context: BuiltinContext) -> BuiltinResult:
        return BuiltinResult("", f"{context.name}: {self._stubs[context.name]}\n", 126)


CANCELLED = BuiltinResult("", "cancelled\n", 130)
_rooms: list[Room] = []  # cleared, and waiting for a script of their kind
_MOST_ROOMS = 4
_NEW_SECONDS = 0.05
_looking = threading.Lock()


def room_for(order: Order, now: frozenset[str]) -> Room:
    """Return one for a script, of whose commands those in `now` never wait."""
    commands = tuple(named(order))
    kind = _kind_of(order, commands, now)
    found = None if kind is None else _take_cleared(kind)
    if found is None:
        return Room(order, commands, now, kind)
    if time.monotonic() - found.cleared_at > _NEW_SECONDS:
        found.bash.reset()  # again: its clock has run since
    return found


def _take_cleared(kind: Kind) -> Room | None:
    with _looking:
        for room in _rooms:
            if room.kind == kind:
                _rooms.remove(room)
                return room
    return None


def is_used_again(order: Order) -> bool:
    """Tell whether the room of a script can be cleared for another."""
    return _kind_of(order, tuple(named(order)), frozenset()) is not None


def _kind_of(order: Order, commands: tuple[str, ...], now: frozenset[str]) -> Kind | None:
    """Return what rooms must have in common to serve the same scripts; None for one of its own."""
    if order.state is not None or order.folders or len(commands) > FEW_COMMANDS:
        return None
    env, limits = (tuple(sorted(each.items())) for each in (order.env, order.limits))
    return commands, tuple(order.stubs), env, limits, now.intersection(commands)


def clear_away(room: Room) -> bool:
    """Make a room as new, with nothing of its script left in it; whether it is kept."""
    if room.kind is None or len(_rooms) >= _MOST_ROOMS:
        return False
    room.bash.reset()
    room.cleared_at = time.monotonic()
    with _looking:
        _rooms.append(room)
    return True
