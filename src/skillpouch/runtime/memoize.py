"""Caches: of bounded size, or by the identity of an object; and objects that are never copied."""

import threading
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any, Self, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")
Thing = TypeVar("Thing")
Made = TypeVar("Made")

_MOST = 4_096


class BoundedCache(dict[Key, Value]):
    """Holds at most `most` values; one more evicts the value that was written longest ago.

    Reading costs as much as with a plain dict. Any thread may read and write; a value that is
    written again is found all the time.
    """

    # Not an OrderedDict: threads that write one whose keys are compared in Python, such as paths,
    # end the process with a segmentation fault. Not a lock: a fork may happen while it is held.

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        # The keys by the time of their last writing. A race may leave a key here that has no value
        # any more, never a value whose key is not here: such a value would stay for good.
        self._order: dict[Key, None] = {}

    def __setitem__(self, key: Key, value: Value) -> None:
        super().__setitem__(key, value)
        self._order.pop(key, None)
        self._order[key] = None
        # RuntimeError: another thread has just written, and evicts.
        with suppress(RuntimeError, StopIteration):
            while len(self._order) > self._most:
                self.pop(next(iter(self._order)), None)

    def __delitem__(self, key: Key) -> None:
        self._order.pop(key, None)
        super().__delitem__(key)

    def pop(self, key: Key, *default: Any) -> Any:
        self._order.pop(key, None)
        return super().pop(key, *default)

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
