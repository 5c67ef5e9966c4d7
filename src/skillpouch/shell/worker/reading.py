"""What the text of a script shows before it runs."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from bashkit import Bash, BashError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from skillpouch.shell.worker.protocol import ScriptRequest

FEW_COMMANDS = 64
# What only the loop can interrupt, and jobs, which it runs side by side.
_WAITS = re.compile(r"\b(?:sleep|wait|timeout|watch)\b|(?<![&>])&(?![&>])")
_WAITING = ("&", "sleep", "wait", "timeout", "watch")
_HIDING = frozenset(("eval", "source", ".", "bash", "sh", "command", "builtin", "exec", "trap"))


def analyze_script(text: str) -> dict[str, Any]:
    """Return what a script would run, without running it; `error` when it is not bash."""
    try:
        return {"error": None, **Bash().analyze(text).to_dict()}
    except BashError as error:
        return {"error": str(error)}


def says_all(order: ScriptRequest) -> bool:
    """Tell whether a script does one thing after the other, and its text says all that it does."""
    if order.state is not None or order.folders or not never_waits(order):
        return False
    found = _found_in(order.script)
    return found is not None and not found.is_opaque and _HIDING.isdisjoint(found.commands)


def never_waits(order: ScriptRequest) -> bool:
    """Tell whether a script says nothing of waiting, or of doing things side by side."""
    script = order.script
    # Looked for one by one first: a pattern takes longer, and in most scripts there is none.
    return not any(word in script for word in _WAITING) or _WAITS.search(script) is None


def named(order: ScriptRequest) -> Iterable[str]:
    """Return the commands that a script may call: all, unless many, and its text tells which.

    To make a shell of five hundred commands takes longer than most scripts do.
    """
    if len(order.commands) <= FEW_COMMANDS or order.state is not None:
        return order.commands
    found = _found_in(order.script)
    if found is None:
        return ()  # it will not begin
    mentioned = {name for name in order.commands if name in order.script}
    known = mentioned | _own_commands() | found.functions
    # With a word that nobody knows, all: the engine then says which one was meant.
    is_plain = not found.is_opaque and known.issuperset(filter(None, found.commands))
    return [name for name in order.commands if name in mentioned] if is_plain else order.commands


class _Found(NamedTuple):
    """What a script names, as far as its text tells."""

    is_opaque: bool
    commands: frozenset[str | None]
    functions: frozenset[str]


def _found_in(script: str) -> _Found | None:
    """Return what a script names, None when it is not bash."""
    return _found_before(script) if len(script) <= _SHORT else _found_in_text(script)


def _found_in_text(script: str) -> _Found | None:
    try:
        found = _reader().analyze(script)
    except BashError:
        return None
    names, functions = frozenset(found.command_names), frozenset(found.functions)
    return _Found(found.is_opaque, names, functions)


# The same text is asked about more than once, and often run again.
_SHORT = 4096  # characters
_found_before = lru_cache(maxsize=64)(_found_in_text)


@cache
def _reader() -> Bash:
    return Bash()


@cache
def _own_commands() -> frozenset[str]:
    return frozenset(_reader().capabilities().builtins)
