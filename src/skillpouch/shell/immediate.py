"""Answers without waiting: where no process stands between, a plain function needs no loop.

A hop to the event loop and one to a thread take longer than most callbacks do.
"""

from collections.abc import Coroutine
from contextvars import Context, ContextVar
from typing import Any, TypeVar

Value = TypeVar("Value")

is_immediate: ContextVar[bool] = ContextVar("skillpouch_is_immediate", default=False)


def run_now(work: Coroutine[Any, Any, Value], context: Context) -> Value:
    """Run what never waits, in a copy of a context, and return its value."""
    return context.copy().run(_send, work, immediate=True)


def run_blocked(work: Coroutine[Any, Any, Value]) -> Value:
    """Run on this thread, in its context, what waits only by blocking it; return its value."""
    return _send(work, immediate=False)


def _send(work: Coroutine[Any, Any, Value], *, immediate: bool) -> Value:
    is_immediate.set(immediate)
    try:
        work.send(None)
    except StopIteration as end:
        value: Value = end.value
        return value
    work.close()
    raise RuntimeError("something waits where nothing should")
