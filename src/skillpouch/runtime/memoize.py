"""Caches: of bounded size, or by the identity of an object; and objects that are never copied."""

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, Self, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")
Thing = TypeVar("Thing")
Made = TypeVar("Made")

_MOST = 4_096


class BoundedCache(OrderedDict[Key, Value]):
    """Holds at most `most` values; one more evicts the value that was written longest ago.

    Reading costs as much as with a plain dict. Any thread may read and write.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        with suppress(KeyError):  # another thread has just removed the key
            self.move_to_end(key)
            if len(self) > self._most:
                self.popitem(last=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._most,)  # a copy begins empty


def memoize_by_id(make: Callable[[Thing], Made]) -> Callable[[Thing], Made]:
    """Cache the results of a function by the identity of its argument, which must not change.

    The arguments are kept alive, so that no other object can get the same id.
    """
    known: BoundedCache[int, tuple[Thing, Made]] = BoundedCache(_MOST)

    @wraps(make)
    def remembered(thing: Thing) -> Made:
        found = known.get(id(thing))
        if found is None:
            found = known[id(thing)] = (thing, make(thing))
        return found[1]

    return remembered


def made_once(make: Callable[[], Made]) -> Callable[[], Made]:
    """Return a function that calls `make` once, also when several threads call it at once.

    `functools.cache` would let two threads make two values.
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
    """Something with running work or memory: deep copies of its owner share it."""

    __slots__ = ()

    def __deepcopy__(self, _memo: dict[int, Any]) -> Self:
        return self


class SharedCall(Shared):
    """A callable of the host that is not a plain function, so that copying it may fail."""

    __slots__ = ("call",)

    def __init__(self, call: Callable[..., Any]) -> None:
        self.call = call

    def __call__(self, *words: Any, **named: Any) -> Any:
        return self.call(*words, **named)
