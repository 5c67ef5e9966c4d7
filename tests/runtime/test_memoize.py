"""What was made of an object is found by the object, and by nothing that only looks like it."""

import pytest

from skillpouch.runtime.memoize import memoize_by_id


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
