"""PrestartedSandbox: a program that was started ahead of its one call; then the next starts."""

import asyncio
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from skillpouch.execution.command import Command, Prestarted
from skillpouch.execution.replies import Finished, Ineligible, Reply
from skillpouch.execution.sandbox_client import Layer, SandboxClient, SandboxOwner
from skillpouch.execution.streams import Streams
from skillpouch.runtime.loop_thread import UncancellableFuture

if TYPE_CHECKING:
    import socket

    from skillpouch.execution.cgroups import Cgroup
    from skillpouch.execution.proxy.listener import ProxyListener

_LONGEST_WORD = 16
_WORDS = re.compile(rb"r(?:(\d{1,3})\n?)?")  # "r" for ready; later followed by the exit status
_NEVER_READ = "the process that waited for it had ended"


class _Place:
    """The owner of the sandbox that a program waits in; passes events on to PrestartedSandbox."""

    def __init__(self, waiting: "PrestartedSandbox", owner: SandboxOwner) -> None:
        self._waiting = waiting
        self._owner = owner

    @property
    def failure(self) -> str:
        return self._owner.failure

    def give_back(self, sandbox: SandboxClient, *, reusable: bool) -> None:
        """Do nothing: the prestarted sandbox keeps it."""

    def lose(self, sandbox: SandboxClient) -> None:
        del sandbox
        self._waiting.stop_waiting()
        self._owner.lose(self._waiting)

    def ready(self, sandbox: SandboxClient) -> None:
        """Do nothing: there is no prefork server."""

    def ineligible(self, sandbox: SandboxClient, ineligible: Ineligible) -> None:
        """Do nothing: there is no prefork server."""


class PrestartedSandbox:
    """Starts the program ahead of its call, which is sent over a socket as one line of JSON."""

    is_warm = True

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        prestarted: Prestarted,
        owner: SandboxOwner,
        make: Callable[[SandboxOwner], SandboxClient],
    ) -> None:
        self._loop = loop
        self._command = Command(argv=prestarted.argv, env=dict(prestarted.env), cwd=prestarted.cwd)
        self._owner = owner
        self._unsent = memoryview(b"")
        self._orders: socket.socket | None = None
        self._sandbox = make(_Place(self, owner))
        self.idle_since = loop.time()
        self.in_crowd = False
        self.ran_seconds = self.worked_seconds = 0.0
        try:
            self._prepare()
        except OSError:
            self._sandbox.close()
            raise

    @property
    def alive(self) -> bool:
        return self._sandbox.alive

    @property
    def failure(self) -> str:
        return self._owner.failure

    @property
    def listener(self) -> "ProxyListener | None":
        return self._sandbox.listener

    @property
    def cgroup(self) -> "Cgroup | None":
        return self._sandbox.cgroup

    @property
    def layer(self) -> "Layer | None":
        return self._sandbox.layer

    def is_ready(self, _now: float) -> bool:
        return self._is_ready and not self._reply.done()

    def renew(self) -> None:
        """Make sure that a program waits for the next call; OSError if none can be started."""
        # A program that is still ending is not replaced: its sandbox runs one program at a time.
        if self._is_called or self._reply.done() or not self._sandbox.alive:
            self._drop_streams()
            if self.layer is not None and self._is_called:
                self.layer.forget_names()  # the program must not see what the last one wrote
            self._prepare()

    def _prepare(self) -> None:
        self._is_ready = self._is_called = self._is_ended = self._is_unread = False
        self._answer: UncancellableFuture[Reply] = UncancellableFuture(self._loop)
        self._said = b""
        self._streams = Streams(feeds=True, answers=True, ordered=True)
        self._reply = self._sandbox.start(self._command, self._streams)
        self._reply.add_done_callback(self._take)
        self._streams.close_theirs()
        self._orders = self._streams.take_orders()
        self._loop.add_reader(self._orders.fileno(), self._hear)

    def _hear(self) -> bool:
        """Read the program's message: that it is ready, or its exit status.

        Return whether there may be more.
        """
        if self._orders is None:
            return False
        try:
            heard = self._orders.recv(_LONGEST_WORD)
        except BlockingIOError:
            return False
        except OSError as error:
            heard = b""
            # The kernel reports this when the program ended without reading all of its call,
            # unix(7).
            self._is_unread = isinstance(error, ConnectionResetError)
        self._said += heard
        if not heard or not _WORDS.fullmatch(self._said):
            self._hang_up()  # the program sees the end of file and ends by itself
            return False
        self._heed()
        return True

    def _heed(self) -> None:
        if not self._is_ready:
            self._is_ready = True
            self._owner.ready(self)
        if self._said.endswith(b"\n"):
            self._sandbox.kill()

    def _take(self, reply: "asyncio.Future[Reply]") -> None:
        """Pass on the end, with the exit status that the program reported before it was killed."""
        if reply is not self._reply:
            return  # from a program that died while waiting, and was replaced
        while self._hear():
            continue
        if not self._answer.done():
            self._answer.set_result(self._as_told(reply.result()))

    def _as_told(self, ended: Reply) -> Reply:
        if not isinstance(ended, Finished):
            return ended
        if self._is_called and self._is_unread and not self._is_ended:
            return Ineligible(reason=_NEVER_READ)
        said = _WORDS.fullmatch(self._said)
        if ended.status < 0 and said and said[1]:
            return replace(ended, status=int(said[1]) & 0xFF)
        return ended

    def open(self, command: Command) -> Streams:
        """Return the pipes of the waiting program; start another if it is gone."""
        del command  # the pipes are the same for every call
        self.renew()
        return self._streams

    def start(self, command: Command, streams: Streams) -> UncancellableFuture[Reply]:
        """Send the program its call; the future is done when no process of the call is alive."""
        del streams  # the program already has its ends
        self._is_called = True
        job = {"argv": command.argv, "env": dict(command.env), "cwd": str(command.cwd)}
        self._unsent = memoryview(json.dumps(job).encode() + b"\n")
        self._send()
        return self._answer

    def _send(self) -> None:
        if self._orders is None:
            self._is_unread = True
            return
        try:
            self._unsent = self._unsent[self._orders.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._is_unread = True
            self._unsent = memoryview(b"")  # the program is gone, and its sandbox will report that
        if self._unsent:
            self._loop.add_writer(self._orders.fileno(), self._send)
        else:
            self._loop.remove_writer(self._orders.fileno())

    def give_back(self, *, reusable: bool) -> None:
        if self._is_called:
            self._drop_streams()
        self._owner.give_back(self, reusable=reusable)

    def stop_waiting(self) -> None:
        """Close the streams of a program that ended before it got its call."""
        if not self._is_called:
            self._drop_streams()

    def _drop_streams(self) -> None:
        self._hang_up()
        self._streams.close()

    def _hang_up(self) -> None:
        if self._orders is not None:
            self._loop.remove_reader(self._orders.fileno())
            self._loop.remove_writer(self._orders.fileno())
            self._orders.close()
            self._orders = None

    def terminate(self) -> None:
        self._is_ended = True
        self._sandbox.terminate()

    def kill(self) -> None:
        self._is_ended = True
        self._sandbox.kill()

    def confirm_lost(self) -> None:
        self._sandbox.confirm_lost()

    def drop(self) -> None:
        self._sandbox.drop()

    def close(self) -> None:
        if self._sandbox.alive:
            self._sandbox.close()
        self._drop_streams()

    def abandon(self) -> None:
        self._sandbox.abandon()
        self._streams.close()
        if self._orders is not None:
            self._orders.close()
