"""Caches keyed by the identity of an object, and objects that are never copied."""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Self, TypeVar

Thing = TypeVar("Thing")
Made = TypeVar("Made")

_MOST = 4_096


def memoize_by_id(make: Callable[[Thing], Made]) -> Callable[[Thing], Made]:
    """Remember what a function made of the very same object, which nobody changes any more.

    The objects are kept, so that their ids stay their own.
    """
    known: dict[int, tuple[Thing, Made]] = {}

    @wraps(make)
    def remembered(thing: Thing) -> Made:
        found = known.get(id(thing))
        if found is None:
            if len(known) >= _MOST:
                known.clear()
            found = known[id(thing)] = (thing, make(thing))
        return found[1]

    return remembered


def made_once(make: Callable[[], Made]) -> Callable[[], Made]:
    """Return what makes a thing when it is first asked for, and only one, whoever asks at once.

    `functools.cache` would let two threads make two of them.
    """
    lock = threading.Lock()
    made: list[Made] = []

    def the_one() -> Made:
        if not made:
            with lock:
                if not made:
                    made.append(make())
        return made[0]

    return the_one


class Shared:
    """Something that runs or remembers: whoever is copied with it goes on sharing it."""

    __slots__ = ()

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self


class SharedCall(Shared):
    """A callable of the host that is no plain function, and may hold anything."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __call__(self, *words: Any, **named: Any) -> Any:
        return self.call(*words, **named)
