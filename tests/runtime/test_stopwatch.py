import pytest

from skillpouch.results import Stopwatch


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The times that the clock will show, in seconds."""
    times: list[float] = []
    monkeypatch.setattr("skillpouch.results.perf_counter", lambda: times.pop(0))
    return times


def test_each_lap_ends_where_the_next_begins(ticks: list[float]) -> None:
    ticks += [10.0, 10.5, 12.5]
    watch = Stopwatch()

    watch.lap("look")
    watch.lap("leap")

    assert watch.timings == (("look", 500.0), ("leap", 2000.0))


def test_a_lap_can_be_told_in_parts_that_come_first(ticks: list[float]) -> None:
    ticks += [0.0, 1.0, 1.25]
    watch = Stopwatch()

    watch.split("run", (("plan", 0.125), ("wait", 0.5)))
    watch.lap("read")

    expected = (("plan", 125.0), ("wait", 500.0), ("run", 375.0), ("read", 250.0))
    assert watch.timings == expected


def test_times_are_milliseconds_to_three_places(ticks: list[float]) -> None:
    ticks += [0.0, 0.0012345678]
    watch = Stopwatch()

    watch.lap("look")

    assert watch.timings == (("look", 1.235),)


def test_a_watch_that_has_just_begun_has_nothing_to_tell() -> None:
    assert Stopwatch().timings == ()
