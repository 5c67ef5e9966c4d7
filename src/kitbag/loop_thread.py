"""Blocking calls over one background event loop: inside a running loop, after fork, on Ctrl-C."""

import asyncio
import atexit
import contextlib
import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary, ref

from kitbag.outlasting import Outlasting

Value = TypeVar("Value")

_JOIN_SECONDS = 5.0


class Post:
    """Hands work to a loop from other threads; all that is there when it looks costs one wake-up.

    To wake a loop is a system call at which the thread lets others run: with hundreds of calls
    at once both threads would do little else.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)
        self._work: deque[Callable[[], object]] = deque()
        self._is_asked = False

    def put(self, work: Callable[[], object]) -> None:
        """Have something done soon, after what was put before; RuntimeError on a closed loop."""
        self._work.append(work)
        if not self._is_asked:
            self._ask()

    def _ask(self) -> None:
        self._is_asked = True
        loop = self._loop()
        if loop is None:
            return  # and so has everybody who waited there
        try:
            loop.call_soon_threadsafe(self._take)
        except RuntimeError:
            self._is_asked = False
            self._work.clear()
            raise

    def _take(self) -> None:
        # Before looking: what is put from now on asks again.
        self._is_asked = False
        try:
            while self._work:
                self._work.popleft()()
        finally:
            if self._work:
                self._ask()  # one of them failed: the loop tells of it, and the others come next


class LoopThread:
    """An event loop on a daemon thread of its own, started when first needed."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.post = Post(self.loop)
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
        self.posts: WeakKeyDictionary[asyncio.AbstractEventLoop, Post] = WeakKeyDictionary()

    def post_to(self, loop: asyncio.AbstractEventLoop) -> Post:
        """Return the one way to a loop that waits for ours."""
        found = self.posts.get(loop)
        if found is None:
            found = self.posts[loop] = Post(loop)
        return found

    def get(self) -> LoopThread:
        current = self.current
        if current is not None and current.loop.is_running():
            return current
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
    ending: _Ending[Value] = _Ending()
    context = contextvars.copy_context()

    def start() -> None:
        ending.begin(thread.loop.create_task(coroutine, context=context))

    def cancel() -> None:
        if ending.task is not None:
            ending.task.cancel()
        else:  # interrupted before it was handed over
            coroutine.close()
            ending.come()

    try:
        thread.loop.call_soon_threadsafe(start)
        ending.wait()
    except BaseException:
        if not ending.is_there:
            thread.loop.call_soon_threadsafe(cancel)
            ending.wait()
        raise
    return ending.value()


class _Ending(Generic[Value]):
    """The end of a task, waited for on another thread: a bare lock costs half of a Future."""

    def __init__(self) -> None:
        self.task: asyncio.Task[Value] | None = None
        self.is_there = False
        self._closed = threading.Lock()
        self._closed.acquire()

    def begin(self, task: "asyncio.Task[Value]") -> None:
        self.task = task
        task.add_done_callback(lambda _: self.come())

    def come(self) -> None:
        self.is_there = True
        self._closed.release()

    def wait(self) -> None:
        """Wait until it is there; Ctrl-C comes through."""
        self._closed.acquire()

    def value(self) -> Value:
        task, self.task = self.task, None
        assert task is not None
        try:
            return task.result()
        finally:
            del task  # an error that is raised here must not hold what holds itself


def background_loop() -> asyncio.AbstractEventLoop:
    """Return the loop of the loop thread."""
    return _running.get().loop


def is_loop_thread() -> bool:
    """Tell whether this code runs on the loop thread."""
    current = _running.current
    return current is not None and threading.current_thread() is current.thread


async def run_on_thread(coroutine: Coroutine[Any, Any, Value]) -> Value:
    """Run a coroutine on the loop thread and wait for it on this loop.

    Cancelling the waiter cancels the coroutine, and the waiter goes on only when it has ended.
    """
    thread = _running.get()
    loop = asyncio.get_running_loop()
    if loop is thread.loop:
        return await coroutine
    context = contextvars.copy_context()
    tasks: list[asyncio.Task[Value]] = []
    post = _running.post_to(loop)

    def start() -> None:
        task = thread.loop.create_task(coroutine, context=context)
        tasks.append(task)
        task.add_done_callback(lambda done: _tell(post, done, result))

    def cancel() -> None:
        tasks[0].cancel()  # there by now: what was put earlier runs earlier

    result: Outlasting[Value] = Outlasting(loop, lambda: thread.post.put(cancel))
    thread.post.put(start)
    return await result


def _tell(post: Post, task: "asyncio.Task[Value]", result: Outlasting[Value]) -> None:
    # A loop that was closed meanwhile has nobody left who waits.
    with contextlib.suppress(RuntimeError):
        post.put(lambda: _settle(task, result))


def _settle(task: "asyncio.Task[Value]", result: Outlasting[Value]) -> None:
    error = None if task.cancelled() else task.exception()
    if task.cancelled() or result.is_unwanted:
        result.end_cancelled()
    elif error is not None:
        result.set_exception(error)
    else:
        result.set_result(task.result())
