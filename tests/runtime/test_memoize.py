"""What was made of an object is found by the object, and by nothing that only looks like it."""

import sys
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path

import pytest

from skillpouch.runtime.memoize import BoundedCache, memoize_by_id


def test_the_same_object_is_asked_for_once() -> None:
    seen: list[object] = []

    @memoize_by_id
    def count(thing: dict[str, int]) -> int:
        seen.append(thing)
        return len(thing)

    one, equal = {"a": 1}, {"a": 1}

    assert (count(one), count(one), count(equal)) == (1, 1, 1)
    assert seen == [one, equal]


def test_an_object_that_is_gone_is_never_taken_for_another() -> None:
    @memoize_by_id
    def first(thing: list[int]) -> int:
        return thing[0]

    assert [first([number]) for number in range(20_000)] == list(range(20_000))


def test_an_error_is_not_remembered() -> None:
    calls: list[int] = []

    @memoize_by_id
    def fail_once(_thing: object) -> str:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("not yet")
        return "now"

    thing = object()
    with pytest.raises(ValueError, match="not yet"):
        fail_once(thing)

    assert fail_once(thing) == "now"


def test_a_bounded_cache_lets_go_of_what_was_written_longest_ago() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)

    cache["a"], cache["b"] = 1, 2
    cache["a"] = 3
    cache["c"] = 4

    assert dict(cache) == {"a": 3, "c": 4}


def test_a_copy_of_a_bounded_cache_begins_empty_and_is_bounded_too() -> None:
    cache: BoundedCache[str, int] = BoundedCache(1)
    cache["a"] = 1

    copied = deepcopy(cache)
    copied["b"], copied["c"] = 2, 3

    assert dict(copied) == {"c": 3}
    assert dict(cache) == {"a": 1}


def test_threads_may_write_a_bounded_cache_while_another_empties_it() -> None:
    cache: BoundedCache[int, int] = BoundedCache(3)

    def write(number: int) -> None:
        for each in range(2_000):
            cache[each] = number
            if each % 50 == number:
                cache.clear()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))

    assert len(cache) <= 3


def test_threads_may_write_a_bounded_cache_whose_keys_are_compared_in_python() -> None:
    cache: BoundedCache[Path, int] = BoundedCache(50)

    def write(number: int) -> None:
        for each in range(15_000):
            cache[Path(f"/at/{each * number % 120}")] = number
            cache.pop(Path(f"/at/{each % 120}"), None)

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(6) as threads:
            list(threads.map(write, range(1, 7)))
    finally:
        sys.setswitchinterval(before)
    for each in range(1_000):
        cache[Path(f"/later/{each}")] = each

    assert list(cache.values()) == list(range(950, 1_000))


def test_a_bounded_cache_forgets_what_is_removed_from_it() -> None:
    cache: BoundedCache[str, int] = BoundedCache(2)

    cache["a"], cache["b"] = 1, 2
    del cache["a"]
    cache["c"] = 3
    assert cache.pop("b") == 2
    cache["d"] = 4

    assert dict(cache) == {"c": 3, "d": 4}
    with pytest.raises(KeyError):
        del cache["a"]
