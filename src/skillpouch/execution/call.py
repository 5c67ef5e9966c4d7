"""Call: drives one program in a sandbox, with its pipes, its time limit and its output."""

import asyncio
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from skillpouch.execution.command import Command, OutputFilter
from skillpouch.execution.prestarted import PrestartedSandbox
from skillpouch.execution.replies import Finished, Lost, Reply
from skillpouch.execution.sandbox_client import SandboxClient
from skillpouch.execution.streams import Capture, Streams, save_output
from skillpouch.execution.unsandboxed import UnsandboxedProcess
from skillpouch.results import Captured, Stream
from skillpouch.runtime.loop_thread import UncancellableFuture

OnOutput = Callable[[Stream, bytes], None]

_QUIET_SECONDS = 0.005  # the output of a shorter call is read once, at its end
_READ_BYTES = 65_536
# 4 MiB: four times what an unprivileged user can make a pipe hold (pipe-max-size, pipe(7)).
_MOST_PIECES = 64
_PATIENCE_SECONDS = (
    5.0  # for a sandbox that was told to kill; more than it waits for its prefork server itself
)


def _nothing() -> None:
    """Do nothing."""


class Call:
    """Drives one program: writes its input, reads its output, ends it at its limits."""

    def __init__(
        self,
        sandbox: SandboxClient | PrestartedSandbox | UnsandboxedProcess,
        command: Command,
        *,
        workspace: Path,
        timeout_seconds: float,
        grace_seconds: float,
        on_output: OnOutput | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._sandbox = sandbox
        self._command = command
        self._timeout_seconds = timeout_seconds
        self._grace_seconds = grace_seconds
        self._on_output = on_output
        self._readers: dict[int, Stream] = {}
        self._stdin = memoryview(command.stdin)
        self._stdin_fd = -1
        keep = command.limits.keep_bytes
        self._captures: dict[Stream, Capture] = {
            "stdout": Capture(keep, lambda: save_output(workspace, "stdout")),
            "stderr": Capture(keep, lambda: save_output(workspace, "stderr")),
        }
        new_filter = command.new_filter
        self._filters: dict[Stream, OutputFilter] = (
            {} if new_filter is None else {"stdout": new_filter(), "stderr": new_filter()}
        )
        self.output: dict[Stream, Captured] = {}  # set after the run
        self.answer = b""
        self.ended_by: str | None = None  # why Skillpouch ended it
        self._killed = False
        self._complaint: Exception | None = None  # the error that the caller's callback raised
        self._is_listening = False
        # Done when all pipes are closed, if `run` waits for that.
        self._silent: UncancellableFuture[None] | None = None

    def open(self) -> Streams:
        """Return the pipes of the program."""
        self._streams = self._sandbox.open(self._command)
        self._readers = {self._streams.stdout: "stdout", self._streams.stderr: "stderr"}
        return self._streams

    async def run(self, answer: UncancellableFuture[Reply]) -> Reply:
        """Return when no process of the call is alive, also when cancelled.

        `answer` is what the sandbox returned when it started the program.
        """
        limit = self._timeout_seconds
        if self._command.conversation is not None or limit <= _QUIET_SECONDS:
            self._listen()
            self._clock = self._loop.call_later(limit, self._time_out)
        else:
            self._clock = self._loop.call_later(_QUIET_SECONDS, self._grow_long)
        try:
            answer.on_cancel = partial(self._end, "cancelled")
            reply = await self._see_off(await answer)
        finally:
            try:
                self.close()
            finally:
                self._clock.cancel()  # `close` may have read output that set it again
        if self._complaint is not None:
            raise self._complaint
        for waited in (answer, self._silent):
            if waited is not None and waited.is_unwanted:
                self._command.unfinished.update(self.output)
                raise waited.cancellation()
        return reply

    def _grow_long(self) -> None:
        self._listen()
        left = self._timeout_seconds - _QUIET_SECONDS
        self._clock = self._loop.call_later(left, self._time_out)

    def _listen(self) -> None:
        if not self._is_listening:
            self._is_listening = True
            for fd in self._readers:
                self._loop.add_reader(fd, self._read, fd)

    async def _see_off(self, reply: Reply) -> Reply:
        """Wait until no process holds the pipes of the call: a prefork server may be wrong.

        A job that no child has received holds the pipes, too.
        """
        self._drain()
        if (
            not isinstance(self._sandbox, SandboxClient)
            or not self._sandbox.is_warm
            or not self._readers
        ):
            return reply
        self._sandbox.close()
        self._clock.cancel()
        self._clock = self._loop.call_later(_PATIENCE_SECONDS, self._disown, self._sandbox)
        self._silent = UncancellableFuture(
            self._loop, on_cancel=_nothing
        )  # a cancel changes nothing: it already ends as soon as it can
        self._listen()
        await self._silent
        return Lost() if isinstance(reply, Finished) and reply.reusable else reply

    def _disown(self, sandbox: SandboxClient) -> None:
        sandbox.disown().add_done_callback(lambda _: self._hush())

    def _hush(self) -> None:
        if self._silent is not None and not self._silent.done():
            self._silent.set_result(None)

    def feed(self) -> None:
        """Write as much input as the pipe takes before the program starts, the rest later."""
        fd = self._stdin_fd = self._streams.stdin
        if self._command.conversation is not None:
            self._command.conversation.attach(self._loop, fd)
            return
        if fd >= 0:
            self._write()
        if self._stdin_fd >= 0:
            self._loop.add_writer(fd, self._write)

    def _write(self) -> None:
        """Write what the pipe takes; a program that does not read its input is not an error."""
        try:
            if self._stdin:
                self._stdin = self._stdin[os.write(self._stdin_fd, self._stdin) :]
        except BlockingIOError:
            return
        except BrokenPipeError:
            self._stdin = self._stdin[:0]
        if not self._stdin:
            self._close_stdin()

    def _close_stdin(self) -> None:
        if self._command.conversation is not None:
            self._command.conversation.detach()
        if self._stdin_fd >= 0:
            self._loop.remove_writer(self._stdin_fd)
            os.close(self._stdin_fd)
            self._stdin_fd = self._streams.stdin = -1

    def _read(self, fd: int) -> bool:
        """Read one piece; return whether there may be more now."""
        try:
            piece = os.read(fd, _READ_BYTES)
        except BlockingIOError:
            return False
        stream = self._readers[fd]
        if not piece:
            self._close_reader(fd)
            return False
        if self.ended_by != "output_limit":
            self._take(stream, self._filters[stream].feed(piece) if self._filters else piece)
        return True

    def _take(self, stream: Stream, piece: bytes) -> None:
        if piece and self._command.conversation is not None:
            self._tell(stream, piece)
        elif piece:
            self._captures[stream].add(piece)
            self._count()
            self._tell(stream, piece)

    def _tell(self, stream: Stream, piece: bytes) -> None:
        if self._on_output is None:
            return
        try:
            self._on_output(stream, piece)
        except Exception as error:  # noqa: BLE001 - the caller's own code; `run` raises it
            self._on_output = None
            self._complaint = error
            self._end("cancelled")

    def _count(self) -> None:
        total = sum(capture.total_bytes for capture in self._captures.values())
        if total > self._command.limits.kill_bytes:
            self._end("output_limit")

    def _time_out(self) -> None:
        if self.ended_by is None:
            self.ended_by = "timeout"
            self._sandbox.terminate()
            self._clock = self._loop.call_later(self._grace_seconds, self._kill)

    def _end(self, why: str) -> None:
        if self.ended_by is None:
            self.ended_by = why
        self._kill()

    def _kill(self) -> None:
        """Kill; a sandbox that does not report its end in time is killed with its zygote."""
        if self._killed:
            return  # told once only: a sandbox that is ending would not read a second message
        self._killed = True
        self._sandbox.kill()
        self._clock.cancel()
        self._clock = self._loop.call_later(_PATIENCE_SECONDS, self._sandbox.drop)

    def _close_reader(self, fd: int) -> None:
        if self._is_listening:
            self._loop.remove_reader(fd)
        stream = self._readers.pop(fd)
        os.close(fd)
        setattr(self._streams, stream, -1)
        if not self._readers:
            self._hush()

    def _drain(self) -> None:
        """Read what is in the pipes, up to a limit, because a process may still write."""
        for fd in list(self._readers):
            pieces = 0
            while pieces < _MOST_PIECES and self._read(fd):
                pieces += 1

    def close(self) -> None:
        """Read what is still in the pipes and close them; no process writes to them any more."""
        self._drain()
        for fd in list(self._readers):
            self._close_reader(fd)
        self._close_stdin()
        for stream, each in self._filters.items():
            self._take(stream, each.close())
        self.answer = self._streams.read_answer()
        self._streams.close()
        self.output = {stream: capture.finish() for stream, capture in self._captures.items()}
