"""Takes orders from the host, one at a time, and forwards every command of a script to it."""

from __future__ import annotations

import asyncio
import os
import socket
from itertools import count
from typing import Any

from skillpouch.shell.worker.frames import FrameError, Frames, frame
from skillpouch.shell.worker.order import Answer, Command, Done, Order
from skillpouch.shell.worker.reading import analyze_script
from skillpouch.shell.worker.script import Immediate, is_serial, run_script
from skillpouch.shell.worker.script_thread import ScriptThread
from skillpouch.shell.worker.seal import seal

_PIECE = 262_144
_IDLE_SECONDS = 300.0  # nobody has asked for anything: the host starts another when it needs one


def serve(number: int, engine: str) -> None:
    """Serve the host at the other end of a socket until it closes it; never returns."""
    line = socket.socket(fileno=number)
    asyncio.run(_Server(line, seal(engine)).serve())


class _Server:
    def __init__(self, line: socket.socket, protections: dict[str, str]) -> None:
        self._line = line
        self._protections = protections
        self._waiting: dict[int, asyncio.Future[Answer]] = {}
        self._numbers = count(1)
        self._frames = Frames()
        self._thread: ScriptThread | None = None
        self._order: asyncio.Task[None] | None = None
        self._idle: asyncio.TimerHandle | None = None

    async def serve(self) -> None:
        reader, self._writer = await asyncio.open_connection(sock=self._line)
        await _warm_up()
        self._send(type="ready", protections=self._protections)
        self._rest()
        while data := await reader.read(_PIECE):
            for value in self._frames.feed(data):
                self._take(value)
        os._exit(0)

    def _take(self, value: dict[str, Any]) -> None:
        kind = value.pop("type")
        if kind == "answer":
            waiting = self._waiting.pop(value["id"])
            if not waiting.done():
                waiting.set_result(_answer(value))
            return
        if self._idle is not None:
            self._idle.cancel()
        work = self._run(value) if kind == "run" else self._analyze(value)
        self._order = asyncio.get_running_loop().create_task(work)
        self._order.add_done_callback(_end_with_error)

    async def _run(self, fields: dict[str, Any]) -> None:
        order = Order.unpacked(fields)
        self._numbers = count(1)
        if is_serial(order) and not self._writer.transport.get_write_buffer_size():
            done = await self._run_alone(order)
        else:
            done = await self._run_beside(order)
        self._finish(done)
        self._rest()

    async def _run_beside(self, order: Order) -> Done:
        """Run a script whose commands may wait for each other, on the loop."""
        loop = asyncio.get_running_loop()

        def on_text(stdout: str, stderr: str) -> None:
            # A thread of the engine says this, and a writer belongs to the thread of its loop.
            loop.call_soon_threadsafe(self._writer.write, _text_frame(stdout, stderr))

        return await run_script(order, self._ask, on_text)

    async def _run_alone(self, order: Order) -> Done:
        """Run a script that does one thing after the other, without the loop: half the time."""
        self._thread = self._thread or ScriptThread(self._line.fileno())
        immediate = Immediate(frozenset(order.commands), self._ask_now, self._thread.run)
        self._line.setblocking(True)
        try:
            return await run_script(order, self._ask, self._say_now, immediate)
        finally:
            self._line.setblocking(False)

    def _say_now(self, stdout: str, stderr: str) -> None:
        self._line.sendall(_text_frame(stdout, stderr))

    def _ask_now(self, command: Command) -> Answer:
        number = next(self._numbers)
        self._line.sendall(frame({"type": "command", "id": number, **command._asdict()}))
        while data := self._line.recv(_PIECE):
            for value in self._frames.feed(data):
                return _answer(value)
        os._exit(0)

    def _finish(self, done: Done) -> None:
        try:
            self._send(type="done", **done.packed())
        except FrameError:
            self._send(type="done", **done._replace(state=None, files={}).packed())

    async def _analyze(self, fields: dict[str, Any]) -> None:
        self._send(type="analysis", **analyze_script(fields["script"]))
        self._rest()

    async def _ask(self, command: Command) -> Answer:
        number = next(self._numbers)
        waiting: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        self._send(type="command", id=number, **command._asdict())
        return await waiting

    def _rest(self) -> None:
        self._idle = asyncio.get_running_loop().call_later(_IDLE_SECONDS, os._exit, 0)

    def _send(self, **value: Any) -> None:
        self._writer.write(frame(value))


def _answer(value: dict[str, Any]) -> Answer:
    return Answer(value["stdout"], value["stderr"], value["exit_code"], tuple(value["new"]))


def _text_frame(stdout: str, stderr: str) -> bytes:
    return frame({"type": "text", "stdout": stdout, "stderr": stderr})


async def _warm_up() -> None:
    """Run a script of our own: the first one of a process takes ten times as long as the next."""

    async def nobody(_command: Command) -> Answer:
        return Answer()

    order = Order("true | jq -n 1 > /dev/null; x", ("x",))
    await run_script(order, nobody, lambda _out, _err: None)
    analyze_script("x")


def _end_with_error(task: asyncio.Task[None]) -> None:
    if task.cancelled() or task.exception() is not None:
        os._exit(1)  # the host sees that this worker is gone, and takes the next
