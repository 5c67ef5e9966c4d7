"""ZygotePool: finds a living zygote for a plan, replaces dead ones, ends unused ones."""

import asyncio
import os
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from skillpouch.errors import PathReplacedError
from skillpouch.execution.command import SandboxKey
from skillpouch.execution.confinement import Plan
from skillpouch.execution.opened_paths import Identity, OpenedPaths
from skillpouch.execution.package_files import packaged_configuration
from skillpouch.execution.replies import Ineligible, Lost
from skillpouch.execution.sandbox_pool import AnySandbox
from skillpouch.execution.unsandboxed import PlainZygote, UnsandboxedProcess
from skillpouch.execution.zygote_client import ZygoteClient

if TYPE_CHECKING:
    from skillpouch.execution.proxy.dialer import Dialer

AnyZygote = ZygoteClient | PlainZygote
Taken = AnySandbox | UnsandboxedProcess | Ineligible | Lost


# A plan, and the identities of the folders behind its paths: a folder that was deleted and made
# again is another one, and a zygote would go on showing the old one. Here links are followed, which
# is safe: a zygote starts only if it opened the same folders without following links.
# The last are those of the files of a skill that are mounted one by one.
Key = tuple[Plan, tuple[Identity, ...], tuple[Identity, ...]]


def _key(plan: Plan) -> Key:
    covered = tuple([_identity(f"{plan.own_home}/{path}") for path in plan.covered])
    return plan, tuple([_identity(path) for path in plan.required_paths]), covered


def _identity(path: str) -> Identity:
    try:
        found = os.stat(path)  # noqa: PTH116 - four times per call: Path.stat costs twice as much
    except OSError:
        return (0, 0)  # opening it will report the error
    return found.st_dev, found.st_ino


_SHARE = 0.75  # the share of zygotes that one workspace, and so one session, may keep busy


