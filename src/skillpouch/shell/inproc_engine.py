"""Runs scripts in the host's own process, for trusted scripts and tests: a crash ends both."""

import contextvars
from collections.abc import Coroutine, Mapping
from contextvars import Context, ContextVar
from typing import Any, TypeVar

from skillpouch.runtime.extras import require_extra
from skillpouch.runtime.idle_threads import run_in_idle_thread
from skillpouch.shell.engine import ScriptJob
from skillpouch.shell.worker.protocol import CommandReply, CommandRequest, Done

Value = TypeVar("Value")

# True in a command that is answered on the thread of the engine: it must not wait for a loop.
is_immediate: ContextVar[bool] = ContextVar("skillpouch_is_immediate", default=False)


def run_now(work: Coroutine[Any, Any, Value], context: Context) -> Value:
    """Run a coroutine that never waits, in a copy of a context, and return its value."""
    return context.copy().run(_send, work)


def _send(work: Coroutine[Any, Any, Value]) -> Value:
    is_immediate.set(True)
    try:
        work.send(None)
    except StopIteration as end:
        value: Value = end.value
        return value
    work.close()
    raise RuntimeError("a coroutine that must not wait has waited")


class InprocEngine:
    """Runs scripts on the caller's loop: no process, and no protection from the engine."""

    protections: Mapping[str, str] = {}

    def __init__(self) -> None:
        require_extra("bash")

    async def run(self, job: ScriptJob) -> Done:
        # Here, because it imports the engine, which is an extra.
        from skillpouch.shell.worker.script import Immediate, run_script

        context = contextvars.copy_context()

        async def on_command(command: CommandRequest) -> CommandReply:
            # The engine calls from a context of its own, without the variables of the caller.
            for variable, value in context.items():
                variable.set(value)
            return await job.on_command(command)

        def answer_now(command: CommandRequest) -> CommandReply:
            return run_now(job.on_command(command), context)

        # Plain functions are answered on the thread of the engine: ten of them then take 1.3 times
        # as long as in bashkit's own tool; by way of the loop it was 1.7 (bench/scripted.py).
        immediate = Immediate(job.immediate, answer_now, run_in_idle_thread)
        return await run_script(job.order, on_command, job.on_text, immediate)

    async def analyze(self, script: str) -> Mapping[str, Any]:
        from skillpouch.shell.worker.reading import analyze_script

        return analyze_script(script)
