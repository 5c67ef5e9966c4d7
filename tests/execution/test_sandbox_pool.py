"""Slots of one sort: who gets one, who waits, how many are kept. Real sandboxes, a waiting bash."""

import asyncio
import errno
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from skillpouch.execution.command import Prestarted, SandboxKey
from skillpouch.execution.confinement import Confinement, plan
from skillpouch.execution.opened_paths import OpenedPaths
from skillpouch.execution.proxy.dialer import Dialer
from skillpouch.execution.replies import Ineligible
from skillpouch.execution.sandbox_client import SandboxOwner
from skillpouch.execution.sandbox_pool import AnySandbox, SandboxPool
from skillpouch.execution.zygote_client import ZygoteClient, probe
from skillpouch.limits import Limits
from tests.execution.test_zygotes import until

pytestmark = pytest.mark.slow

WAIT = "printf r >&4; read -r job <&4; printf '0\\n' >&4; read -r _ <&4"


@pytest.fixture
async def zygote(workspace: Path) -> AsyncIterator[ZygoteClient]:
    machine = await asyncio.to_thread(probe)
    chosen = plan(Confinement(workspace=workspace), machine)
    found = workspace.stat()
    opened = OpenedPaths(chosen, ((found.st_dev, found.st_ino),))
    zygote = ZygoteClient(asyncio.get_running_loop(), chosen, opened, lambda: Dialer(most=1))
    opened.close()
    yield zygote
    zygote.close()
    await zygote.ended


@pytest.fixture
def key(workspace: Path, zygote: ZygoteClient) -> SandboxKey:
    env = (("PATH", "/usr/bin:/bin"),)
    waits = Prestarted(argv=("/bin/bash", "-c", WAIT), env=env, cwd=workspace)
    return SandboxKey(limits=zygote._plan.limit_fields(Limits()), warm=waits)


@pytest.fixture
def pool(zygote: ZygoteClient, key: SandboxKey) -> SandboxPool:
    """One that starts nothing ahead."""
    make = partial(zygote._new_warm, key)
    pool = SandboxPool(zygote._loop, make, zygote, start_seconds=0.03)
    zygote._pools[key] = pool
    return pool


@pytest.fixture
def stocked(zygote: ZygoteClient, key: SandboxKey) -> SandboxPool:
    """One that starts programs before they are asked for."""
    pool = zygote._pools[key] = zygote._new_pool(key)
    return pool


async def take(pool: SandboxPool) -> AnySandbox:
    sandbox = await pool.take()
    assert not isinstance(sandbox, Ineligible)
    return sandbox


async def waiting_for(pool: SandboxPool) -> "asyncio.Task[AnySandbox | Ineligible]":
    """Ask for a sandbox when all are in use and another would take long to start."""
    await until(lambda: not pool._starting)
    pool._start_seconds = 1000.0
    task = asyncio.ensure_future(pool.take())
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_a_slot_that_was_given_back_is_handed_out_again(pool: SandboxPool) -> None:
    first = await take(pool)
    first.give_back(reusable=True)

    assert (pool.idle, pool.busy, pool.in_use) == ((first,), (), False)
    assert await take(pool) is first


async def test_a_slot_that_cannot_be_used_again_is_closed(pool: SandboxPool) -> None:
    sandbox = await take(pool)

    sandbox.give_back(reusable=False)

    assert (pool.idle, sandbox.alive) == ((), False)


async def test_of_programs_that_serve_one_call_three_are_kept(stocked: SandboxPool) -> None:
    sandboxes = await asyncio.gather(*(take(stocked) for _ in range(6)))
    assert len(set(sandboxes)) == 6

    for sandbox in sandboxes:
        sandbox.give_back(reusable=True)

    assert len(stocked.idle) == 3
    assert sum(sandbox.alive for sandbox in sandboxes) <= 3


async def test_a_call_that_finds_one_ready_has_the_next_one_started(stocked: SandboxPool) -> None:
    sandbox = await take(stocked)
    await until(lambda: sandbox.is_ready(0))
    sandbox.give_back(reusable=True)
    await until(lambda: sandbox.is_ready(0))

    again = await take(stocked)

    assert again is sandbox
    assert len(stocked.idle) == 1
    await until(lambda: stocked.idle[0].is_ready(0))


async def test_a_program_that_cannot_be_started_ahead_is_nobodys_trouble(
    zygote: ZygoteClient, key: SandboxKey
) -> None:
    made: list[AnySandbox] = []

    def make(owner: SandboxOwner) -> AnySandbox:
        if made:
            raise OSError(errno.EMFILE, "too many open files")
        made.append(zygote._new_warm(key, owner))
        return made[0]

    pool = SandboxPool(asyncio.get_running_loop(), make, zygote, start_seconds=0.03, most_spare=3)
    (await take(pool)).give_back(reusable=True)

    assert await take(pool) is made[0]
    made[0].give_back(reusable=False)


