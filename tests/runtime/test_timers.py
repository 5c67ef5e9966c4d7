import asyncio
import threading

from skillpouch.runtime.timers import PausableTimer, clocks_stopped


async def test_a_clock_rings_when_its_time_is_over() -> None:
    rang = asyncio.Event()

    with PausableTimer(0.01, rang.set).heard():
        await asyncio.wait_for(rang.wait(), 60)


async def test_a_clock_does_not_ring_while_somebody_is_asked_and_rings_afterwards() -> None:
    rang = asyncio.Event()

    with PausableTimer(0.01, rang.set).heard():
        with clocks_stopped(), clocks_stopped():
            await asyncio.sleep(0.1)
            stopped = not rang.is_set()
        await asyncio.wait_for(rang.wait(), 60)

    assert stopped


async def test_a_question_in_a_thread_stops_the_clock_too() -> None:
    rang, asked, answer = asyncio.Event(), asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def ask() -> None:
        with clocks_stopped():
            loop.call_soon_threadsafe(asked.set)
            answer.wait(60)

    with PausableTimer(60, rang.set).heard() as _:
        asking = asyncio.ensure_future(asyncio.to_thread(ask))
        await asked.wait()
        answer.set()
        await asking

    assert not rang.is_set()


async def test_a_clock_that_is_no_longer_heard_is_silent() -> None:
    rang = asyncio.Event()

    with PausableTimer(0.01, rang.set).heard():
        pass
    await asyncio.sleep(0.05)

    assert not rang.is_set()
