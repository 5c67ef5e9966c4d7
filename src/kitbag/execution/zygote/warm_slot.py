"""A slot whose calls come from a nursery: process 1 of their process table, and nothing else.

The nursery forks them into this table from outside, where they can neither see nor signal it.
"""

from __future__ import annotations

import os
import select

from kitbag.execution.zygote import alarm, signals, wire
from kitbag.execution.zygote.tree import NamespaceTree, reap_ended

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket

    from kitbag.execution.zygote.leftovers import OwnFolders

# How long a nursery may take to say how a call ended that is known to be dead.
_PATIENCE_MS = 2000
_MOST_NUMBERS = 4
_CRASHED = 9  # one of the reasons of the nursery's unfit.py


class WarmSlot:
    """Ends what a call has started, and answers only when nothing of it is alive.

    What the nursery says is not trusted: it is a number or nothing, and concerns its own skill's
    call alone.
    """

    def __init__(self, sock: _socket.socket, nest: _socket.socket, leftovers: OwnFolders) -> None:
        self._sock = sock
        self._nest = nest
        self._leftovers = leftovers
        self._tree = NamespaceTree()
        self._call = 1  # the one that runs, or will
        self._ready = False
        self._alarm = alarm.child_alarm()
        self._poll = select.poll()
        for fd in (sock.fileno(), nest.fileno(), self._alarm):
            self._poll.register(fd, select.POLLIN)

    def serve(self) -> None:
        serving = True
        while serving:
            # What has ended comes before what the host wants done about it.
            ready = {fd for fd, _ in self._poll.poll()}
            if self._alarm in ready:
                alarm.clear(self._alarm)
                reap_ended()
            if self._nest.fileno() in ready:
                serving = self._hear()
            if serving and self._sock.fileno() in ready:
                serving = self._obey()
        self._leftovers.remove()

    def _hear(self) -> bool:
        """Take one word of the nursery; whether this slot goes on."""
        message = wire.receive(self._nest)
        if message is None:
            # The nursery is gone, and what it forked was handed to us.
            self._tree.end()
            if not self._ready:
                self._say(wire.UNFIT, [_CRASHED])
            return False
        for fd in message.fds:
            os.close(fd)
        try:
            numbers = [int(word) for word in message.body.split(maxsplit=_MOST_NUMBERS)]
        except ValueError:
            return False
        if message.kind == wire.ENDED:
            return self._finish(numbers)
        if message.kind in (wire.READY, wire.UNFIT):
            self._say(message.kind, numbers)
        self._ready = message.kind == wire.READY
        return self._ready

    def _finish(self, numbers: list[int]) -> bool:
        """End what is left of the call and answer; whether another may come after it."""
        if len(numbers) != _MOST_NUMBERS:
            return False
        clean = self._end_tree() and self._leftovers.clean()
        self._say(wire.ENDED, [self._call, *numbers, int(clean)])
        self._call += 1
        if clean:
            wire.send(self._nest, wire.NEXT)
        return clean

    def _end_tree(self) -> bool:
        """Kill and reap; whether nothing is left, not even what only the nursery can reap."""
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
        """Kill the call; a nursery that has not begun it, or does not tell its end, goes too."""
        if not self._tree.signal(signals.KILL):
            return self._give_up()
        waiting = select.poll()
        waiting.register(self._nest.fileno(), select.POLLIN)
        return True if waiting.poll(_PATIENCE_MS) else self._give_up()

    def _give_up(self) -> bool:
        self._say(wire.ENDED, [self._call, -signals.KILL, 0, 0, 0, 0])
        return False
