"""Runs scripts in the host's own process, for trusted scripts and tests: a crash ends both."""

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable, Coroutine, Mapping
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from skillpouch.runtime.extras import require_extra
from skillpouch.runtime.idle_threads import run_in_idle_thread
from skillpouch.runtime.loop_thread import background_loop
from skillpouch.shell.engine import Job
from skillpouch.shell.status import Stopped
from skillpouch.shell.worker.protocol import (
    CommandReply,
    CommandRequest,
    Done,
    OnCommand,
    OnText,
    ScriptRequest,
)

if TYPE_CHECKING:  # it imports the engine, which is an extra
    from skillpouch.shell.worker.script import Immediate, Shell

Value = TypeVar("Value")

is_immediate: ContextVar[bool] = ContextVar("skillpouch_is_immediate", default=False)


def run_now(work: Coroutine[Any, Any, Value], context: Context) -> Value:
    """Run what never waits, in a copy of a context, and return its value."""
    return context.copy().run(_send, work, immediate=True)


def run_blocked(work: Coroutine[Any, Any, Value]) -> Value:
    """Run on this thread, in its context, what waits only by blocking it; return its value."""
    return _send(work, immediate=False)


def _send(work: Coroutine[Any, Any, Value], *, immediate: bool) -> Value:
    is_immediate.set(immediate)
    try:
        work.send(None)
    except StopIteration as end:
        value: Value = end.value
        return value
    work.close()
    raise RuntimeError("a coroutine that must not wait has waited")


class BegunScript:
    """A script on a thread of its own, for a thread that waits for it and does nothing else.

    All that touches the engine happens there: it may not be asked for anything by a thread on
    which it is running already, and who waits for this script may well be a command of another.
    """

    def __init__(
        self, order: ScriptRequest, on_command: OnCommand, on_text: OnText, immediate: "Immediate"
    ) -> None:
        self._making = (order, on_command, immediate)
        self._on_text = on_text
        self._shell: Shell | None = None
        self._cancelled = False
        self._ended: Done | BaseException | None = None

    def begin(self, loop: asyncio.AbstractEventLoop, tell: Callable[[], None]) -> None:
        """Begin; `tell` is called when it is over. A command that was hidden waits on the loop."""

        def run() -> None:
            try:
                self._ended = self._run(loop)
            except BaseException as error:  # noqa: BLE001 - raised where the end is waited for
                self._ended = error
            tell()
            if self._shell is not None:
                self._shell.leave()  # while somebody reads what it gave

        self._making[2].in_thread(run)

    def _run(self, loop: asyncio.AbstractEventLoop) -> Done:
        from skillpouch.shell.worker.script import Shell

        self._shell = shell = Shell(*self._making, loop)
        if self._cancelled:
            shell.cancel()
        return shell.run_alone(self._on_text)

    def cancel(self) -> None:
        """End it, and begin no command of it any more."""
        self._cancelled = True
        if self._shell is not None:
            self._shell.cancel()

    def end(self) -> Done:
        """Return how it ended, when it is over."""
        if isinstance(self._ended, BaseException):
            raise self._ended
        assert self._ended is not None
        return self._ended


class InprocEngine:
    """Runs scripts on the caller's loop: no process, and no protection from the engine."""

    protections: Mapping[str, str] = {}

    def __init__(self) -> None:
        require_extra("bash")

    async def run(self, job: Job) -> Done:
        from skillpouch.shell.worker.script import run_script

        on_command, immediate = self._answering(job)
        return await run_script(job.order, on_command, job.on_text, immediate)

    def begin(self, job: Job, tell: Callable[[], None]) -> "BegunScript":
        """Begin a script on a thread of its own, which calls `tell` when it is over."""
        on_command, immediate = self._answering(job)
        script = BegunScript(job.order, on_command, job.on_text, immediate)
        script.begin(background_loop(), tell)
        return script

    def _answering(self, job: Job) -> "tuple[OnCommand, Immediate]":
        from skillpouch.shell.worker.script import Immediate

        context = contextvars.copy_context()

        async def on_command(command: CommandRequest) -> CommandReply:
            # The engine calls from a context of its own, which knows of no call above this one.
            for variable, value in context.items():
                variable.set(value)
            return await job.on_command(command)

        def answer_now(command: CommandRequest) -> CommandReply:
            return run_now(job.on_command(command), context)

        return on_command, Immediate(job.immediate, answer_now, run_in_idle_thread)

    async def analyze(self, script: str) -> Mapping[str, Any]:
        from skillpouch.shell.worker.reading import analyze_script

        return analyze_script(script)


# What ends the wait for a script: its own end, said as "", or why it is to be stopped.
Words = queue.SimpleQueue[Stopped]

# Ctrl-C that comes in the moment before a thread begins to wait does not wake it.
_LOOK_SECONDS = 0.5


class Aside(Generic[Value]):
    """One piece of work that waits only by blocking its thread."""

    def __init__(self, work: Callable[[], Coroutine[Any, Any, Value]], words: Words) -> None:
        self._work = work
        self._words = words
        self._context = contextvars.copy_context()
        self._taken = threading.Lock()  # by who begins the work, or by who no longer wants it
        self._is_over = False
        self._closed = threading.Lock()  # opened at the end: half of what an Event costs
        self._closed.acquire()
        self._value: list[Value] = []
        self._error: BaseException | None = None

    def run(self) -> Value:
        """Return what the work gives. Ctrl-C cancels it, and is raised when it has ended."""
        try:
            run_in_idle_thread(lambda: self._context.run(self._do))
            self._wait()
        except BaseException:
            if not self._taken.acquire(blocking=False):
                self._words.put("cancelled")
                self._wait()
            raise
        if self._error is not None:
            try:
                raise self._error
            finally:
                del self._error  # it must not hold what holds itself
        return self._value[0]

    def _do(self) -> None:
        if not self._taken.acquire(blocking=False):
            return
        try:
            self._value.append(run_blocked(self._work()))
        except BaseException as error:  # noqa: BLE001 - raised where it is waited for
            self._error = error
        self._is_over = True
        self._closed.release()

    def _wait(self) -> None:
        while not self._is_over:
            self._closed.acquire(timeout=_LOOK_SECONDS)
