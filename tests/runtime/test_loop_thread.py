import asyncio
import contextlib
import contextvars
import gc
import os
import signal
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from skillpouch.runtime.loop_thread import LoopMailbox, run_blocking, run_on_thread

word: contextvars.ContextVar[str] = contextvars.ContextVar("word", default="unset")


def until(fact: Callable[[], bool]) -> None:
    """Wait for what another thread is about to let go of."""
    deadline = time.monotonic() + 10
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.01)


async def answer(value: object = 42) -> object:
    await asyncio.sleep(0)
    return value


def test_a_coroutine_runs_and_its_result_comes_back() -> None:
    assert run_blocking(answer()) == 42


def test_an_exception_comes_back() -> None:
    async def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        run_blocking(fail())


def test_an_error_that_was_handled_leaves_nothing_to_collect() -> None:
    class Held:
        pass

    async def fail(held: Held) -> None:
        raise KeyError(held)

    held = Held()
    seen = weakref.ref(held)
    gc.disable()
    try:
        with contextlib.suppress(KeyError):
            run_blocking(fail(held))
        del held
        until(lambda: seen() is None)
    finally:
        gc.enable()


async def test_it_works_inside_a_running_loop_as_in_a_notebook() -> None:
    assert run_blocking(answer()) == 42


def test_many_threads_share_one_loop() -> None:
    async def loop_and(value: int) -> tuple[int, int]:
        return id(asyncio.get_running_loop()), value

    with ThreadPoolExecutor(16) as threads:
        results = list(threads.map(lambda n: run_blocking(loop_and(n)), range(100)))

    assert len({loop for loop, _ in results}) == 1
    assert [value for _, value in results] == list(range(100))


def test_context_variables_of_the_caller_are_seen() -> None:
    async def look() -> str:
        return word.get()

    word.set("mine")
    assert run_blocking(look()) == "mine"


def test_a_blocking_call_on_the_loop_thread_itself_is_refused() -> None:
    async def nested() -> object:
        return run_blocking(answer())

    with pytest.raises(RuntimeError, match="await"):
        run_blocking(nested())


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_it_works_after_a_fork() -> None:
    run_blocking(answer())

    pid = os.fork()
    if pid == 0:
        os._exit(0 if run_blocking(answer()) == 42 else 1)

    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert run_blocking(answer()) == 42


def test_control_c_cancels_and_waits_for_the_end() -> None:
    main = threading.get_ident()
    ended: list[str] = []

    async def wait() -> None:
        signal.pthread_kill(main, signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ended.append("cleaned up")

    with pytest.raises(KeyboardInterrupt):
        run_blocking(wait())

    assert ended == ["cleaned up"]


# Raise it to try more often.
ROUNDS = int(os.environ.get("SKILLPOUCH_SIGNAL_ROUNDS", "10"))


@pytest.mark.promise("stop-1")
def test_control_c_is_heard_whichever_thread_the_kernel_hands_it_to() -> None:
    async def wait(thread: int) -> None:
        signal.pthread_kill(thread, signal.SIGINT)
        await asyncio.Event().wait()

    async def name() -> int:
        return threading.get_ident()

    loop_thread = run_blocking(name())
    for _ in range(ROUNDS):
        with pytest.raises(KeyboardInterrupt):
            run_blocking(wait(loop_thread))
    assert signal.set_wakeup_fd(-1) == -1


def test_a_signal_that_is_no_end_lets_a_blocking_call_go_on() -> None:
    heard: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _: heard.append(number))

    async def wait() -> str:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        while not heard:
            await asyncio.sleep(0.001)
        return "done"

    try:
        assert run_blocking(wait()) == "done"
    finally:
        signal.signal(signal.SIGUSR1, before)

    assert heard == [signal.SIGUSR1]


