"""The zygotes that are alive: found by plan, replaced when dead, ended when nobody needs them."""

import asyncio
from collections import OrderedDict

from kitbag.execution.confinement import Plan
from kitbag.execution.plain import PlainSlot, PlainZygote
from kitbag.execution.slots import Slot
from kitbag.execution.zygotes import LimitFields, Zygote

AnyZygote = Zygote | PlainZygote


class ZygotePool:
    """At most `most` zygotes, least recently used first out, none left after `idle_seconds`."""

    def __init__(self, *, most: int, idle_seconds: float) -> None:
        self._most = most
        self._idle_seconds = idle_seconds
        self._zygotes: OrderedDict[Plan, AnyZygote] = OrderedDict()
        self._ending: set[AnyZygote] = set()
        self._room = asyncio.Event()
        self._clock: asyncio.TimerHandle | None = None

    async def take(self, plan: Plan, limits: LimitFields) -> Slot | PlainSlot:
        """Return a slot of the plan's zygote, which may die while it is asked for one."""
        while True:
            zygote = await self._get(plan)
            try:
                return zygote.take(limits)
            except (BrokenPipeError, ConnectionResetError):
                zygote.close()

    async def _get(self, plan: Plan) -> AnyZygote:
        """Return the plan's zygote, starting it when there is none; wait when all are busy."""
        while True:
            zygote = self._zygotes.get(plan)
            if zygote is not None and zygote.alive:
                self._zygotes.move_to_end(plan)
                return zygote
            if zygote is not None:
                self._drop(plan)
            if self._make_room():
                return self._start(plan)
            self._room.clear()
            await self._room.wait()

    def _start(self, plan: Plan) -> AnyZygote:
        loop = asyncio.get_running_loop()
        zygote: AnyZygote = Zygote(loop, plan) if plan.zygote else PlainZygote(loop)
        self._zygotes[plan] = zygote
        if self._clock is None:
            self._clock = loop.call_later(self._idle_seconds / 2, self._sweep)
        return zygote

    def _make_room(self) -> bool:
        if len(self._zygotes) < self._most:
            return True
        for plan, zygote in self._zygotes.items():
            if not zygote.busy or not zygote.alive:
                self._drop(plan)
                return True
        return False

    def _drop(self, plan: Plan) -> None:
        zygote = self._zygotes.pop(plan)
        zygote.close()
        if not zygote.ended.done():
            self._ending.add(zygote)
            zygote.ended.add_done_callback(lambda _: self._ending.discard(zygote))

    def released(self) -> None:
        """Hear that a call has ended, so that a zygote may have become idle."""
        self._room.set()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time() - self._idle_seconds
        for plan, zygote in list(self._zygotes.items()):
            if not zygote.alive or (not zygote.busy and zygote.used_at < before):
                self._drop(plan)
            else:
                zygote.end_idle_slots(before)
        self._clock = None
        if self._zygotes:
            self._clock = loop.call_later(self._idle_seconds / 2, self._sweep)

    async def close(self) -> None:
        """End every zygote and wait until all of them are gone."""
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        for plan in list(self._zygotes):
            self._drop(plan)
        for zygote in list(self._ending):
            await zygote.ended

    def abandon(self) -> None:
        for zygote in (*self._zygotes.values(), *self._ending):
            zygote.abandon()
        self._zygotes.clear()
        self._ending.clear()
