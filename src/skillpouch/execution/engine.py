"""Engine: runs commands under confinement; all of the host's programs start here."""

import asyncio
import os
import resource
import time
import weakref
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from skillpouch.environment import state_directory
from skillpouch.errors import (
    CommandStartError,
    NoPlaceError,
    PathReplacedError,
    SandboxFailedError,
)
from skillpouch.execution.call import Call, OnOutput
from skillpouch.execution.cgroups import Cgroup, CgroupError
from skillpouch.execution.command import (
    Command,
    Ended,
    PreforkSpec,
    Prestarted,
    key_of,
    warm_of,
    why_not_started,
)
from skillpouch.execution.confinement import Confinement, Plan
from skillpouch.execution.layers import why_direct
from skillpouch.execution.machine import Machine
from skillpouch.execution.proxy.allowlist import through_proxy
from skillpouch.execution.replies import Finished, Ineligible, Lost, NotStarted, Reply, verdict
from skillpouch.execution.sandbox_pool import AnySandbox, give_back_with_layer
from skillpouch.execution.sandboxes import (
    OwnSandbox,
    SandboxProvider,
    confined_by,
    provider_named,
)
from skillpouch.execution.unsandboxed import UnsandboxedProcess
from skillpouch.execution.zygote import wire
from skillpouch.execution.zygote_client import probe
from skillpouch.execution.zygote_pool import Taken, ZygotePool
from skillpouch.runtime.loop_thread import UncancellableFuture, is_loop_thread, run_on_thread
from skillpouch.runtime.memoize import BoundedCache

_MOST_ZYGOTES, _MOST_RUNNING = 32, 128
_MOST_JOBS = 64  # background commands at once; they have zygotes of their own
_SHARE = 0.75  # the share of all running calls that one workspace, and so one session, may have
_NOTICED_SECONDS = 0.01  # waiting for longer than this counts against a call's time limit
_MOST_PLANS = 1_024  # each version of a watched skill has its own plan