async def test_a_loop_of_the_main_thread_hears_signals_that_come_in_a_blocking_call() -> None:
    heard = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGUSR1, heard.set)

    async def send() -> None:
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        await asyncio.sleep(0.05)

    try:
        run_blocking(send())
        async with asyncio.timeout(10):
            await heard.wait()
    finally:
        loop.remove_signal_handler(signal.SIGUSR1)


async def test_a_thousand_at_once_come_back_in_their_places() -> None:
    found = await asyncio.gather(*(run_on_thread(answer(number)) for number in range(1_000)))

    assert found == list(range(1_000))


async def test_of_many_only_the_cancelled_one_is_cancelled() -> None:
    ended: list[int] = []

    async def work(number: int) -> int:
        try:
            await asyncio.sleep(0.05 if number else 30)
        finally:
            ended.append(number)
        return number

    tasks = [asyncio.ensure_future(run_on_thread(work(number))) for number in range(20)]
    await asyncio.sleep(0.01)
    tasks[0].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)

    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1:] == list(range(1, 20))
    assert sorted(ended) == list(range(20))


async def cancelled(
    work: Coroutine[Any, Any, object], begun: threading.Event, *messages: str | None
) -> tuple[object, ...]:
    """Cancel who waits for work that has begun, once for each message; return what they hear."""
    waiter = asyncio.ensure_future(run_on_thread(work))
    await asyncio.to_thread(begun.wait)
    for message in messages or (None,):
        waiter.cancel(message)
    with pytest.raises(asyncio.CancelledError) as told:
        await waiter
    return told.value.args


async def test_a_cancelled_waiter_goes_on_only_when_the_coroutine_has_ended() -> None:
    begun, ended = threading.Event(), threading.Event()

    async def slow_to_end() -> int:
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.05)
            ended.set()
        return 0

    await cancelled(slow_to_end(), begun)

    assert ended.is_set()


async def test_a_waiter_hears_the_message_of_who_cancelled_it_first() -> None:
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.sleep(60)

    told = await cancelled(wait(), begun, "the user left", "the shop closed")

    assert told == ("the user left",)


@pytest.mark.parametrize("end", ["value", "error"])
async def test_a_coroutine_that_ends_by_itself_all_the_same_leaves_its_waiter_cancelled(
    end: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun = threading.Event()

    async def stubborn() -> int:
        begun.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        if end == "error":
            raise KeyError("too late")
        return 1

    await cancelled(stubborn(), begun)
    gc.collect()

    assert not caplog.records  # nobody is told of an error that nobody waits for


async def test_a_timeout_of_the_waiter_is_told_as_one() -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.02):
            await run_on_thread(asyncio.sleep(60))


async def test_a_coroutine_that_cancels_itself_is_told_as_that() -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await run_on_thread(give_up())

    task = asyncio.current_task()
    assert task is not None
    assert not task.cancelling()


async def test_work_that_fails_keeps_no_other_from_being_done() -> None:
    loop = asyncio.get_running_loop()
    told: list[object] = []
    loop.set_exception_handler(lambda _loop, context: told.append(context["exception"]))
    post, done = LoopMailbox(loop), []

    def fail() -> None:
        raise KeyError("x")

    for work in (
        lambda: done.append(1),
        fail,
        lambda: done.append(2),
        fail,
        lambda: done.append(3),
    ):
        post.put(work)
    await asyncio.sleep(0.05)
    loop.set_exception_handler(None)

    assert done == [1, 2, 3]
    assert [type(error) for error in told] == [KeyError, KeyError]


async def test_who_waits_can_be_closed() -> None:
    waiting = run_on_thread(answer())
    waiting.send(None)

    waiting.close()

    assert run_blocking(answer()) == 42


def test_a_loop_that_is_closed_takes_nothing_ever() -> None:
    loop = asyncio.new_event_loop()
    post = LoopMailbox(loop)
    loop.close()

    for _ in range(2):
        with pytest.raises(RuntimeError):
            post.put(lambda: None)
