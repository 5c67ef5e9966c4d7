"""SandboxClient: the host's end of one sandbox, its prefork server's JobChannel, and its Layer."""

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
import termios
import time
from array import array
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from skillpouch.execution.command import Command, PreforkSpec
from skillpouch.execution.layers import TICKS_NS, LayerPlace, LayerRoot
from skillpouch.execution.replies import (
    Finished,
    Ineligible,
    Lost,
    NotStarted,
    Ready,
    Reply,
    read_reply,
)
from skillpouch.execution.streams import Streams
from skillpouch.execution.zygote import wire
from skillpouch.runtime.loop_thread import UncancellableFuture
from skillpouch.runtime.removal import remove_tree

if TYPE_CHECKING:
    from collections.abc import Callable

    from skillpouch.execution.cgroups import Cgroup
    from skillpouch.execution.proxy.listener import ProxyListener

_LONGEST_REPLY, _FORKED_SECONDS = 2048, 0.002
PROGRAM = Path(__file__).with_name("preforked") / "importlib_bootstrap.py"
STARTUP = str(PROGRAM.with_name("startup"))  # on PYTHONPATH: makes the skill's folder importable


class SandboxOwner(Protocol):
    """The maker of a sandbox, which takes it back after a call."""

    @property
    def failure(self) -> str: ...

    def give_back(self, sandbox: Any, *, reusable: bool) -> None: ...

    def lose(self, sandbox: Any) -> None:
        """Handle the unexpected end of a sandbox: call its `confirm_lost` when all is dead.

        A socket closes before its process has ended completely.
        """

    def ready(self, sandbox: Any) -> None:
        """Handle the message that a process waits there for a call."""

    def ineligible(self, sandbox: Any, ineligible: Ineligible) -> None:
        """Handle the message that its prefork server cannot serve its script."""