async def test_whoever_waits_gets_the_slot_that_is_given_back(pool: SandboxPool) -> None:
    sandbox = await take(pool)
    task = await waiting_for(pool)

    sandbox.give_back(reusable=True)

    assert await task is sandbox
    assert pool.busy == (sandbox,)


async def test_whoever_waits_too_long_gets_a_new_slot(pool: SandboxPool) -> None:
    sandbox = await take(pool)

    other = await asyncio.wait_for(pool.take(), 100)

    assert other is not sandbox
    assert set(pool.busy) == {sandbox, other}


async def test_whoever_waits_for_a_slot_that_ends_gets_another(pool: SandboxPool) -> None:
    sandbox = await take(pool)
    task = await waiting_for(pool)

    sandbox.give_back(reusable=False)

    other = await task
    assert other is not sandbox
    assert pool.busy == (other,)


async def test_who_stops_waiting_leaves_no_trace(pool: SandboxPool) -> None:
    sandbox = await take(pool)
    task = await waiting_for(pool)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    sandbox.give_back(reusable=True)

    assert (pool.idle, pool.in_use) == ((sandbox,), False)


async def test_a_slot_handed_to_somebody_who_has_just_gone_is_kept(pool: SandboxPool) -> None:
    sandbox = await take(pool)
    task = await waiting_for(pool)

    sandbox.give_back(reusable=True)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (pool.idle, pool.busy, pool.in_use) == ((sandbox,), (), False)


async def test_when_it_closes_those_who_wait_are_told(pool: SandboxPool) -> None:
    sandbox = await take(pool)
    task = await waiting_for(pool)

    pool.close()

    with pytest.raises(BrokenPipeError):
        await task
    assert pool.busy == (sandbox,)


async def test_a_cancelled_call_that_was_told_so_is_only_cancelled(pool: SandboxPool) -> None:
    await take(pool)
    task = await waiting_for(pool)

    pool.close()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_when_no_slot_can_serve_everybody_hears_why(pool: SandboxPool) -> None:
    sandbox = await take(pool)
    task = await waiting_for(pool)
    ineligible = Ineligible(reason="its imports print")

    pool.ineligible(sandbox, ineligible)

    assert (await task, await pool.take(), pool.is_ineligible) == (ineligible, ineligible, True)


async def test_slots_that_nobody_used_are_ended_also_those_that_are_not_ready(
    pool: SandboxPool,
) -> None:
    sandboxes = await asyncio.gather(*(take(pool) for _ in range(3)))
    for sandbox in sandboxes:
        sandbox.give_back(reusable=True)

    pool.end_idle(before=float("inf"))

    assert (pool.idle, [sandbox.alive for sandbox in sandboxes]) == ((), [False] * 3)
    assert not pool._starting
    assert (await take(pool)).alive


async def test_the_slot_that_was_used_longest_ago_is_ended_first(pool: SandboxPool) -> None:
    first, second = await asyncio.gather(take(pool), take(pool))
    first.give_back(reusable=True)
    second.give_back(reusable=True)

    pool.trim()

    assert (pool.idle, first.alive, second.alive) == ((second,), False, True)


async def two_that_worked(pool: SandboxPool) -> list[AnySandbox]:
    """Have two sandboxes serve calls that used half of the one processor there is."""
    pool._processors = 1
    sandboxes = await asyncio.gather(take(pool), take(pool))
    await until(lambda: not pool._starting)
    for sandbox in sandboxes:
        sandbox.ran_seconds, sandbox.worked_seconds = 0.002, 0.001
        sandbox.give_back(reusable=True)
    return list(sandboxes)


async def test_while_calls_keep_the_processors_busy_no_slot_is_added(pool: SandboxPool) -> None:
    sandboxes = await two_that_worked(pool)
    assert set(await asyncio.gather(take(pool), take(pool))) == set(sandboxes)
    pool._start_seconds = 1e-9  # any wait is longer than starting another

    waiting = asyncio.ensure_future(pool.take())
    await asyncio.sleep(0.05)
    sandboxes[0].give_back(reusable=True)

    assert await waiting is sandboxes[0]


async def test_a_slot_is_added_when_calls_that_used_to_work_end_no_more(pool: SandboxPool) -> None:
    sandboxes = await two_that_worked(pool)
    await asyncio.gather(take(pool), take(pool))
    pool._start_seconds = 0.01

    added = await asyncio.wait_for(pool.take(), 10)

    assert added not in sandboxes


async def test_while_calls_only_wait_slots_are_added(pool: SandboxPool) -> None:
    sandbox = await take(pool)
    await until(lambda: not pool._starting)
    sandbox.ran_seconds, sandbox.worked_seconds = 0.002, 0.0
    sandbox.give_back(reusable=True)
    assert await take(pool) is sandbox
    pool._start_seconds = 1e-9

    assert await take(pool) is not sandbox
