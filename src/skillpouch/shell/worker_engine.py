"""Runs scripts in worker processes: a crash of one never ends the host."""

import asyncio
import contextvars
import signal
from collections.abc import Mapping
from typing import Any

from skillpouch.shell.engine import Crash, EngineCrashedError, ScriptJob
from skillpouch.shell.worker.frames import FrameError
from skillpouch.shell.worker.protocol import CommandReply, CommandRequest, Done, ScriptRequest
from skillpouch.shell.worker_pool import DEFAULT_MEMORY_BYTES, Worker, Workers


class WorkerEngine:
    """Runs each script in an idle worker process or a new one; a crash ends only that process."""

    def __init__(self, memory_bytes: int = DEFAULT_MEMORY_BYTES) -> None:
        self._workers = Workers(memory_bytes)
        self.protections: Mapping[str, str] = {"process": "worker"}

    async def run(self, job: ScriptJob) -> Done:
        """Run a script; when this returns or raises, nothing of it is running."""
        talk = _Talk(self._workers.take(), job)
        done: Done = await self._held(talk, {"type": "run", **job.order.packed()})
        return done

    async def analyze(self, script: str) -> Mapping[str, Any]:
        """Read a script in a worker, too: to read a hostile one may crash the engine."""
        job = ScriptJob(
            order=ScriptRequest(script), on_command=_nobody, on_text=lambda _out, _err: None
        )
        talk = _Talk(self._workers.take(), job)
        found: dict[str, Any] = await self._held(talk, {"type": "analyze", "script": script})
        return found

    async def _held(self, talk: "_Talk", order: dict[str, Any]) -> Any:
        worker = talk.worker
        try:
            ending = await talk.hold(order)
        except BaseException:
            await asyncio.shield(_in_thread(worker.helper.end))
            raise
        if isinstance(ending, Crash):
            raise EngineCrashedError(await _autopsy(worker, ending))
        self.protections = {"process": "worker", **worker.protections}
        worker.scripts += 1
        peak = ending.peak_bytes if isinstance(ending, Done) else 0
        if not worker.is_fit(peak) or not self._workers.give_back(worker):
            await _in_thread(worker.helper.end)
        return ending

    def close(self) -> None:
        """End the workers that are idle."""
        self._workers.close()


class _Talk:
    """One request and all messages until its end. What the worker sends is not trusted."""

    def __init__(self, worker: Worker, job: ScriptJob) -> None:
        self.worker = worker
        self._job = job
        self._names = set(job.order.commands)
        self._last = 0
        self._answers: set[asyncio.Task[None]] = set()
        self._context = contextvars.copy_context()

    async def hold(self, order: dict[str, Any]) -> Done | dict[str, Any] | Crash:
        self._asked = order["type"]
        loop = asyncio.get_running_loop()
        self._ending: asyncio.Future[Done | dict[str, Any] | Crash] = loop.create_future()
        channel = self.worker.channel
        channel.attach(self._hear, self._hear_end)
        try:
            channel.send(order)
            return await self._ending
        finally:
            channel.detach()
            for answer in self._answers:
                answer.cancel()
            await asyncio.gather(*self._answers, return_exceptions=True)

    def _hear(self, value: dict[str, Any]) -> None:
        try:
            self._take(value)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            self._settle(Crash(reason=f"the worker sent an invalid message: {error}"))

    def _take(self, value: dict[str, Any]) -> None:
        match value.pop("type"):
            case "text":
                self._job.on_text(_text(value["stdout"]), _text(value["stderr"]))
            case "command":
                self._begin(value)
            case "done" if self._asked == "run":
                self._settle(_checked(Done.unpacked(value)))
            case "analysis" if self._asked == "analyze":
                self._settle(value)
            case "ready":
                self.worker.protections = {str(k): str(v) for k, v in value["protections"].items()}
            case unknown:
                raise ValueError(f"{unknown!r:.40}")

    def _begin(self, value: dict[str, Any]) -> None:
        number, name, words = value["id"], value["name"], value["words"]
        if number != self._last + 1 or name not in self._names:
            raise ValueError(f"command {number!r:.20} {name!r:.40}")
        self._last = number
        stdin = None if value["stdin"] is None else _text(value["stdin"])
        command = CommandRequest(name, tuple(_text(word) for word in words), stdin)
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._answer(number, command), context=self._context.copy())
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, number: int, command: CommandRequest) -> None:
        answer = await self._job.on_command(command)
        self._names.update(answer.new)
        try:
            self.worker.channel.send({"type": "answer", "id": number, **answer._asdict()})
        except FrameError:
            said = f"{command.name}: its answer is too long for a pipe\n"
            refused = CommandReply("", said, 1)
            self.worker.channel.send({"type": "answer", "id": number, **refused._asdict()})

    def _hear_end(self, reason: str) -> None:
        self._settle(Crash(reason=reason))

    def _settle(self, ending: Done | dict[str, Any] | Crash) -> None:
        if not self._ending.done():
            self._ending.set_result(ending)


async def _autopsy(worker: Worker, crash: Crash) -> Crash:
    """Make sure that a worker has ended, and return why."""
    end = worker.helper.end if crash.reason else worker.helper.wait
    status = await asyncio.shield(_in_thread(end))
    if crash.reason or status >= 0:
        return Crash(reason=crash.reason or f"the shell ended with status {status}")
    number = -status
    return Crash(reason=f"the shell died of {signal.Signals(number).name}", signal=number)


async def _in_thread(work: Any) -> int:
    status: int = await asyncio.get_running_loop().run_in_executor(None, work)
    return status


async def _nobody(_command: CommandRequest) -> CommandReply:
    return CommandReply("", "", 127)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r:.40} is not text")
    return value


def _checked(done: Done) -> Done:
    numbers = (done.exit_code, done.files_left_out, done.peak_bytes)
    if not all(isinstance(number, int) for number in numbers):
        raise TypeError("an end without its numbers")
    if not isinstance(done.error or "", str):
        raise TypeError("an end whose error is not text")
    if any(part in ("", ".", "..") for path in done.files for part in path.split("/")):
        raise ValueError("a file outside /out")
    return done._replace(truncated=bool(done.truncated))
