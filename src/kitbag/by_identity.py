"""Remembering what was made of an object: found by which object it is, however large that is."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

Made = TypeVar("Made")

_MOST = 4_096


def by_identity(make: Callable[..., Made]) -> Callable[..., Made]:
    """Remember what a function made of the very same objects, which nobody changes any more.

    The objects are kept, so that their ids stay their own.
    """
    known: dict[tuple[int, ...], tuple[tuple[Any, ...], Made]] = {}

    @wraps(make)
    def remembered(*things: Any) -> Made:
        key = tuple(map(id, things))
        found = known.get(key)
        if found is None:
            if len(known) >= _MOST:
                known.clear()
            found = known[key] = (things, make(*things))
        return found[1]

    return remembered
