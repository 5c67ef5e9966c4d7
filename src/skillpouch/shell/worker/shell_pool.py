"""Shells, each for one script at a time: cleared and used again where that shows in nothing."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Protocol

from bashkit import Bash, BuiltinContext, BuiltinResult, ExecutionProfile

from skillpouch.shell.worker.reading import FEW_COMMANDS, named

if TYPE_CHECKING:
    from skillpouch.shell.worker.protocol import ScriptRequest

    _Pairs = tuple[tuple[str, Any], ...]
    Kind = tuple[tuple[str, ...], tuple[str, ...], _Pairs, _Pairs, frozenset[str]]

_NEVER_SECONDS = 86_400.0  # time is kept by whoever gave the order, and stops while people think


class RunningScript(Protocol):
    """A script that runs in a shell, and answers the commands that it calls."""

    async def forward(self, context: BuiltinContext) -> BuiltinResult: ...

    def now(self, context: BuiltinContext) -> BuiltinResult: ...


class PooledShell:
    """A shell, and whose script runs in it: to make one takes four times as long as to clear it."""

    def __init__(
        self,
        order: ScriptRequest,
        commands: tuple[str, ...],
        now: frozenset[str],
        kind: Kind | None,
    ) -> None:
        self.kind = kind
        self.running_script: RunningScript | None = None
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
        """Let the script that runs call more commands; the shell is never used for another."""
        self.kind = None
        for name in commands:
            do = self._now if now else self._forward
            self.bash.add_builtin(name, do)  # type: ignore[attr-defined]  # not in its stub file

    async def _forward(self, context: BuiltinContext) -> BuiltinResult:
        return (
            CANCELLED if self.running_script is None else await self.running_script.forward(context)
        )

    def _now(self, context: BuiltinContext) -> BuiltinResult:
        return CANCELLED if self.running_script is None else self.running_script.now(context)

    def _refuse(self, context: BuiltinContext) -> BuiltinResult:
        return BuiltinResult("", f"{context.name}: {self._stubs[context.name]}\n", 126)


CANCELLED = BuiltinResult("", "cancelled\n", 130)
_rooms: list[PooledShell] = []  # cleared, and waiting for a script of their kind
_MOST_ROOMS = 4
_NEW_SECONDS = 0.05
_looking = threading.Lock()


def room_for(order: ScriptRequest, now: frozenset[str]) -> PooledShell:
    """Return one for a script, of whose commands those in `now` never wait."""
    commands = tuple(named(order))
    kind = _kind_of(order, commands, now)
    found = None if kind is None else _take_cleared(kind)
    if found is None:
        return PooledShell(order, commands, now, kind)
    if time.monotonic() - found.cleared_at > _NEW_SECONDS:
        found.bash.reset()  # again: its clock has run since
    return found


def _take_cleared(kind: Kind) -> PooledShell | None:
    with _looking:
        for shell in _rooms:
            if shell.kind == kind:
                _rooms.remove(shell)
                return shell
    return None


def is_used_again(order: ScriptRequest) -> bool:
    """Tell whether the shell of a script can be cleared for another."""
    return _kind_of(order, tuple(named(order)), frozenset()) is not None


def _kind_of(order: ScriptRequest, commands: tuple[str, ...], now: frozenset[str]) -> Kind | None:
    """Return what shells must have in common to serve the same scripts; None for one of its own."""
    if order.state is not None or order.folders or len(commands) > FEW_COMMANDS:
        return None
    env, limits = (tuple(sorted(each.items())) for each in (order.env, order.limits))
    return commands, tuple(order.stubs), env, limits, now.intersection(commands)


def clear_away(shell: PooledShell) -> bool:
    """Make a shell as new, with nothing of its script left in it; whether it is kept."""
    if shell.kind is None or len(_rooms) >= _MOST_ROOMS:
        return False
    shell.bash.reset()
    shell.cleared_at = time.monotonic()
    with _looking:
        _rooms.append(shell)
    return True
