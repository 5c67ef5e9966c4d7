"""Remembering what was made of an object: found by which object it is, however large that is."""

from collections.abc import Callable
from functools import wraps
from typing import TypeVar

Thing = TypeVar("Thing")
Made = TypeVar("Made")

_MOST = 4_096


def by_identity(make: Callable[[Thing], Made]) -> Callable[[Thing], Made]:
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
