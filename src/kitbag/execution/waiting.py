"""A slot in which a program already waits: it serves one call, then another is started."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from kitbag.execution.command import Command, Prestarted
from kitbag.execution.replies import Finished, Reply, Unfit
from kitbag.execution.slots import Owner, Slot
from kitbag.execution.streams import Streams

if TYPE_CHECKING:
    from kitbag.execution.proxy.door import Door

_LONGEST_WORD = 16


class _Place:
    """The owner of the slot that a program waits in: what befalls it befalls the waiting one."""

    def __init__(self, tenant: "WaitingSlot", owner: Owner) -> None:
        self._tenant = tenant
        self._owner = owner

    @property
    def failure(self) -> str:
        return self._owner.failure

    def give_back(self, slot: Slot, *, reusable: bool) -> None:
        """Nothing: the tenant keeps it."""

    def lose(self, slot: Slot) -> None:
        del slot
        self._owner.lose(self._tenant)

    def ready(self, slot: Slot) -> None:
        """Nothing: there is no nursery."""

    def unfit(self, slot: Slot, unfit: Unfit) -> None:
        """Nothing: there is no nursery."""


class WaitingSlot:
    """Starts the program ahead; what its call is comes over a socket, as one line of JSON."""

    is_warm = True

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        prestarted: Prestarted,
        owner: Owner,
        make: Callable[[Owner], Slot],
    ) -> None:
        self._loop = loop
        self._command = Command(argv=prestarted.argv, env=dict(prestarted.env), cwd=prestarted.cwd)
        self._owner = owner
        self._unsent = memoryview(b"")
        self._slot = make(_Place(self, owner))
        self.idle_since = loop.time()
        self.prepare()

    @property
    def alive(self) -> bool:
        return self._slot.alive

    @property
    def failure(self) -> str:
        return self._owner.failure

    @property
    def door(self) -> "Door | None":
        return self._slot.door

    def is_ready(self, _now: float) -> bool:
        return self._is_ready and not self._reply.done()

    def prepare(self) -> None:
        """Start the program that will serve the next call."""
        self._is_ready = False
        self._answer: asyncio.Future[Reply] = self._loop.create_future()
        self._said = b""
        self._streams = Streams(feeds=True, answers=True, ordered=True)
        self._reply = self._slot.start(self._command, self._streams)
        self._reply.add_done_callback(self._take)
        self._streams.close_theirs()
        self._orders = self._streams.orders
        assert self._orders is not None
        self._loop.add_reader(self._orders.fileno(), self._hear)

    def _hear(self) -> None:
        """Take the sign that the program is ready, and later the status that it ends with."""
        assert self._orders is not None
        try:
            heard = self._orders.recv(_LONGEST_WORD)
        except BlockingIOError:
            return
        except OSError:
            heard = b""
        self._said += heard
        if not heard or len(self._said) > _LONGEST_WORD:
            self._loop.remove_reader(self._orders.fileno())
        if heard and not self._is_ready:
            self._is_ready = True
            self._owner.ready(self)
        if self._said.endswith(b"\n"):
            self._slot.kill()

    def _take(self, reply: "asyncio.Future[Reply]") -> None:
        """Pass the end on, with the status that the program said before it was ended."""
        ended = reply.result()
        said = self._said.strip(b"r\n")
        if isinstance(ended, Finished) and ended.status < 0 and said.isdigit():
            ended = replace(ended, status=int(said) & 0xFF)
        if not self._answer.done():
            self._answer.set_result(ended)

    def open(self, command: Command) -> Streams:
        """Return the pipes that the waiting program has; start another where it is gone."""
        del command  # every call of it has the same ones
        if self._reply.done():
            self._drop_streams()
            self.prepare()
        return self._streams

    def start(self, command: Command, streams: Streams) -> "asyncio.Future[Reply]":
        """Tell the program its call; the future is done when nothing of it is alive."""
        del streams  # it has them
        job = {"argv": command.argv, "env": dict(command.env), "cwd": str(command.cwd)}
        self._unsent = memoryview(json.dumps(job).encode() + b"\n")
        self._send()
        return self._answer

    def _send(self) -> None:
        assert self._orders is not None
        try:
            self._unsent = self._unsent[self._orders.send(self._unsent) :]
        except BlockingIOError:
            pass
        except OSError:
            self._unsent = memoryview(b"")  # it is gone, and its slot will say so
        if self._unsent:
            self._loop.add_writer(self._orders.fileno(), self._send)
        else:
            self._loop.remove_writer(self._orders.fileno())

    def give_back(self, *, reusable: bool) -> None:
        self._drop_streams()
        if reusable and self._slot.alive:
            self.prepare()
        self._owner.give_back(self, reusable=reusable)

    def _drop_streams(self) -> None:
        if self._orders is not None and self._orders.fileno() >= 0:
            self._loop.remove_reader(self._orders.fileno())
            self._loop.remove_writer(self._orders.fileno())
        self._orders = None
        self._streams.close()

    def terminate(self) -> None:
        self._slot.terminate()

    def kill(self) -> None:
        self._slot.kill()

    def confirm_lost(self) -> None:
        self._slot.confirm_lost()

    def drop(self) -> None:
        self._slot.drop()

    def close(self) -> None:
        if self._slot.alive:
            self._slot.close()
        self._drop_streams()

    def abandon(self) -> None:
        self._slot.abandon()
        self._streams.close()
