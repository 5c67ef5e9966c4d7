"""Slots of one sort: who gets one, who waits, how many are kept. Real slots, a waiting bash."""

import asyncio
import errno
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import pytest

from skillpouch.execution.command import Prestarted
from skillpouch.execution.confinement import Confinement, plan
from skillpouch.execution.job_channel import SlotKey, Unfit
from skillpouch.execution.proxy.uplink import Uplink
from skillpouch.execution.shelf import AnySlot, Shelf
from skillpouch.execution.slots import Owner
from skillpouch.execution.zygotes import OpenedPaths, Zygote, probe
from skillpouch.limits import Limits
from tests.execution.test_zygotes import until

WAIT = "printf r >&4; read -r job <&4; printf '0\\n' >&4; read -r _ <&4"


@pytest.fixture
async def zygote(workspace: Path) -> AsyncIterator[Zygote]:
    machine = await asyncio.to_thread(probe)
    chosen = plan(Confinement(workspace=workspace), machine)
    found = workspace.stat()
    opened = OpenedPaths(chosen, ((found.st_dev, found.st_ino),))
    zygote = Zygote(asyncio.get_running_loop(), chosen, opened, lambda: Uplink(most=1))
    opened.close()
    yield zygote
    zygote.close()
    await zygote.ended


@pytest.fixture
def key(workspace: Path, zygote: Zygote) -> SlotKey:
    env = (("PATH", "/usr/bin:/bin"),)
    waits = Prestarted(argv=("/bin/bash", "-c", WAIT), env=env, cwd=workspace)
    return SlotKey(limits=zygote._plan.limit_fields(Limits()), warm=waits)


@pytest.fixture
def shelf(zygote: Zygote, key: SlotKey) -> Shelf:
    """One that starts nothing ahead."""
    make = partial(zygote._new_warm, key)
    shelf = Shelf(zygote._loop, make, zygote, start_seconds=0.03)
    zygote._shelves[key] = shelf
    return shelf


@pytest.fixture
def stocked(zygote: Zygote, key: SlotKey) -> Shelf:
    """One that starts programs before they are asked for."""
    shelf = zygote._shelves[key] = zygote._new_shelf(key)
    return shelf


async def take(shelf: Shelf) -> AnySlot:
    slot = await shelf.take()
    assert not isinstance(slot, Unfit)
    return slot


async def waiting_for(shelf: Shelf) -> "asyncio.Task[AnySlot | Unfit]":
    """Ask for a slot when all are in use and another would take long to start."""
    await until(lambda: not shelf._starting)
    shelf._start_seconds = 1000.0
    task = asyncio.ensure_future(shelf.take())
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_a_slot_that_was_given_back_is_handed_out_again(shelf: Shelf) -> None:
    first = await take(shelf)
    first.give_back(reusable=True)

    assert (shelf.idle, shelf.busy, shelf.in_use) == ((first,), (), False)
    assert await take(shelf) is first


async def test_a_slot_that_cannot_be_used_again_is_closed(shelf: Shelf) -> None:
    slot = await take(shelf)

    slot.give_back(reusable=False)

    assert (shelf.idle, slot.alive) == ((), False)


async def test_of_programs_that_serve_one_call_three_are_kept(stocked: Shelf) -> None:
    slots = await asyncio.gather(*(take(stocked) for _ in range(6)))
    assert len(set(slots)) == 6

    for slot in slots:
        slot.give_back(reusable=True)

    assert len(stocked.idle) == 3
    assert sum(slot.alive for slot in slots) <= 3


async def test_a_call_that_finds_one_ready_has_the_next_one_started(stocked: Shelf) -> None:
    slot = await take(stocked)
    await until(lambda: slot.is_ready(0))
    slot.give_back(reusable=True)
    await until(lambda: slot.is_ready(0))

    again = await take(stocked)

    assert again is slot
    assert len(stocked.idle) == 1
    await until(lambda: stocked.idle[0].is_ready(0))


async def test_a_program_that_cannot_be_started_ahead_is_nobodys_trouble(
    zygote: Zygote, key: SlotKey
) -> None:
    made: list[AnySlot] = []

    def make(owner: Owner) -> AnySlot:
        if made:
            raise OSError(errno.EMFILE, "too many open files")
        made.append(zygote._new_warm(key, owner))
        return made[0]

    shelf = Shelf(asyncio.get_running_loop(), make, zygote, start_seconds=0.03, most_spare=3)
    (await take(shelf)).give_back(reusable=True)

    assert await take(shelf) is made[0]
    made[0].give_back(reusable=False)


