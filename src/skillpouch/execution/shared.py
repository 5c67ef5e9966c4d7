"""The engine of this process: one, on the loop thread, whoever calls from wherever."""

import asyncio
from pathlib import Path
from typing import Literal

from skillpouch.execution.call import OnOutput
from skillpouch.execution.command import Command, Ended
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine
from skillpouch.runtime.loop_thread import is_loop_thread, run_on_thread

_engine = Engine()


async def run_command(
    command: Command, confinement: Confinement, on_output: OnOutput | None = None
) -> Ended:
    """Run one command from any event loop; `on_output` is called on the caller's loop.

    What `on_output` raises ends the call, and is raised here.
    """
    if on_output is None or is_loop_thread():
        return await run_on_thread(_engine.run(command, confinement, on_output))
    relay = _Relay(on_output)
    relay.running = asyncio.ensure_future(
        run_on_thread(_engine.run(command, confinement, relay.forward))
    )
    try:
        return await relay.running
    except asyncio.CancelledError:
        relay.running.cancel()
        if relay.error is None:
            raise
        raise relay.error from None


async def end_programs_in(workspace: Path) -> None:
    """End the processes that wait for calls in a workspace; return when they are gone."""
    await run_on_thread(_engine.forget(workspace))


class _Relay:
    """Carries output from the loop thread to the loop of the caller."""

    def __init__(self, on_output: OnOutput) -> None:
        self.running: asyncio.Future[Ended] | None = None
        self.error: Exception | None = None
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()

    def forward(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        self._loop.call_soon_threadsafe(self._deliver, stream, data)

    def _deliver(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        if self.error is not None:
            return
        try:
            self._on_output(stream, data)
        except Exception as error:  # noqa: BLE001 - it is the caller's, and goes back to the caller
            self.error = error
            if self.running is not None:
                self.running.cancel()
