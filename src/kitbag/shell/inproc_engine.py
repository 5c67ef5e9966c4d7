"""Scripts in the host's own process: for scripts one trusts, and for tests. A crash is shared."""

import contextvars
from collections.abc import Mapping
from typing import Any

from kitbag.idle_threads import run_in_idle_thread
from kitbag.shell.engine import Job
from kitbag.shell.errors import BashMissingError
from kitbag.shell.immediate import run_now
from kitbag.shell.worker.order import Answer, Command, Done


class InprocEngine:
    """Runs scripts on the caller's loop: no process, and no protection from the engine."""

    protections: Mapping[str, str] = {}

    def __init__(self) -> None:
        _require_engine()

    async def run(self, job: Job) -> Done:
        from kitbag.shell.worker.script import Immediate, run_script

        context = contextvars.copy_context()

        async def on_command(command: Command) -> Answer:
            # The engine calls from a context of its own, which knows of no call above this one.
            for variable, value in context.items():
                variable.set(value)
            return await job.on_command(command)

        def answer_now(command: Command) -> Answer:
            return run_now(job.on_command(command), context)

        immediate = Immediate(job.immediate, answer_now, run_in_idle_thread)
        return await run_script(job.order, on_command, job.on_text, immediate)

    async def analyze(self, script: str) -> Mapping[str, Any]:
        from kitbag.shell.worker.reading import analyze_script

        return analyze_script(script)


def _require_engine() -> None:
    try:
        import bashkit  # noqa: F401
    except ImportError as error:
        raise BashMissingError from error
