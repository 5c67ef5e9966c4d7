"""Scripts in the host's own process: for scripts one trusts, and for tests. A crash is shared."""

import contextvars
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from skillpouch.runtime.idle_threads import run_in_idle_thread
from skillpouch.runtime.loop_thread import background_loop
from skillpouch.shell.engine import Job
from skillpouch.shell.errors import BashMissingError
from skillpouch.shell.immediate import run_now
from skillpouch.shell.worker.order import Answer, Command, Done, OnCommand

if TYPE_CHECKING:
    from skillpouch.shell.begun_script import BegunScript
    from skillpouch.shell.worker.script import Immediate


class InprocEngine:
    """Runs scripts on the caller's loop: no process, and no protection from the engine."""

    protections: Mapping[str, str] = {}

    def __init__(self) -> None:
        _require_engine()

    async def run(self, job: Job) -> Done:
        from skillpouch.shell.worker.script import run_script

        on_command, immediate = self._answering(job)
        return await run_script(job.order, on_command, job.on_text, immediate)

    def begin(self, job: Job, tell: Callable[[], None]) -> "BegunScript":
        """Begin a script on a thread of its own, which calls `tell` when it is over."""
        from skillpouch.shell.begun_script import BegunScript

        on_command, immediate = self._answering(job)
        script = BegunScript(job.order, on_command, job.on_text, immediate)
        script.begin(background_loop(), tell)
        return script

    def _answering(self, job: Job) -> "tuple[OnCommand, Immediate]":
        from skillpouch.shell.worker.script import Immediate

        context = contextvars.copy_context()

        async def on_command(command: Command) -> Answer:
            # The engine calls from a context of its own, which knows of no call above this one.
            for variable, value in context.items():
                variable.set(value)
            return await job.on_command(command)

        def answer_now(command: Command) -> Answer:
            return run_now(job.on_command(command), context)

        return on_command, Immediate(job.immediate, answer_now, run_in_idle_thread)

    async def analyze(self, script: str) -> Mapping[str, Any]:
        from skillpouch.shell.worker.reading import analyze_script

        return analyze_script(script)


def _require_engine() -> None:
    try:
        import bashkit  # noqa: F401
    except ImportError as error:
        raise BashMissingError from error