async def test_whoever_waits_gets_the_slot_that_is_given_back(shelf: Shelf) -> None:
    slot = await take(shelf)
    task = await waiting_for(shelf)

    slot.give_back(reusable=True)

    assert await task is slot
    assert shelf.busy == (slot,)


async def test_whoever_waits_too_long_gets_a_new_slot(shelf: Shelf) -> None:
    slot = await take(shelf)

    other = await asyncio.wait_for(shelf.take(), 100)

    assert other is not slot
    assert set(shelf.busy) == {slot, other}


async def test_whoever_waits_for_a_slot_that_ends_gets_another(shelf: Shelf) -> None:
    slot = await take(shelf)
    task = await waiting_for(shelf)

    slot.give_back(reusable=False)

    other = await task
    assert other is not slot
    assert shelf.busy == (other,)


async def test_who_stops_waiting_leaves_no_trace(shelf: Shelf) -> None:
    slot = await take(shelf)
    task = await waiting_for(shelf)

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    slot.give_back(reusable=True)

    assert (shelf.idle, shelf.in_use) == ((slot,), False)


async def test_a_slot_handed_to_somebody_who_has_just_gone_is_kept(shelf: Shelf) -> None:
    slot = await take(shelf)
    task = await waiting_for(shelf)

    slot.give_back(reusable=True)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (shelf.idle, shelf.busy, shelf.in_use) == ((slot,), (), False)


async def test_when_it_closes_those_who_wait_are_told(shelf: Shelf) -> None:
    slot = await take(shelf)
    task = await waiting_for(shelf)

    shelf.close()

    with pytest.raises(BrokenPipeError):
        await task
    assert shelf.busy == (slot,)


async def test_a_cancelled_call_that_was_told_so_is_only_cancelled(shelf: Shelf) -> None:
    await take(shelf)
    task = await waiting_for(shelf)

    shelf.close()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_when_no_slot_can_serve_everybody_hears_why(shelf: Shelf) -> None:
    slot = await take(shelf)
    task = await waiting_for(shelf)
    unfit = Unfit(reason="its imports print")

    shelf.unfit(slot, unfit)

    assert (await task, await shelf.take(), shelf.is_unfit) == (unfit, unfit, True)


async def test_slots_that_nobody_used_are_ended_also_those_that_are_not_ready(
    shelf: Shelf,
) -> None:
    slots = await asyncio.gather(*(take(shelf) for _ in range(3)))
    for slot in slots:
        slot.give_back(reusable=True)

    shelf.end_idle(before=float("inf"))

    assert (shelf.idle, [slot.alive for slot in slots]) == ((), [False] * 3)
    assert not shelf._starting
    assert (await take(shelf)).alive


async def test_the_slot_that_was_used_longest_ago_is_ended_first(shelf: Shelf) -> None:
    first, second = await asyncio.gather(take(shelf), take(shelf))
    first.give_back(reusable=True)
    second.give_back(reusable=True)

    shelf.trim()

    assert (shelf.idle, first.alive, second.alive) == ((second,), False, True)


async def two_that_worked(shelf: Shelf) -> list[AnySlot]:
    """Have two slots serve calls that used half of the one processor there is."""
    shelf._processors = 1
    slots = await asyncio.gather(take(shelf), take(shelf))
    await until(lambda: not shelf._starting)
    for slot in slots:
        slot.ran_seconds, slot.worked_seconds = 0.002, 0.001
        slot.give_back(reusable=True)
    return list(slots)


async def test_while_calls_keep_the_processors_busy_no_slot_is_added(shelf: Shelf) -> None:
    slots = await two_that_worked(shelf)
    assert set(await asyncio.gather(take(shelf), take(shelf))) == set(slots)
    shelf._start_seconds = 1e-9  # any wait is longer than starting another

    waiting = asyncio.ensure_future(shelf.take())
    await asyncio.sleep(0.05)
    slots[0].give_back(reusable=True)

    assert await waiting is slots[0]


async def test_a_slot_is_added_when_calls_that_used_to_work_end_no_more(shelf: Shelf) -> None:
    slots = await two_that_worked(shelf)
    await asyncio.gather(take(shelf), take(shelf))
    shelf._start_seconds = 0.01

    added = await asyncio.wait_for(shelf.take(), 10)

    assert added not in slots


async def test_while_calls_only_wait_slots_are_added(shelf: Shelf) -> None:
    slot = await take(shelf)
    await until(lambda: not shelf._starting)
    slot.ran_seconds, slot.worked_seconds = 0.002, 0.0
    slot.give_back(reusable=True)
    assert await take(shelf) is slot
    shelf._start_seconds = 1e-9

    assert await take(shelf) is not slot
