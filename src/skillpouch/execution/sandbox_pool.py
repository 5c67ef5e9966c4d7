"""SandboxPool: sandboxes of one kind; decides whether a call waits for one or makes another."""

import asyncio
import os
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from skillpouch.calls import CallLayers
from skillpouch.execution.prestarted import PrestartedSandbox
from skillpouch.execution.replies import Ineligible
from skillpouch.execution.sandbox_client import Layer, SandboxClient, SandboxOwner

AnySandbox = SandboxClient | PrestartedSandbox

_REMEMBERED = 0.2  # the weight of the last call in the moving averages
_PER_PROCESSOR = 2  # sandboxes per processor: while one call is ended and recorded, another runs
_LATE_SECONDS = 0.25  # a host that starts many calls may learn of their ends this late
# The processors count as busy when calls use this share; starting calls uses the rest.
_BUSY_SHARE = 0.4


class PoolOwner(Protocol):
    """The owner of a pool."""

    @property
    def failure(self) -> str: ...

    def used(self) -> None: ...

    def lost(self, sandbox: AnySandbox) -> None: ...


class SandboxPool:
    """Hands out sandboxes; `start_seconds` is the cost of making one, 0 if it costs nothing.

    Sandboxes that serve one call and then start again: at most `most_spare` are kept ready, one
    more each time a call found none. 0 is for sandboxes that do not start again.

    A call waits when a running call should end before a new sandbox is ready, or when the running
    calls keep the processors busy. At most as many start at once as there are processors: more
    would only delay each other.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        make: Callable[[SandboxOwner], AnySandbox],
        keeper: PoolOwner,
        *,
        start_seconds: float = 0.0,
        most_spare: int = 0,
    ) -> None:
        self._loop = loop
        self._make = partial(make, self)
        self._keeper = keeper
        self._start_seconds = start_seconds
        self._usual_seconds = start_seconds
        self._usual_run = self._usual_work = 0.0  # seconds per call, and processor seconds per call
        self._processors = os.cpu_count() or 1
        self._most_spare = most_spare
        self._spare = 0
        self._idle: list[AnySandbox] = []
        self._busy: dict[AnySandbox, float] = {}
        self._starting: dict[AnySandbox, float] = {}
        self._waiting: deque[asyncio.Future[AnySandbox | Ineligible]] = deque()
        self._ineligible: Ineligible | None = None
        self._finished_at = loop.time()
        self._clock: asyncio.TimerHandle | None = None

    @property
    def failure(self) -> str:
        return self._keeper.failure

    @property
    def idle(self) -> tuple[AnySandbox, ...]:
        return tuple(self._idle)

    @property
    def busy(self) -> tuple[AnySandbox, ...]:
        return tuple(self._busy)

    @property
    def is_ineligible(self) -> bool:
        return self._ineligible is not None

    @property
    def in_use(self) -> bool:
        return bool(self._busy or self._waiting)

    async def take(self) -> AnySandbox | Ineligible:
        """Return a sandbox for the caller alone, or why this pool cannot have any."""
        if self._ineligible is not None:
            return self._ineligible
        sandbox = self.take_idle()
        if sandbox is not None:
            return sandbox
        self._spare = min(self._spare + 1, self._most_spare)
        if self._is_worth_another(len(self._waiting) + 1):
            return self._new()
        return await self._wait()

    def take_idle(self) -> AnySandbox | None:
        """Return an idle sandbox, if there is one."""
        if self._ineligible is not None:
            return None
        if not self._busy:
            # Nothing was running that could have ended earlier.
            self._finished_at = self._loop.time()
        sandbox = self._choose_idle()
        while sandbox is not None and not _is_current(sandbox):
            sandbox.close()
            sandbox = self._choose_idle()
        if sandbox is not None:
            self._busy[sandbox] = self._loop.time()
            self._restock()
        return sandbox

    def _choose_idle(self) -> AnySandbox | None:
        # The one used last, because its memory is still in the caches; unused ones may then end.
        self._idle = [sandbox for sandbox in self._idle if sandbox.alive]
        now = self._loop.time()
        for place in range(len(self._idle) - 1, -1, -1):
            if self._idle[place].is_ready(now):
                return self._idle.pop(place)
        if self._idle:
            self._spare = min(self._spare + 1, self._most_spare)
            return self._idle.pop(0)
        return None

    def _restock(self) -> None:
        """Start a spare sandbox for the next calls, one at a time, because no call waits for it."""
        if len(self._idle) >= self._spare or self._starting:
            return
        try:
            sandbox = self._make()
        except OSError:
            return  # the next call will try again, and report the error
        self._starting[sandbox] = sandbox.idle_since = self._loop.time()
        self._idle.append(sandbox)

    def _is_worth_another(self, waiting: int) -> bool:
        count = len(self._busy)
        if not count or not self._start_seconds:
            return True
        if len(self._starting) >= self._processors:
            return False
        if count >= self._processors * _PER_PROCESSOR and self._are_processors_busy(count):
            return False
        usual = max(self._usual_seconds, self._loop.time() - self._finished_at)
        return waiting * usual / count > self._start_seconds

    def _are_processors_busy(self, count: int) -> bool:
        """Tell whether calls mostly use the processors: more at once would only be slower."""
        run, silence = self._usual_run, self._loop.time() - self._finished_at
        if silence > _LATE_SECONDS:
            run = max(run, silence)
        elif not run:
            return True  # nothing was measured yet
        return count * self._usual_work > run * self._processors * _BUSY_SHARE

    def _new(self) -> AnySandbox:
        sandbox = self._make()
        self._busy[sandbox] = self._loop.time()
        if self._start_seconds:
            self._starting[sandbox] = self._loop.time()
        return sandbox

    async def _wait(self) -> AnySandbox | Ineligible:
        place: asyncio.Future[AnySandbox | Ineligible] = self._loop.create_future()
        self._waiting.append(place)
        self._look_again_later()
        try:
            return await place
        except asyncio.CancelledError:
            self._return(place)
            raise

    def _return(self, place: "asyncio.Future[AnySandbox | Ineligible]") -> None:
        """Take back a sandbox that was handed to a cancelled waiter."""
        if place.done() and not place.cancelled() and place.exception() is None:
            given = place.result()
            if not isinstance(given, Ineligible):
                self.give_back(given, reusable=True)

    def _look_again_later(self) -> None:
        if self._clock is None:
            self._clock = self._loop.call_later(self._start_seconds, self._look_again)

    def _look_again(self) -> None:
        self._clock = None
        self._grow()
        if self._waiting:
            self._look_again_later()

    def _grow(self) -> None:
        """Make sandboxes for waiting calls, as long as that shortens their wait."""
        while self._waiting and self._is_worth_another(len(self._waiting)):
            place = self._next_in_line()
            if place is not None:
                self._hand_new(place)

    def _hand_new(self, place: "asyncio.Future[AnySandbox | Ineligible]") -> None:
        try:
            place.set_result(self._new())
        except OSError as error:
            place.set_exception(error)

    def _next_in_line(self) -> "asyncio.Future[AnySandbox | Ineligible] | None":
        while self._waiting:
            place = self._waiting.popleft()
            if not place.done():
                return place
        return None

    def ready(self, sandbox: AnySandbox) -> None:
        """Note how long the start of a sandbox took."""
        started = self._starting.pop(sandbox, None)
        if started is not None:
            self._start_seconds = self._loop.time() - started
            self._grow()
            self._restock()

    def ineligible(self, sandbox: AnySandbox, ineligible: Ineligible) -> None:
        """Note that no sandbox of this pool can serve the script; tell all waiting calls."""
        del sandbox
        self._ineligible = ineligible
        while (place := self._next_in_line()) is not None:
            place.set_result(ineligible)

    def give_back(self, sandbox: AnySandbox, *, reusable: bool) -> None:
        now = self._loop.time()
        self._note(sandbox, now)
        self._keeper.used()
        place = self._next_in_line()
        if reusable and (place is not None or self._has_room()) and _renewed(sandbox, place):
            sandbox.in_crowd = place is not None
            if place is not None:
                self._busy[sandbox] = now
                place.set_result(sandbox)
            else:
                sandbox.idle_since = now
                self._idle.append(sandbox)
            return
        sandbox.close()
        if place is not None:
            self._hand_new(place)

    def _has_room(self) -> bool:
        return not self._most_spare or len(self._idle) < self._most_spare

    def trim(self) -> None:
        """Close the sandbox that was used longest ago."""
        self._end(self._idle[0])

    def _end(self, sandbox: AnySandbox) -> None:
        self._idle.remove(sandbox)
        self._starting.pop(sandbox, None)
        sandbox.close()

    def _note(self, sandbox: AnySandbox, now: float) -> None:
        started = self._busy.pop(sandbox, now)
        if self._starting.pop(sandbox, None) is None:
            self._usual_seconds += _REMEMBERED * (now - started - self._usual_seconds)
            self._learn(sandbox)
        self._finished_at = now

    def _learn(self, sandbox: AnySandbox) -> None:
        """Update the averages, but not while sandboxes start: then calls wait for processors."""
        if self._starting:
            return
        if not self._usual_run:
            self._usual_run, self._usual_work = sandbox.ran_seconds, sandbox.worked_seconds
        self._usual_run += _REMEMBERED * (sandbox.ran_seconds - self._usual_run)
        self._usual_work += _REMEMBERED * (sandbox.worked_seconds - self._usual_work)

    def lose(self, sandbox: AnySandbox) -> None:
        self._starting.pop(sandbox, None)
        if sandbox in self._idle:
            self._idle.remove(sandbox)  # it had no call
            sandbox.close()
        else:
            self._keeper.lost(sandbox)

    def end_idle(self, before: float) -> None:
        """Close sandboxes not used since `before`."""
        for sandbox in [sandbox for sandbox in self._idle if sandbox.idle_since < before]:
            self._end(sandbox)

    def close(self) -> None:
        """Close idle sandboxes; waiting calls get an error."""
        if self._clock is not None:
            self._clock.cancel()
        for sandbox in self._idle:
            sandbox.close()
        self._idle.clear()
        while (place := self._next_in_line()) is not None:
            place.set_exception(BrokenPipeError())


def _renewed(sandbox: AnySandbox, place: object) -> bool:
    """Make a sandbox ready for another call; return whether that worked.

    `place` is that of the call if it is already waiting.
    """
    try:
        sandbox.renew()
    except OSError:
        return False
    return sandbox.alive and (place is None or _is_current(sandbox))


def _is_current(sandbox: AnySandbox) -> bool:
    """Tell whether a sandbox shows the workspace as it is now."""
    try:
        return sandbox.layer is None or sandbox.layer.renew()
    except OSError:
        return False


def give_back_with_layer(
    sandbox: AnySandbox, layers: list[Path], *, reusable: bool, lends: bool
) -> None:
    """Take what a call changed, and give back its sandbox: later if its layer is lent."""
    layer = sandbox.layer
    if layer is not None:
        lends = lends and isinstance(layers, CallLayers)
        taken, reusable = layer.take(reusable=reusable, lends=lends)
        layers.extend(taken)
        loop = asyncio.get_running_loop()
        if layer.is_lent and isinstance(layers, CallLayers):
            layers.lent[taken[0]] = partial(_end_loan, loop, sandbox, layer)
            return
        if reusable:
            _forget_names(loop, sandbox, layer)
    sandbox.give_back(reusable=reusable)


def _forget_names(loop: asyncio.AbstractEventLoop, sandbox: AnySandbox, layer: Layer) -> None:
    # A prestarted program may look at names before its call: they are forgotten then.
    if isinstance(sandbox, SandboxClient):
        layer.forget_soon(loop)


def _end_loan(
    loop: asyncio.AbstractEventLoop, sandbox: AnySandbox, layer: Layer, is_back: bool
) -> None:
    """Give back a sandbox whose layer was lent; from any thread."""

    def end() -> None:
        reusable = layer.take_back(is_back=is_back)
        if reusable:  # only now: meanwhile it would keep from work whoever had the layer
            _forget_names(loop, sandbox, layer)
        sandbox.give_back(reusable=reusable)

    with suppress(RuntimeError):  # the loop is closed, and its sandboxes with it
        loop.call_soon_threadsafe(end)
