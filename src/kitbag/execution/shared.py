"""The engine of this process: one, on the loop thread, whoever calls from wherever."""

import asyncio
from functools import partial
from typing import Literal

from kitbag.execution.call import OnOutput
from kitbag.execution.command import Command, Ended
from kitbag.execution.confinement import Confinement
from kitbag.execution.engine import Engine
from kitbag.loop_thread import run_on_thread

_engine = Engine()


async def run_command(
    command: Command, confinement: Confinement, on_output: OnOutput | None = None
) -> Ended:
    """Run one command from any event loop; `on_output` is called on the caller's loop."""
    if on_output is not None:
        on_output = partial(_forward, asyncio.get_running_loop(), on_output)
    return await run_on_thread(_engine.run(command, confinement, on_output))


def _forward(
    loop: asyncio.AbstractEventLoop,
    on_output: OnOutput,
    stream: Literal["stdout", "stderr"],
    data: bytes,
) -> None:
    loop.call_soon_threadsafe(on_output, stream, data)
