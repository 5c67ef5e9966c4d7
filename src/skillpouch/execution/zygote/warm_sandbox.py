"""A sandbox whose calls come from a prefork server: process 1 of their table, and nothing else.

The prefork server forks them into this table from outside, where they cannot see or signal it.
"""

from __future__ import annotations

import os
import select
import time

from skillpouch.execution.zygote import alarm, signals, wire
from skillpouch.execution.zygote.spawn import NamespaceTree, reap_ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

    from skillpouch.execution.zygote.cleanup import OwnFolders

# How long a prefork server may take to say how a call ended that is known to be dead.
_PATIENCE_MS = 2000
_MOST_NUMBERS = 4
_CRASHED = 9  # one of the reasons of the prefork server's ineligible.py
_DO_NOT_WAIT = 0x40  # MSG_DONTWAIT


class WarmSandboxProcess:
    """Ends what a call has started, and answers only when nothing of it is alive.

    What the prefork server says is not trusted: it is a number or nothing, and concerns its own
    skill's call alone.
    """

    def __init__(
        self, sock: _socket.socket, control: _socket.socket, leftovers: OwnFolders
    ) -> None:
        self._sock = sock
        self._control = control
        self._leftovers = leftovers
        self._tree = NamespaceTree()
        self._call = 1  # the one that runs, or will
        self._ready = False
        self._alarm = alarm.child_alarm()
        self._poll = select.poll()
        for fd in (sock.fileno(), control.fileno(), self._alarm):
            self._poll.register(fd, select.POLLIN)

    def serve(self) -> None:
        serving = True
        while serving:
            # What has ended comes before what the host wants done about it.
            ready = {fd for fd, _ in self._poll.poll()}
            if self._alarm in ready:
                alarm.clear(self._alarm)
                reap_ended()
            if self._control.fileno() in ready:
                serving = self._hear()
            if serving and self._sock.fileno() in ready:
                serving = self._obey()
        self._leftovers.remove()

    def _hear(self) -> bool:
        """Take one word of the prefork server; whether this sandbox goes on."""
        kind, numbers = self._receive()
        if not self._ready:
            return self._begin(kind, numbers)
        if kind == wire.ENDED and len(numbers) == _MOST_NUMBERS:
            return self._finish(numbers)
        # It cannot serve this call after all, as a child that was given it has seen; or it is
        # gone, and what it forked was handed to us; or it talks nonsense.
        self._end_tree()
        if kind == wire.INELIGIBLE:
            self._say(wire.INELIGIBLE, numbers)
        else:
            self._say(wire.LOST, [self._call])
        return False

    def _receive(self) -> tuple[bytes, list[int]]:
        """Return a letter and numbers, no letter when that is not what came."""
        message = wire.receive(self._control)
        if message is None:
            return b"", []
        for fd in message.fds:
            os.close(fd)
        try:
            return message.kind, [int(word) for word in message.body.split(maxsplit=_MOST_NUMBERS)]
        except ValueError:
            return b"", []

    def _begin(self, kind: bytes, numbers: list[int]) -> bool:
        """Pass on that the prefork server is ready, or why it never will be."""
        self._ready = kind == wire.READY
        if self._ready:
            self._say(wire.READY, [])
            return True
        self._end_tree()
        self._say(wire.INELIGIBLE, numbers if kind == wire.INELIGIBLE else [_CRASHED])
        return False

    def _finish(self, numbers: list[int]) -> bool:
        """End what is left of the call and answer; whether another may come after it."""
        clean = self._end_tree() and self._leftovers.clean()
        # A child that a signal ended may have been waiting only: another must not take its call
        # before the host has seen that.
        clean = clean and numbers[0] >= 0
        now = time.monotonic_ns() // 1000  # a host may be long in hearing of it
        self._say(wire.ENDED, [self._call, *numbers, int(clean), now])
        self._call += 1
        return clean and self._ask_for_next()

    def _ask_for_next(self) -> bool:
        try:
            # A prefork server that does not listen must not hold up its sandbox.
            self._control.send(wire.NEXT, _DO_NOT_WAIT)
        except OSError:
            return False
        return True

    def _end_tree(self) -> bool:
        """Kill and reap; whether nothing is left, even of what the prefork server has to reap."""
        self._tree.end()
        return not self._tree.signal(signals.KILL)

    def _say(self, kind: bytes, numbers: list[int]) -> None:
        try:
            self._sock.send(kind + b"".join(b" %d" % number for number in numbers))
        except OSError:
            return  # the host is gone; the next receive says so

    def _obey(self) -> bool:
        """Do what the host asks about the running call; whether there still is a host."""
        message = wire.receive(self._sock)
        if message is None:
            return False
        if int(message.body) != self._call:
            return True  # it has just ended: late, not wrong
        if message.kind == wire.TERMINATE:
            reached = self._tree.signal(signals.TERMINATE)
            self._tree.signal(signals.CONTINUE)
            return reached or self._give_up()
        return self._kill()

    def _kill(self) -> bool:
        """Kill the call, and a prefork server that has not begun it or does not tell its end."""
        if not self._tree.signal(signals.KILL):
            return self._give_up()
        waiting = select.poll()
        waiting.register(self._control.fileno(), select.POLLIN)
        if not waiting.poll(_PATIENCE_MS):
            return self._give_up()
        call = self._call
        going_on = self._hear()
        # A word about something else may mean that it begins the call only now.
        return self._give_up() if going_on and self._call == call else going_on

    def _give_up(self) -> bool:
        self._end_tree()
        self._say(wire.ENDED, [self._call, -signals.KILL, 0, 0, 0, 0])
        return False
