"""Takes requests from the host one at a time, and forwards the commands of a script to it."""

from __future__ import annotations

import asyncio
import os
import select
import socket
import sys
import threading
from itertools import count
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from skillpouch.shell.worker.frames import FrameError, Frames, frame
from skillpouch.shell.worker.protocol import CommandReply, CommandRequest, Done, ScriptRequest
from skillpouch.shell.worker.reading import analyze_script
from skillpouch.shell.worker.script import Immediate, is_serial, run_script

if TYPE_CHECKING:
    from collections.abc import Callable


# Only Linux tells when one half of a socket is closed; that both are is always told.
_HOST_IS_GONE = getattr(select, "POLLRDHUP", 0)
_STACK_BYTES = 256 * 1024 * 1024  # as the engine's own threads have it: scripts nest deeply


class ScriptThread:
    """Runs work on one thread; whoever has it run waits, and ends the process with its host.

    The end of the host's socket is seen without reading it: what is there to be read are answers,
    and they are for the script.
    """

    def __init__(self, line: int) -> None:
        self._work: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._done, self._tell = os.pipe()
        self._events = select.poll()
        self._events.register(line, _HOST_IS_GONE)
        self._events.register(self._done, select.POLLIN)
        before = threading.stack_size(_STACK_BYTES)
        threading.Thread(target=self._serve, daemon=True).start()
        threading.stack_size(before)

    def run(self, work: Callable[[], None]) -> None:
        """Return when the work is done."""
        self._work.put(work)
        ready = [number for number, _ in self._events.poll()]
        if self._done not in ready:
            os._exit(0)  # the host is gone: nobody wants it done
        os.read(self._done, 1)

    def _serve(self) -> None:
        while True:
            work = self._work.get()
            try:
                work()
            except BaseException:  # noqa: BLE001 - whatever it is
                os._exit(1)  # the host sees that this worker is gone, and takes the next
            os.write(self._tell, b".")


def seal(engine: str) -> dict[str, str]:
    """Give up what a worker does not need, as far as this system can; return what holds it."""
    held: dict[str, str] = {}
    if sys.platform != "linux" or os.uname().machine not in ("x86_64", "aarch64"):
        return held
    from skillpouch.execution.zygote import kernel, landlock, seccomp

    kernel.forbid_new_privileges()
    kernel.hide_from_peers()
    abi = landlock.version()
    if abi:
        # Only what Python may still want to import; to run a program is allowed nowhere.
        readable = [*(path for path in sys.path if os.path.isdir(path)), engine]
        landlock.restrict(landlock.ruleset(abi, [(path, "read") for path in readable], "none"))
        held["fs"] = "landlock"
    machine = os.uname().machine
    table = seccomp.arms("none", (os.getppid(),), shared_pids=True)
    try:
        seccomp.install(machine, seccomp.assemble(machine, table))
    except OSError:
        return held
    return held | {"net": "seccomp"}


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
        self._waiting: dict[int, asyncio.Future[CommandReply]] = {}
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
        order = ScriptRequest.unpacked(fields)
        self._numbers = count(1)
        if is_serial(order) and not self._writer.transport.get_write_buffer_size():
            done = await self._run_alone(order)
        else:
            done = await self._run_beside(order)
        self._finish(done)
        self._rest()

    async def _run_beside(self, order: ScriptRequest) -> Done:
        """Run a script whose commands may wait for each other, on the loop."""
        loop = asyncio.get_running_loop()

        def on_text(stdout: str, stderr: str) -> None:
            # A thread of the engine says this, and a writer belongs to the thread of its loop.
            loop.call_soon_threadsafe(self._writer.write, _text_frame(stdout, stderr))

        return await run_script(order, self._ask, on_text)

    async def _run_alone(self, order: ScriptRequest) -> Done:
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

    def _ask_now(self, command: CommandRequest) -> CommandReply:
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

    async def _ask(self, command: CommandRequest) -> CommandReply:
        number = next(self._numbers)
        waiting: asyncio.Future[CommandReply] = asyncio.get_running_loop().create_future()
        self._waiting[number] = waiting
        self._send(type="command", id=number, **command._asdict())
        return await waiting

    def _rest(self) -> None:
        self._idle = asyncio.get_running_loop().call_later(_IDLE_SECONDS, os._exit, 0)

    def _send(self, **value: Any) -> None:
        self._writer.write(frame(value))


def _answer(value: dict[str, Any]) -> CommandReply:
    return CommandReply(value["stdout"], value["stderr"], value["exit_code"], tuple(value["new"]))


def _text_frame(stdout: str, stderr: str) -> bytes:
    return frame({"type": "text", "stdout": stdout, "stderr": stderr})


async def _warm_up() -> None:
    """Run a script of our own: the first one of a process takes ten times as long as the next."""

    async def nobody(_command: CommandRequest) -> CommandReply:
        return CommandReply()

    order = ScriptRequest("true | jq -n 1 > /dev/null; x", ("x",))
    await run_script(order, nobody, lambda _out, _err: None)
    analyze_script("x")


def _end_with_error(task: asyncio.Task[None]) -> None:
    if task.cancelled() or task.exception() is not None:
        os._exit(1)  # the host sees that this worker is gone, and takes the next
