"""Scripts in the host's own process: for scripts one trusts, and for tests. A crash is shared."""

import asyncio
import contextvars
from collections.abc import Mapping
from typing import Any

from kitbag.shell.engine import Job
from kitbag.shell.errors import BashMissingError
from kitbag.shell.worker.order import Answer, Command, Done


class InprocEngine:
    """Runs scripts on the caller's loop: no process, and no protection from the engine."""

    protections: Mapping[str, str] = {}

    def __init__(self) -> None:
        _require_engine()

    async def run(self, job: Job) -> Done:
        from kitbag.shell.worker.script import run_script

        context = contextvars.copy_context()

        async def in_context(command: Command) -> Answer:
            # The engine calls from a context of its own, which knows of no call above this one.
            work: Any = job.on_command(command)
            loop = asyncio.get_running_loop()
            answer: Answer = await loop.create_task(work, context=context.copy())
            return answer

        return await run_script(job.order, in_context, job.on_text)

    async def analyze(self, script: str) -> Mapping[str, Any]:
        from kitbag.shell.worker.script import analyze_script

        return analyze_script(script)


def _require_engine() -> None:
    try:
        import bashkit  # noqa: F401
    except ImportError as error:
        raise BashMissingError from error
