"""What the text of a script tells before it runs. With script.py, all that knows the engine."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

from bashkit import Bash, BashError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kitbag.shell.worker.order import Order

FEW_COMMANDS = 64
# What only the loop can interrupt, and jobs, which it runs side by side.
_WAITS = re.compile(r"\b(?:sleep|wait|timeout|watch)\b|(?<![&>])&(?![&>])")
_WAITING = ("&", "sleep", "wait", "timeout", "watch")
_HIDING = frozenset(("eval", "source", ".", "bash", "sh", "command", "builtin", "exec", "trap"))


def analyze_script(text: str) -> dict[str, Any]:
    """Return what a script would run, without running it; `error` when it is no bash."""
    try:
        return {"error": None, **Bash().analyze(text).to_dict()}
    except BashError as error:
        return {"error": str(error)}


def says_all(order: Order) -> bool:
    """Tell whether a script does one thing after the other, and its text says all that it does."""
    if order.state is not None or order.folders or not never_waits(order):
        return False
    try:
        found = _reader().analyze(order.script)
    except BashError:
        return False
    return not found.is_opaque and _HIDING.isdisjoint(found.command_names)


def never_waits(order: Order) -> bool:
    """Tell whether a script says nothing of waiting, or of doing things side by side."""
    script = order.script
    # Looked for one by one first: a pattern takes longer, and in most scripts there is none.
    return not any(word in script for word in _WAITING) or _WAITS.search(script) is None


def named(order: Order) -> Iterable[str]:
    """Return the commands that a script may call: all, unless many, and its text tells which.

    To make a shell of five hundred commands takes longer than most scripts do.
    """
    if len(order.commands) <= FEW_COMMANDS or order.state is not None:
        return order.commands
    try:
        found = _reader().analyze(order.script)
    except BashError:
        return ()  # it will not begin
    mentioned = {name for name in order.commands if name in order.script}
    known = mentioned | _own_commands() | set(found.functions)
    # With a word that nobody knows, all: the engine then says which one was meant.
    is_plain = not found.is_opaque and known.issuperset(filter(None, found.command_names))
    return [name for name in order.commands if name in mentioned] if is_plain else order.commands


@cache
def _reader() -> Bash:
    return Bash()


@cache
def _own_commands() -> frozenset[str]:
    return frozenset(_reader().capabilities().builtins)
