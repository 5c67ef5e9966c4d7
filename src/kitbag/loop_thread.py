"""Blocking calls over one background event loop: inside a running loop, after fork, on Ctrl-C."""

import asyncio
import atexit
import contextlib
import contextvars
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Value = TypeVar("Value")

_JOIN_SECONDS = 5.0


class LoopThread:
    """An event loop on a daemon thread of its own, started when first needed."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._serve, name="kitbag-loop", daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(_cancel_others())
        self.loop.close()

    def stop(self) -> None:
        """Cancel what is running, so that its processes end, and leave the thread."""
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(_JOIN_SECONDS)


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class _Running:
    """The loop thread of this process; a forked child starts without one."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        # The lock too: another thread may have held it at the moment of the fork.
        self.lock = threading.Lock()
        self.current: LoopThread | None = None

    def get(self) -> LoopThread:
        with self.lock:
            if self.current is None or not self.current.thread.is_alive():
                self.current = LoopThread()
            return self.current

    def stop(self) -> None:
        with self.lock:
            if self.current is not None:
                self.current.stop()
                self.current = None


_running = _Running()
os.register_at_fork(after_in_child=_running.forget)
atexit.register(_running.stop)


def run_blocking(coroutine: Coroutine[Any, Any, Value]) -> Value:
    """Run a coroutine on the loop thread and return its result to this thread.

    An exception in the waiting thread, such as KeyboardInterrupt, cancels the coroutine and is
    raised once that has ended.
    """
    thread = _running.get()
    if threading.current_thread() is thread.thread:
        coroutine.close()
        raise RuntimeError("a blocking call on Kitbag's own loop; await the async method instead")
    result: Future[Value] = Future()
    context = contextvars.copy_context()
    tasks: list[asyncio.Task[Value]] = []

    def start() -> None:
        task = thread.loop.create_task(coroutine, context=context)
        tasks.append(task)
        task.add_done_callback(lambda done: _settle(done, result))

    def cancel() -> None:
        if tasks:
            tasks[0].cancel()
        else:  # interrupted before it was handed over
            coroutine.close()
            result.cancel()

    try:
        thread.loop.call_soon_threadsafe(start)
        return result.result()
    except BaseException:
        if not result.done():
            thread.loop.call_soon_threadsafe(cancel)
            _wait(result)
        raise


def is_loop_thread() -> bool:
    """Tell whether this code runs on the loop thread."""
    return threading.current_thread() is _running.get().thread


async def run_on_thread(coroutine: Coroutine[Any, Any, Value]) -> Value:
    """Run a coroutine on the loop thread and wait for it on this loop.

    Cancelling the waiter cancels the coroutine, and the waiter goes on only when it has ended.
    """
    thread = _running.get()
    loop = asyncio.get_running_loop()
    if loop is thread.loop:
        return await coroutine
    result: asyncio.Future[Value] = loop.create_future()
    context = contextvars.copy_context()
    tasks: list[asyncio.Task[Value]] = []

    def start() -> None:
        task = thread.loop.create_task(coroutine, context=context)
        tasks.append(task)
        task.add_done_callback(lambda done: _tell(loop, done, result))

    def cancel() -> None:
        tasks[0].cancel()  # there by now: what was handed over earlier runs earlier

    thread.loop.call_soon_threadsafe(start)
    cancelled: asyncio.CancelledError | None = None
    while not result.done():
        try:
            await asyncio.wait([result])
        except asyncio.CancelledError as error:
            cancelled = error
            thread.loop.call_soon_threadsafe(cancel)
    if cancelled is not None:
        raise cancelled
    return result.result()


def _tell(
    loop: asyncio.AbstractEventLoop, task: "asyncio.Task[Value]", result: "asyncio.Future[Value]"
) -> None:
    # A loop that was closed meanwhile has nobody left who waits.
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(_settle, task, result)


def _settle(task: "asyncio.Task[Value]", result: "Future[Value] | asyncio.Future[Value]") -> None:
    if task.cancelled() and isinstance(result, asyncio.Future):
        result.cancel()
    elif task.cancelled():
        result.set_exception(asyncio.CancelledError())
    elif (error := task.exception()) is not None:
        result.set_exception(error)
    else:
        result.set_result(task.result())


def _wait(result: "Future[Any]") -> None:
    """Wait for the end of a cancelled coroutine; its outcome no longer matters."""
    done = threading.Event()
    result.add_done_callback(lambda _: done.set())
    done.wait()