def _most_running() -> int:
    """Return how many calls may run at once: each needs at least four descriptors of the host."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(_MOST_RUNNING, (soft - 64) // 8))


class Engine:
    """Runs commands on the event loop of its first use; other threads use the loop thread.

    On a timeout, everything the call started gets SIGTERM, and `grace_seconds` later SIGKILL.
    `machine` replaces the probe of this machine; `provider` confines every command, whatever
    provider a confinement names.
    """

    def __init__(
        self,
        *,
        most_zygotes: int = _MOST_ZYGOTES,
        most_running: int | None = None,
        idle_seconds: float = 60.0,
        grace_seconds: float = 0.5,
        machine: Machine | None = None,
        provider: SandboxProvider | None = None,
    ) -> None:
        self._machine = machine
        self._provider = provider
        self._new_pool = partial(ZygotePool, most=most_zygotes, idle_seconds=idle_seconds)
        self._new_jobs = partial(ZygotePool, most=_MOST_JOBS, idle_seconds=idle_seconds)
        self._most_running = most_running
        self._grace_seconds = grace_seconds
        self._loop: asyncio.AbstractEventLoop | None = None
        self._start_over()
        self._plans: BoundedCache[Confinement, Plan] = BoundedCache(_MOST_PLANS)
        _engines.add(self)

    async def run(
        self, command: Command, confinement: Confinement, on_output: OnOutput | None = None
    ) -> Ended:
        """Run one command; when this returns or raises, nothing the command started is alive.

        Raises:
            SandboxUnavailableError: this machine cannot confine it as asked; nothing ran.
            CommandStartError: there is no such program or folder; nothing ran.
            NoPlaceError: no process became free in the time that the call may take; nothing ran.
        """
        started = time.monotonic()
        self._settle_on_loop()
        chosen = self._plans.get(confinement)
        if chosen is None:  # seldom: our own plans are cached
            command, chosen = await self._confined(command, confinement)
        if chosen.proxy_port:
            command = through_proxy(command, chosen.hosts)
        planned = time.monotonic() - started
        pool = self._jobs if command.background else self._pool
        places = self._job_places if command.background else self._places
        run = partial(self._run, pool, command, chosen, on_output)
        asked = time.monotonic()
        async with places.one_for(chosen.workspace, command, asked):
            warm, why = warm_of(command, chosen)
            ran = await run(warm, asked)
            if isinstance(ran, Ineligible):
                why = ran.reason
                ran = await run(None, time.monotonic())
        if isinstance(ran, Lost):
            return _never_ran(chosen, time.monotonic() - started)
        assert isinstance(ran, Ran)
        finished = _finished(ran, command)
        laps = (("look at the machine", planned), ("wait for a process", ran.waited))
        spent = Spent(seconds=time.monotonic() - started, laps=laps, cold_because=why)
        return _ended(finished, ran, chosen, spent)

    async def _run(
        self,
        pool: ZygotePool,
        command: Command,
        chosen: Plan,
        on_output: OnOutput | None,
        warm: PreforkSpec | Prestarted | None,
        since: float,
    ) -> "Ran | Ineligible | Lost":
        asked = time.monotonic()
        key = key_of(chosen.limit_fields(command.limits), warm)
        zygote = pool.get_now(chosen)
        idle = zygote.take_idle(key) if zygote is not None else None
        sandbox = idle or await _take(pool.take(chosen, key, zygote), command, since)
        if isinstance(sandbox, Ineligible | Lost):
            return sandbox
        now = time.monotonic()
        waited = now - asked
        call = Call(
            sandbox,
            command,
            workspace=chosen.workspace,
            timeout_seconds=_time_left(command, now - since),
            grace_seconds=self._grace_seconds,
            on_output=on_output,
        )
        reusable = False
        _begin(sandbox)
        try:
            reply = await call.run(_started(call, sandbox, command))
            out_of_memory = _is_out_of_memory(sandbox.cgroup, reply)
            reusable = not out_of_memory and (not isinstance(reply, Finished) or reply.reusable)
        finally:
            refused = _give_back(sandbox, command, reusable=reusable)
            pool.released()
        if isinstance(reply, Ineligible):
            return reply
        return Ran(
            reply=reply,
            call=call,
            waited=waited,
            warm=sandbox.is_warm,
            failure=sandbox.failure,
            refused=refused,
            out_of_memory=out_of_memory,
        )

    def _settle_on_loop(self) -> None:
        loop = asyncio.get_running_loop()
        if self._loop is loop:
            return
        if self._loop is not None:
            if not self._loop.is_closed():
                raise RuntimeError("this engine belongs to another event loop that is still open")
            for zygote in (*self._pool.abandon(), *self._jobs.abandon()):
                zygote.reap()
            self._start_over()
        self._loop = loop
        most = self._most_running or _most_running()
        self._places = _Places(most, share=max(1, int(most * _SHARE)))
        self._job_places = _Places(_MOST_JOBS, share=_MOST_JOBS)

    def _start_over(self) -> None:
        self._pool, self._jobs = self._new_pool(), self._new_jobs()
        # Replaced by `_settle_on_loop`, when a loop is running.
        self._places = self._job_places = _Places(1, share=1)
        self._loop = None

    async def _confined(self, command: Command, confinement: Confinement) -> tuple[Command, Plan]:
        """Return the command as its sandbox provider confines it, and its plan."""
        if self._machine is None:
            self._machine = await asyncio.to_thread(probe)
        machine = self._machine
        if confinement.layered and why_direct(confinement.workspace, machine, state_directory()):
            machine = replace(machine, overlay=False)
        provider = self._provider or provider_named(confinement.sandbox, machine)
        command = replace(command, confinement=confinement)
        confined, chosen = confined_by(provider, command, machine)
        # Other providers may confine each command differently.
        if isinstance(provider, OwnSandbox):
            self._plans[confinement] = chosen
        return confined, chosen

    async def forget(self, workspace: Path) -> None:
        """End the idle processes of a workspace, and drop its plans."""
        for each in list(self._plans):  # a copy: another thread may add a plan meanwhile
            if each.workspace == workspace:
                self._plans.pop(each, None)
        if self._loop is asyncio.get_running_loop():
            await self._pool.end_idle_in(workspace)
            await self._jobs.end_idle_in(workspace)

    async def close(self) -> None:
        """End all zygotes; a call that still runs or waits is lost."""
        pool, self._pool = self._pool, self._new_pool()
        jobs, self._jobs = self._jobs, self._new_jobs()
        await pool.close()
        await jobs.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def abandon(self) -> None:
        """Forget all processes without ending them: after a fork they belong to the parent."""
        self._pool.abandon()
        self._jobs.abandon()
        self._start_over()


class _Places:
    """How many commands may run at once, and how many of them in one workspace.

    A workspace that has used up its share waits for its own calls first, then for a free place.
    """

    def __init__(self, most: int, *, share: int) -> None:
        self._all = asyncio.Semaphore(most)
        self._share = share
        self._own: dict[Path, tuple[asyncio.Semaphore, int]] = {}

    @asynccontextmanager
    async def one_for(self, workspace: Path, command: Command, since: float) -> AsyncIterator[None]:
        own, users = self._own.get(workspace) or (asyncio.Semaphore(self._share), 0)
        self._own[workspace] = (own, users + 1)
        try:
            if own.locked() or self._all.locked():
                async with _in_time(command, since):
                    await self._take_both(own)
            else:  # the usual case: no timer is needed without waiting
                await self._take_both(own)
            try:
                yield
            finally:
                self._all.release()
                own.release()
        finally:
            own, users = self._own[workspace]
            self._own[workspace] = (own, users - 1)
            if users == 1:
                del self._own[workspace]

    async def _take_both(self, own: asyncio.Semaphore) -> None:
        await own.acquire()
        try:
            await self._all.acquire()
        except BaseException:
            own.release()
            raise


@asynccontextmanager
async def _in_time(command: Command, since: float) -> AsyncIterator[None]:
    """Count the waiting time against the time limit of the call."""
    limit = command.limits.timeout_seconds
    try:
        async with asyncio.timeout(limit - (time.monotonic() - since)):
            yield
    except TimeoutError:
        raise NoPlaceError(command.argv[0], limit) from None
    except CgroupError as error:
        raise SandboxFailedError(str(error)) from error


async def _take(taking: Coroutine[Any, Any, Taken], command: Command, since: float) -> Taken:
    """Wait for a sandbox, with a timer; most calls find an idle sandbox and need none."""
    async with _in_time(command, since):
        return await taking


def _started(
    call: Call, sandbox: AnySandbox | UnsandboxedProcess, command: Command
) -> UncancellableFuture[Reply]:
    """Start the program of a call; the future is done when nothing of it is alive."""
    streams = call.open()
    try:
        call.feed()
        return sandbox.start(command, streams)
    except BaseException:
        call.close()
        raise
    finally:
        streams.close_theirs()


def _begin(sandbox: AnySandbox | UnsandboxedProcess) -> None:
    if sandbox.listener is not None:
        sandbox.listener.open()
    if sandbox.layer is not None:
        sandbox.layer.begin()


def _give_back(
    sandbox: AnySandbox | UnsandboxedProcess, command: Command, *, reusable: bool
) -> tuple[str, ...]:
    """Take what a call changed, and give back its sandbox; return the hosts it was refused."""
    refused = sandbox.listener.shut() if sandbox.listener is not None else ()
    if isinstance(sandbox, UnsandboxedProcess):
        sandbox.give_back(reusable=reusable)
    else:
        # Nobody may settle a background command before its sandbox is needed again.
        lends = not command.background
        give_back_with_layer(sandbox, command.layers, reusable=reusable, lends=lends)
    return refused


def _time_left(command: Command, spent: float) -> float:
    if spent < _NOTICED_SECONDS:
        return command.limits.timeout_seconds
    return max(_NOTICED_SECONDS, command.limits.timeout_seconds - spent)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """A call that has ended, as its sandbox reports it."""

    reply: Finished | NotStarted | Lost
    call: Call
    waited: float
    warm: bool
    failure: str
    refused: tuple[str, ...]
    out_of_memory: bool


def _is_out_of_memory(cgroup: Cgroup | None, reply: Reply) -> bool:
    """Tell whether the kernel killed a call for its memory; not if it ended with an exit code."""
    if cgroup is None or (isinstance(reply, Finished) and reply.status >= 0):
        return False
    return cgroup.out_of_memory


def _finished(ran: Ran, command: Command) -> Finished | None:
    """Return how the program ended, None when it was lost; raise when it never ran."""
    match ran.reply:
        case Finished():
            return ran.reply
        case NotStarted():
            raise CommandStartError(command.argv[0], why_not_started(command, ran.reply.errno))
        case Lost():
            reason = ran.failure or ran.reply.reason
            if reason.startswith(wire.REPLACED):
                path = reason.removeprefix(wire.REPLACED)
                raise PathReplacedError(path, "it was replaced while it was opened")
            if reason:
                raise SandboxFailedError(reason)
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """The duration of a call, and its steps."""

    seconds: float
    laps: tuple[tuple[str, float], ...]
    cold_because: str


def _ended(finished: Finished | None, ran: Ran, chosen: Plan, spent: Spent) -> Ended:
    call = ran.call
    ended_by = call.ended_by or ("memory_limit" if ran.out_of_memory else None)
    outcome, exit_code, code = verdict(finished, ended_by)
    by_signal = finished is not None and finished.status < 0 and exit_code is None
    return Ended(
        outcome=outcome,
        exit_code=exit_code,
        signal=-finished.status if finished is not None and by_signal else None,
        code=code,
        stdout=call.output["stdout"],
        stderr=call.output["stderr"],
        duration_seconds=spent.seconds,
        usage=finished.usage if finished is not None else None,
        protections=dict(chosen.protections),
        answer=call.answer,
        warm=ran.warm,
        cold_because=spent.cold_because,
        refused_hosts=ran.refused,
        looked_up=finished.looked_up if finished is not None else (),
        traces=finished.traces if finished is not None else 0,
        laps=spent.laps,
    )


def _never_ran(chosen: Plan, seconds: float) -> Ended:
    """Return the end of a call that was lost before it started."""
    outcome, exit_code, code = verdict(None, None)
    return Ended(
        outcome=outcome,
        exit_code=exit_code,
        code=code,
        duration_seconds=seconds,
        protections=dict(chosen.protections),
    )


_engines: "weakref.WeakSet[Engine]" = weakref.WeakSet()


def _after_fork() -> None:
    for engine in list(_engines):
        engine.abandon()


os.register_at_fork(after_in_child=_after_fork)


_engine = Engine()


async def run_command(
    command: Command, confinement: Confinement, on_output: OnOutput | None = None
) -> Ended:
    """Run one command from any event loop; `on_output` is called on the caller's loop.

    An error of `on_output` ends the call, and is raised here.
    """
    if on_output is None or is_loop_thread():
        return await run_on_thread(_engine.run(command, confinement, on_output))
    relay = _Relay(on_output)
    relay.running = asyncio.ensure_future(
        run_on_thread(_engine.run(command, confinement, relay.forward))
    )
    try:
        return await relay.running
    except asyncio.CancelledError:
        relay.running.cancel()
        if relay.error is None:
            raise
        raise relay.error from None


async def end_programs_in(workspace: Path) -> None:
    """End the idle processes of a workspace; return when they are gone."""
    await run_on_thread(_engine.forget(workspace))


class _Relay:
    """Carries output from the loop thread to the loop of the caller."""

    def __init__(self, on_output: OnOutput) -> None:
        self.running: asyncio.Future[Ended] | None = None
        self.error: Exception | None = None
        self._on_output = on_output
        self._loop = asyncio.get_running_loop()

    def forward(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        self._loop.call_soon_threadsafe(self._deliver, stream, data)

    def _deliver(self, stream: Literal["stdout", "stderr"], data: bytes) -> None:
        if self.error is not None:
            return
        try:
            self._on_output(stream, data)
        except Exception as error:  # noqa: BLE001 - the caller's own code; raised to the caller
            self.error = error
            if self.running is not None:
                self.running.cancel()