class SandboxClient:
    """Runs one program at a time in a sandbox; with `jobs`, a prefork server forks them."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        sock: socket.socket,
        owner: SandboxOwner,
        *,
        temporary: str | None = None,
        jobs: "JobChannel | None" = None,
        listener: "ProxyListener | None" = None,
    ) -> None:
        self._loop, self._owner = loop, owner
        self._sock, self._jobs = sock, jobs
        self._answer: UncancellableFuture[Reply] | None = None
        self._calls, self._sent_at = 0, 0.0
        self._lost, self._is_ready = Lost(), False
        self.temporary = temporary
        self.listener = listener  # the proxy for its calls
        self.cgroup: Cgroup | None = None  # limits all its processes together
        self.layer: Layer | None = None  # over the workspace; gets what its calls write
        self.alive = True
        self.idle_since = 0.0
        self.in_crowd = False  # whether other calls wait for a sandbox
        self.ran_seconds = 0.0  # how long its last call ran
        self.worked_seconds = 0.0  # processor time of the same call
        loop.add_reader(sock.fileno(), self._read)

    @property
    def is_warm(self) -> bool:
        return self._jobs is not None

    def is_ready(self, now: float) -> bool:
        """Tell whether a call would start at once: a prefork server forks after each call."""
        return not self.is_warm or now - self.idle_since >= _FORKED_SECONDS

    def renew(self) -> None:
        """Nothing to do: the prefork server forks the next child by itself."""

    def open(self, command: Command) -> Streams:
        """Return the pipes of a call."""
        return Streams(feeds=command.feeds, answers=command.answers)

    def start(self, command: Command, streams: Streams) -> UncancellableFuture[Reply]:
        """Start the program; the future is done when no process of it is alive."""
        self._calls += 1
        self._sent_at = self._loop.time()
        self._answer = UncancellableFuture(self._loop)
        try:
            if self._jobs is None:
                job = self._job(command, feeds=streams.feeds)
                _send_job(self._sock, job, streams.theirs)
            else:
                self._jobs.send(command, streams.theirs, in_crowd=self.in_crowd)
        except ValueError:
            self._calls -= 1  # the sandbox was not told of this call
            self._answer.set_result(NotStarted(call=self._calls, errno=errno.EINVAL))
        except OSError:
            self.drop()
        return self._answer

    def _job(self, command: Command, *, feeds: bool) -> tuple[Any, ...]:
        env = dict(command.env)
        if self.temporary is not None:
            env.setdefault("TMPDIR", self.temporary)
        return self._calls, list(command.argv), env, str(command.cwd), feeds

    def give_back(self, *, reusable: bool) -> None:
        self._owner.give_back(self, reusable=reusable)

    @property
    def failure(self) -> str:
        """Why sandboxes like this one cannot be made, if that is so."""
        return self._owner.failure

    def terminate(self) -> None:
        self._send(wire.TERMINATE)

    def kill(self) -> None:
        self._send(wire.KILL)

    def _send(self, kind: bytes) -> None:
        with contextlib.suppress(OSError):
            self._sock.send(b"%b %d" % (kind, self._calls))

    def _read(self) -> None:
        try:
            packet = self._receive()
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self.drop()
            return
        self._take(read_reply(packet))

    def _receive(self) -> bytes:
        try:
            return self._sock.recv(_LONGEST_REPLY)
        except ConnectionResetError:
            # It ended without reading all our packets; its own last ones can still be read.
            return self._sock.recv(_LONGEST_REPLY)

    def _take(self, reply: Reply | Ready) -> None:
        if isinstance(reply, Ready | Ineligible):
            self._prepared(reply)
        elif reply.call != self._calls or self._answer is None or self._answer.done():
            # The sandbox is gone, or reports another call: a prefork server reported the end of a
            # call that had not begun.
            self._lost = reply if isinstance(reply, Lost) else self._lost
            self.drop()
        else:
            if self._jobs is not None and self._jobs.has_untaken():
                reply = Lost(call=reply.call)  # the child that ended had not received the call
            if isinstance(reply, Lost) or (isinstance(reply, Finished) and not reply.reusable):
                self.close()  # the sandbox is ending by itself, and no process of the call is alive
            if isinstance(reply, Finished):
                self.ran_seconds = max(0.0, (reply.ended_at or self._loop.time()) - self._sent_at)
                self.worked_seconds = reply.user_seconds + reply.system_seconds
            self._set(reply)

    def _prepared(self, reply: Ready | Ineligible) -> None:
        if isinstance(reply, Ready):
            if self._is_ready:
                self.drop()  # a second READY is an error
                return
            self._is_ready = True
            self._owner.ready(self)
        else:
            self.close()
            self._owner.ineligible(self, reply)
            self._set(reply)

    def _set(self, reply: Reply) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(reply)

    def disown(self) -> UncancellableFuture[Reply]:
        """Give up a sandbox that may have misreported the end of a call; done when all is dead."""
        self.close()
        self._answer = UncancellableFuture(self._loop)
        self._owner.lose(self)
        return self._answer

    def drop(self) -> None:
        """Close it in the middle of a call, which is lost."""
        if self.alive:
            self.close()
            self._owner.lose(self)

    def confirm_lost(self) -> None:
        """Answer the running call with `Lost`: its processes are now known to be gone."""
        self._set(self._lost)

    def close(self) -> None:
        """Close the socket: the sandbox then kills what it runs, and ends."""
        if self.alive:
            self.alive = False
            self._loop.remove_reader(self._sock.fileno())
            if self.listener is not None:
                self.listener.close()
            self.abandon()
            if self.cgroup is not None:
                self.cgroup.remove_later(self._loop)
            if self.layer is not None:
                self.layer.close()

    def abandon(self) -> None:
        """Close the descriptor only: after a fork, the loop belongs to the parent."""
        self.alive = False
        self._sock.close()
        if self._jobs is not None:
            self._jobs.close()
        if self.listener is not None:
            self.listener.abandon()
        if self.layer is not None:
            self.layer.abandon()


class JobChannel:
    """A socket for calls: only the host writes to it, and only a prefork server reads it."""

    def __init__(self, prefork: PreforkSpec) -> None:
        self._prefork = prefork
        self._env = dict(prefork.env)
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._ours.setblocking(False)  # a prefork server that does not read must not block the host
        wanted = {
            "files": [file for file in (prefork.runner, prefork.script) if file],
            "runner": prefork.runner,
            "folders": prefork.folders,
            "program": prefork.program,
        }
        wire.send_value(self._ours, wire.PREPARE, wanted)

    def order(self) -> dict[str, Any]:
        """Return the fields by which a zygote starts the prefork server."""
        argv = [*self._prefork.program, str(PROGRAM)]
        return {"argv": argv, "env": self._env, "cwd": str(self._prefork.cwd)}

    def theirs(self) -> tuple[int, ...]:
        return (self._theirs.fileno(),)

    def close_theirs(self) -> None:
        self._theirs.close()

    def send(self, command: Command, fds: tuple[int, ...], *, in_crowd: bool) -> None:
        """Send a call; of its variables, only those that differ from the prefork server's.

        Every word that a child does not read saves it a copy of memory. Raises ValueError for an
        invalid variable.
        """
        env, known = command.env, self._env
        if any(not name or "=" in name for name in env.keys() - known.keys()):
            raise ValueError("not the name of a variable")
        changed = {
            _encoded(name): _encoded(value)
            for name, value in env.items()
            if known.get(name) != value
        }
        removed = [_encoded(name) for name in known if name not in env]
        words = command.argv[len(self._prefork.program) :]
        job = (words, changed, removed, str(command.cwd), int(command.feeds), int(in_crowd))
        _send_job(self._ours, job, fds)

    def has_untaken(self) -> bool:
        """Tell whether a sent call is still unread, or was when the reader ended."""
        unread = array("i", [0])
        fcntl.ioctl(self._ours, termios.TIOCOUTQ, unread)
        # The queue first: when the reader ends, the kernel sets the error, then empties the queue.
        return bool(unread[0]) or self._ours.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0

    def close(self) -> None:
        self._ours.close()


def _encoded(text: str) -> bytes:
    data = text.encode("utf-8", "surrogateescape")
    if b"\0" in data:
        raise ValueError("a zero byte")
    return data


def _send_job(sock: socket.socket, job: tuple[Any, ...], fds: tuple[int, ...]) -> None:
    """Send the packet that starts a program."""
    packet, files = wire.packed(wire.RUN, job)
    try:
        sock.sendmsg([packet], wire.rights((*fds, *files)))
    finally:
        for file in files:
            os.close(file)


# Entries that are moved out of a layer: of more, the folder itself is lent, which takes one rename.
_MOST_MOVED = 8


class Layer:
    """The folder over the workspace of one sandbox; its calls begin with an empty one each."""

    def __init__(self, place: LayerPlace) -> None:
        self.number = place.number
        self._folder = f"{place.above}/{place.number}"
        self._upper = f"{self._folder}/upper"
        self._workspace, self._pinned = place.workspace, place.pinned
        self._in_call = self._is_over = self._is_given = False
        self.is_lent = False  # whoever takes what a call changed has the folder, and returns it
        self._taken = self._began_ns = 0
        self._configuration = -1  # of the overlay, once the zygote has mounted it
        self._forget: Callable[[], int] | None = None
        self._forgotten: asyncio.Future[int] | None = None  # since the last call
        # The ctimes of the layer and of the workspace when they were last looked at. The ctime
        # changes with everything that is compared here, and no program can set it, inode(7).
        self._empty_at = self._alike_at = 0
        for folder in (self._folder, self._upper, f"{self._folder}/work"):
            os.mkdir(folder, 0o700)  # noqa: PTH102 - for each sandbox
        self._model = LayerRoot(self._workspace)
        self._model.copy_to(self._upper)

    def note_mounted(self, configuration: int) -> None:
        """Keep the descriptor by which the overlay of this layer is reconfigured."""
        self._configuration = configuration
        if self._is_over:
            self.abandon()

    def begin(self) -> None:
        """Note that a call begins, whose changes must be taken."""
        self._in_call, self._forgotten = True, None
        self._began_ns = time.time_ns()

    def renew(self) -> bool:
        """Prepare for a call: return whether the layer fits the workspace as it is now.

        An overlay keeps the mode and the owner of its root. Its times are those of the layer.
        """
        done = self._forgotten
        if done is None or not done.done() or done.result():
            self.forget_names()
        seen_ns = time.time_ns()
        if self._alike_at == os.stat(self._workspace).st_ctime_ns:  # noqa: PTH116 - on every call
            return True
        now = LayerRoot(self._workspace)
        if not now.is_like(self._model):
            return False
        if now.times[1] != os.stat(self._upper).st_mtime_ns:  # noqa: PTH116
            os.utime(self._upper, ns=now.times)
            self._empty_at = 0
        self._model = now
        self._alike_at = now.settled(seen_ns)
        return True

    def forget_names(self) -> None:
        """Have the overlay show the workspace and the layer as they are now; OSError if not."""
        if self._forget is None:
            # Imported here: a process that makes one call never needs it.
            from skillpouch.execution.zygote.kernel import names_forgetter

            self._forget = names_forgetter(self._configuration)
        if self._forget():
            raise OSError("the overlay is gone, or cannot be reconfigured")

    def forget_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        """Forget the names that a call used, in a thread: ovl_free_fs waits for all processors."""
        if self._forget is not None:
            self._forgotten = loop.run_in_executor(None, self._forget)

    def take(self, *, reusable: bool, lends: bool = False) -> tuple[list[Path], bool]:
        """End a call of which no process is alive.

        Return the folder with what it changed, none if it changed nothing; and whether the layer is
        empty now, and another call may use it. With `lends`, that may be the folder of the overlay
        itself, for which `is_lent` is true until `take_back`.
        """
        self._in_call = False
        if self._is_untouched() and not self._is_over:
            return [], reusable
        try:
            names = os.listdir(self._upper)  # noqa: PTH208 - on every call
            now = LayerRoot(self._upper)
            same_root = now.is_like(self._model)
        except OSError:  # such as a root that nobody may read any more
            names, now, same_root = [], self._model, False
        # An overlay goes on using folders that are mount points, or hold one: they are not replaced
        # when their names are forgotten.
        reusable = reusable and same_root and self._pinned.isdisjoint(names) and not self._is_over
        taken: list[Path] = []
        # A time that is not one of the call's duration was set by it.
        mtime, is_set = now.times[1], now.times[1] != self._model.times[1]
        is_set = is_set and not self._began_ns - TICKS_NS <= mtime <= time.time_ns()
        if names or is_set or not same_root:
            self.is_lent = lends and reusable and len(names) > _MOST_MOVED
            if reusable and not self.is_lent:
                taken, reusable = self._move(names, now)
            if self.is_lent or not reusable:
                self._is_given = True
                taken.append(Path(self._upper))
        self._empty_at = 0 if taken else now.settled(self._began_ns)
        self._alike_at = 0  # what was made and removed has changed the times of the layer
        if self._is_over:
            self._remove()
        return taken, reusable

    def _is_untouched(self) -> bool:
        try:
            now = os.stat(self._upper).st_ctime_ns  # noqa: PTH116 - on every call
        except OSError:
            return False
        return now == self._empty_at and now < self._began_ns - TICKS_NS

    def _move(self, names: list[str], upper: LayerRoot) -> tuple[list[Path], bool]:
        """Move what is in the layer to a folder of its own; return whether nothing is left."""
        self._taken += 1
        taken = f"{self._folder}.{self._taken}"
        try:
            os.mkdir(taken, 0o700)  # noqa: PTH102 - for each call that writes
        except OSError:
            return [], False
        done = True
        try:
            for name in names:
                os.rename(f"{self._upper}/{name}", f"{taken}/{name}")  # noqa: PTH104
        except OSError:
            done = False  # such as a folder that nobody may write, rename(2)
        upper.copy_to(taken)
        return [Path(taken)], done

    def take_back(self, *, is_back: bool) -> bool:
        """End the loan of the folder; return whether another call may use the layer.

        `is_back`: it is in its place again, and empty.
        """
        self.is_lent, self._is_given = False, not is_back
        if self._is_over:
            self._remove()
        return is_back and not self._is_over

    def close(self) -> None:
        """Remove the layer; while a call runs in it, after its changes were taken."""
        self._is_over = True
        self.abandon()
        if not self._in_call:
            self._remove()

    def abandon(self) -> None:
        """Close the descriptor only: after a fork, the layer belongs to the parent."""
        if self._configuration >= 0:
            os.close(self._configuration)
            self._configuration = -1
            self._forget = None

    def _remove(self) -> None:
        # What cannot be removed now is removed with the folder of this process.
        with contextlib.suppress(OSError):
            remove_tree(f"{self._folder}/work" if self._is_given else self._folder)