class ZygotePool:
    """At most `most` zygotes; the least recently used ends first, and all after `idle_seconds`.

    One workspace never keeps all of them busy, and only its part while another one waits.
    """

    def __init__(self, *, most: int, idle_seconds: float) -> None:
        self._most = most
        self._share = max(1, int(most * _SHARE))
        self._idle_seconds = idle_seconds
        self._dialer: Dialer | None = None
        self._zygotes: OrderedDict[Key, AnyZygote] = OrderedDict()
        self._ending: set[AnyZygote] = set()
        self._waiting: Counter[Path] = Counter()
        self._room = asyncio.Event()
        self._clock: asyncio.TimerHandle | None = None
        self._closed = False

    async def take(self, plan: Plan, key: SandboxKey, zygote: AnyZygote | None) -> Taken:
        """Return a sandbox of the plan's zygote; tries another zygote if that one dies meanwhile.

        `zygote` is what `get_now` found a moment ago.
        """
        while True:
            zygote = zygote or await self._get(plan)
            if zygote is None:
                return Lost()
            try:
                return await zygote.take(key)
            except (BrokenPipeError, ConnectionResetError):
                zygote.close()
                zygote = None

    async def _get(self, plan: Plan) -> AnyZygote | None:
        """Return the plan's zygote, starting it when there is none; wait when all are busy."""
        zygote = self.get_now(plan)
        if zygote is not None:
            return zygote
        async with self._counted(plan.workspace):
            while zygote is None and not self._closed:
                self._room.clear()
                await self._room.wait()
                zygote = self.get_now(plan)
        return zygote

    @asynccontextmanager
    async def _counted(self, workspace: Path) -> AsyncIterator[None]:
        """Count this workspace among the waiting ones."""
        self._waiting[workspace] += 1
        try:
            yield
        finally:
            self._waiting[workspace] -= 1
            if not self._waiting[workspace]:
                del self._waiting[workspace]
                self._room.set()  # with one workspace less waiting, the others may use more

    def get_now(self, plan: Plan) -> AnyZygote | None:
        """Return the plan's zygote, started if needed; None while too many others are busy."""
        if self._closed:
            return None
        try:
            return self._find_or_start(plan)
        except PathReplacedError:
            # Once more: whoever installs a package replaces files of the system meanwhile.
            return self._find_or_start(plan)

    def _find_or_start(self, plan: Plan) -> AnyZygote | None:
        key = _key(plan)
        zygote = self._zygotes.get(key)
        if zygote is not None and not zygote.alive:
            self._drop(key)
            zygote = None
        if zygote is not None and (zygote.busy or self._may_have_one_more(plan.workspace)):
            self._zygotes.move_to_end(key)
            return zygote
        if zygote is None and self._may_have_one_more(plan.workspace) and self._make_room():
            self._drop_outdated(plan)
            return self._start(key)
        return None

    def _drop_outdated(self, plan: Plan) -> None:
        """End the idle zygotes of a session's earlier state: its next calls see more layers."""
        for key, zygote in list(self._zygotes.items()) if plan.stack else ():
            old = key[0].stack
            is_before = key[0].workspace == plan.workspace and len(old) < len(plan.stack)
            if old and is_before and plan.stack[-len(old) :] == old and not zygote.busy:
                self._drop(key)

    def _may_have_one_more(self, workspace: Path) -> bool:
        share = self._share
        if len(self._zygotes) < share and not self._waiting:
            return True  # the usual case; the check below counts all zygotes
        busy = Counter(key[0].workspace for key, each in self._zygotes.items() if each.busy)
        others = (self._waiting.keys() | busy.keys()) - {workspace}
        if self._waiting.keys() - {workspace}:
            share = min(share, self._most // (len(others) + 1))
        return busy[workspace] < max(1, share)

    def _start(self, key: Key) -> AnyZygote:
        loop = asyncio.get_running_loop()
        zygote = self._new_zygote(loop, *key[:2]) if key[0].zygote else PlainZygote(loop)
        self._zygotes[key] = zygote
        if self._clock is None:
            self._clock = loop.call_later(self._idle_seconds / 2, self._sweep)
        return zygote

    def _new_zygote(
        self, loop: asyncio.AbstractEventLoop, plan: Plan, identities: tuple[Identity, ...]
    ) -> ZygoteClient:
        opened = OpenedPaths(plan, identities, packaged_configuration())
        try:
            return ZygoteClient(loop, plan, opened, self._the_dialer)
        finally:
            opened.close()

    def _the_dialer(self) -> "Dialer":
        """Return the dialer of all tools, loaded and made when the first tool needs it."""
        if self._dialer is None:
            from skillpouch.execution.proxy.dialer import Dialer, most_connections

            self._dialer = Dialer(most=most_connections())
        return self._dialer

    def _make_room(self) -> bool:
        if len(self._zygotes) < self._most:
            return True
        idle = [key for key, each in self._zygotes.items() if not each.busy or not each.alive]
        if not idle:
            return False
        held = Counter(key[0].workspace for key in self._zygotes)
        above = [key for key in idle if held[key[0].workspace] > self._share]
        self._drop((above or idle)[0])
        return True

    def _drop(self, key: Key) -> None:
        zygote = self._zygotes.pop(key)
        zygote.close()
        if not zygote.ended.done():
            self._ending.add(zygote)
            zygote.ended.add_done_callback(lambda _: self._ending.discard(zygote))

    def released(self) -> None:
        """Note that a call has ended, so that a zygote may have become idle."""
        self._room.set()

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        before = loop.time() - self._idle_seconds
        for key, zygote in list(self._zygotes.items()):
            if not zygote.alive or (not zygote.busy and zygote.used_at < before):
                self._drop(key)
            else:
                zygote.end_idle_sandboxes(before)
        self._clock = None
        if self._zygotes:
            self._clock = loop.call_later(self._idle_seconds / 2, self._sweep)

    async def end_idle_in(self, workspace: Path) -> None:
        """End the idle zygotes of a workspace; wait until they are gone."""
        found = [key for key in self._zygotes if key[0].workspace == workspace]
        idle = {key: self._zygotes[key] for key in found if not self._zygotes[key].busy}
        for key in idle:
            self._drop(key)
        for zygote in idle.values():
            await zygote.ended

    async def close(self) -> None:
        """End every zygote and wait until all are gone; waiting calls get none."""
        self._closed = True
        self._room.set()
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
        for key in list(self._zygotes):
            self._drop(key)
        for zygote in list(self._ending):
            await zygote.ended
        if self._dialer is not None:
            self._dialer.close()
            self._dialer = None

    def abandon(self) -> tuple[AnyZygote, ...]:
        """Close descriptors without touching the loop, and forget all zygotes."""
        left = (*self._zygotes.values(), *self._ending)
        for zygote in left:
            zygote.abandon()
        self._zygotes.clear()
        self._ending.clear()
        return left
