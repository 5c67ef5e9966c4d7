"""ProxyListener: accepts the connections of a call, and ends them with it."""

import asyncio
import contextlib
import socket
from collections.abc import Iterable

from skillpouch.execution.proxy.allowlist import Allowlist
from skillpouch.execution.proxy.connection import ProxyConnection
from skillpouch.execution.proxy.dialer import Dialer
from skillpouch.net.hosts import Host

_MOST_CONNECTIONS = 32  # per call at a time; further connections wait
_MOST_LOOK_UPS = 2  # per call at a time, so that a slow name server does not block other calls
# More than can wait to be accepted: namespaces.py listens with a backlog of 128.
_MOST_WAITING = 256
_MOST_REFUSED = 64  # at most this many refused hosts are reported
# A program that only connects must not block the event loop: at most this many connections are
# accepted within _PAUSE_SECONDS, then none for as long.
_MOST_AT_ONCE = 100
_PAUSE_SECONDS = 0.1
_CROWDED_SECONDS = 0.02  # before checking again whether a connection was closed


class ProxyListener:
    """Open while a call runs; each sandbox has its own.

    When the sandbox has made its network, it sends the listening sockets over `theirs`: that of the
    proxy, and one for each of the `relayed` servers, to which all bytes are passed on.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        granted: Allowlist,
        dialer: Dialer,
        relayed: Iterable[Host] = (),
    ) -> None:
        self._loop = loop
        self._granted = granted
        self._dialer = dialer
        self._handover, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._handover.setblocking(False)
        self._relayed = tuple(relayed)
        self._listeners: dict[socket.socket, Host | None] = {}  # None: the proxy
        self._is_open = False
        self._connections: dict[asyncio.Task[None], ProxyConnection] = {}
        self._refused: dict[str, None] = {}
        self._turn = asyncio.Semaphore(_MOST_LOOK_UPS)
        self._clock: asyncio.TimerHandle | None = None
        self._window = 0.0
        self._accepted = 0
        loop.add_reader(self._handover.fileno(), self._receive)

    def theirs(self) -> tuple[int, ...]:
        return (self._theirs.fileno(),)

    def close_theirs(self) -> None:
        self._theirs.close()

    def _receive(self) -> None:
        try:
            most = 1 + len(self._relayed)
            _, fds, _, _ = socket.recv_fds(self._handover, 1, most, socket.MSG_CMSG_CLOEXEC)
        except OSError:
            fds = []
        self._loop.remove_reader(self._handover.fileno())
        self._handover.close()
        if fds:  # otherwise the sandbox has failed, and reports that on its own socket
            sockets = [socket.socket(fileno=fd) for fd in fds]
            self._listeners = dict(zip(sockets, (None, *self._relayed), strict=True))
            self._listen()

    def open(self) -> None:
        """Accept connections for the call that starts now."""
        self._drain()
        self._refused = {}
        self._is_open = True
        self._listen()

    def shut(self) -> tuple[str, ...]:
        """End every connection of the call; return the hosts that were refused."""
        self._is_open = False
        self._stop_listening()
        self._drain()
        for task, connection in self._connections.items():
            connection.hang_up()
            task.cancel()
        return tuple(self._refused)

    def close(self) -> None:
        """Close the listener for good."""
        self.shut()
        if self._handover.fileno() >= 0:
            self._loop.remove_reader(self._handover.fileno())
        self._close_sockets()

    def abandon(self) -> None:
        """Close descriptors only: the loop is closed or, after a fork, belongs to the parent."""
        for connection in self._connections.values():
            connection.close()
        self._close_sockets()

    def _close_sockets(self) -> None:
        self._handover.close()
        self._theirs.close()
        for listener in self._listeners:
            listener.close()
        self._listeners = {}

    def _listen(self) -> None:
        self._clock = None
        for listener in self._listeners if self._is_open else ():
            self._loop.add_reader(listener.fileno(), self._accept, listener)

    def _stop_listening(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        for listener in self._listeners:
            self._loop.remove_reader(listener.fileno())

    def _pause(self, seconds: float) -> None:
        self._stop_listening()
        self._clock = self._loop.call_later(seconds, self._listen)

    def _accept(self, listener: socket.socket) -> None:
        if self._is_too_fast():
            self._pause(_PAUSE_SECONDS)
            return
        if len(self._connections) >= _MOST_CONNECTIONS or not self._dialer.take_place():
            self._pause(_CROWDED_SECONDS)
            return
        try:
            client, _ = listener.accept()
        except OSError:
            self._dialer.give_place_back()
            self._pause(_CROWDED_SECONDS)  # the client is gone, or no descriptors are left
            return
        self._serve(client, self._listeners[listener])

    def _is_too_fast(self) -> bool:
        now = self._loop.time()
        if now - self._window > _PAUSE_SECONDS:
            self._window, self._accepted = now, 0
        self._accepted += 1
        return self._accepted > _MOST_AT_ONCE

    def _serve(self, client: socket.socket, server: Host | None) -> None:
        client.setblocking(False)
        connection = ProxyConnection(
            client, self._granted, self._dialer, self._refuse, self._turn, relays=server
        )
        task = self._loop.create_task(connection.serve())
        self._connections[task] = connection
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        # Closed here, too: a task that was cancelled before it began has closed nothing.
        self._connections.pop(task).close()
        self._dialer.give_place_back()

    def _refuse(self, host: str) -> None:
        if len(self._refused) < _MOST_REFUSED:
            self._refused[host] = None

    def _drain(self) -> None:
        """Drop connections that were not accepted: they are from an earlier call."""
        for listener in self._listeners:
            with contextlib.suppress(OSError):
                for _ in range(_MOST_WAITING):
                    listener.accept()[0].close()
