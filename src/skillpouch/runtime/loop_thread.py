"""Runs blocking calls on one background event loop: inside a loop, after a fork, on Ctrl-C."""

import asyncio
import atexit
import contextlib
import contextvars
import os
import signal
import socket
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary, ref

Value = TypeVar("Value")


class UncancellableFuture(asyncio.Future[Value]):
    """A future whose waiter, when cancelled, goes on waiting until the work has really ended.

    `on_cancel` makes the work end sooner. `asyncio.shield` would cost a second future and one more
    turn of the loop.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, on_cancel: Callable[[], object] | None = None
    ) -> None:
        super().__init__(loop=loop)
        self.on_cancel = on_cancel
        self.is_unwanted = False
        self._message: Any = None

    def cancel(self, msg: Any = None) -> bool:
        """Note that the waiting task is cancelled, and call `on_cancel`; True until the end.

        CancelledError is not raised now: whoever ends the work calls `end_cancelled`.
        """
        if self.on_cancel is None or self.done():
            return super().cancel(msg)
        self._message = msg if self._message is None else self._message
        self.is_unwanted = True
        self.on_cancel()
        return True

    def end_cancelled(self) -> None:
        """Raise CancelledError in the waiting task."""
        super().cancel(self._message)

    def cancellation(self) -> asyncio.CancelledError:
        """Return the error to raise in the waiting task, with the message of the first cancel."""
        return asyncio.CancelledError(*(() if self._message is None else (self._message,)))


_JOIN_SECONDS = 5.0


class LoopMailbox:
    """Hands work to a loop from other threads; work that has piled up costs one wake-up.

    Waking a loop is a system call that also hands over the interpreter lock: with hundreds of calls
    at once, both threads would do little else.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = ref(loop)
        self._work: deque[Callable[[], object]] = deque()
        self._is_asked = False

    def put(self, work: Callable[[], object]) -> None:
        """Have `work` called soon, after earlier work; raise RuntimeError on a closed loop."""
        self._work.append(work)
        if not self._is_asked:
            self._ask()

    def _ask(self) -> None:
        self._is_asked = True
        loop = self._loop()
        if loop is None:
            return  # the loop is gone, and with it everybody who waited there
        try:
            loop.call_soon_threadsafe(self._take)
        except RuntimeError:
            self._is_asked = False
            self._work.clear()
            raise

    def _take(self) -> None:
        # Cleared before the queue is read: work that is put from now on must ask again.
        self._is_asked = False
        try:
            while self._work:
                self._work.popleft()()
        finally:
            if self._work:
                self._ask()  # one of them raised: the loop reports it, and the others run next


class SignalRelay:
    """Wakes the main thread for a signal while it waits for the loop thread.

    Only the main thread runs Python's signal handlers, but the kernel hands a signal to any thread
    (signal(7)): the lock that the main thread sleeps in is then not interrupted. The C part of
    every handler writes the number of the signal to a descriptor, whichever thread it ran in; the
    loop thread reads it, and wakes the main thread for a moment.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        self._wake: Callable[[], None] | None = None
        self._before = -1
        loop.add_reader(self._reading, self._pass_on)

    @contextlib.contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Have `wake` called on the loop thread for each signal. Call this on the main thread."""
        before = self._wake, self._before
        previous = signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
        own = previous == self._writing.fileno()  # a signal handler made a blocking call itself
        self._wake, self._before = wake, self._before if own else previous
        try:
            yield
        finally:
            signal.set_wakeup_fd(previous, warn_on_full_buffer=False)
            self._wake, self._before = before

    def _pass_on(self) -> None:
        numbers = self._reading.recv(4096)
        wake, before = self._wake, self._before
        if wake is not None:
            wake()
        if before != -1:  # there is another listener, such as asyncio on the main thread
            with contextlib.suppress(OSError):
                os.write(before, numbers)

    def close(self) -> None:
        """Close the descriptors. Called on the loop thread, after its loop has ended."""
        self._reading.close()
        self._writing.close()


class LoopThread:
    """An event loop on a daemon thread of its own, started when first needed."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.post = LoopMailbox(self.loop)
        self.signals = SignalRelay(self.loop)
        self.thread = threading.Thread(target=self._serve, name="skillpouch-loop", daemon=True)
        self.thread.start()

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        self.loop.run_until_complete(_cancel_others())
        self.loop.close()
        self.signals.close()

    def stop(self) -> None:
        """Cancel what is running, so that its processes end, and wait for the thread."""
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
        # A new lock, too: another thread may have held the old one at the moment of the fork.
        self.lock = threading.Lock()
        self.current: LoopThread | None = None
        self.posts: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopMailbox] = WeakKeyDictionary()

    def post_to(self, loop: asyncio.AbstractEventLoop) -> LoopMailbox:
        """Return the one mailbox of a loop that waits for the loop thread."""
        found = self.posts.get(loop)
        if found is None:
            found = self.posts[loop] = LoopMailbox(loop)
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

    An exception in the waiting thread, such as KeyboardInterrupt, cancels the coroutine, and is
    raised when the coroutine has ended.
    """
    thread = _running.get()
    if threading.current_thread() is thread.thread:
        coroutine.close()
        raise RuntimeError(
            "a blocking call on Skillpouch's own loop; await the async method instead"
        )
    ending: _Ending[Value] = _Ending()
    context = contextvars.copy_context()

    def start() -> None:
        ending.begin(thread.loop.create_task(coroutine, context=context))

    def cancel() -> None:
        if ending.task is not None:
            ending.task.cancel()
        else:  # interrupted before `start` ran
            coroutine.close()
            ending.come()

    is_main = threading.current_thread() is threading.main_thread()
    with thread.signals.waking(ending.wake) if is_main else contextlib.nullcontext():
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
    """Waits on another thread for the end of a task: a bare lock costs half as much as a Future."""

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
        self.wake()

    def wake(self) -> None:
        """Wake the waiting thread, so that its signal handlers run. Called on the loop thread."""
        if self._closed.locked():
            self._closed.release()

    def wait(self) -> None:
        """Wait until the task has ended; Ctrl-C interrupts this."""
        while not self.is_there:
            self._closed.acquire()

    def value(self) -> Value:
        task, self.task = self.task, None
        assert task is not None
        try:
            return task.result()
        finally:
            del task  # the traceback of an error would refer to the task, and the task to the error


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
        tasks[0].cancel()  # the task exists by now: `start` was put earlier

    result: UncancellableFuture[Value] = UncancellableFuture(loop, lambda: thread.post.put(cancel))
    thread.post.put(start)
    return await result


def _tell(
    post: LoopMailbox, task: "asyncio.Task[Value]", result: UncancellableFuture[Value]
) -> None:
    # On a loop that was closed meanwhile, nobody waits any more.
    with contextlib.suppress(RuntimeError):
        post.put(lambda: _settle(task, result))


def _settle(task: "asyncio.Task[Value]", result: UncancellableFuture[Value]) -> None:
    error = None if task.cancelled() else task.exception()
    if task.cancelled() or result.is_unwanted:
        result.end_cancelled()
    elif error is not None:
        result.set_exception(error)
    else:
        result.set_result(task.result())
