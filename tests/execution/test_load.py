"""Many calls at once: while parts are killed, in bursts, and when nobody calls any more."""

import asyncio
import secrets
from pathlib import Path

import pytest

from skillpouch.execution.engine import Engine
from tests.effort import few_or_many
from tests.execution.load import Storm, descriptors, resident_kib
from tests.execution.warm_calls import (
    Skill,
    below,
    prefork_servers,
    until,
    waiting_children,
    zygotes,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


def new_skill(folder: Path) -> Skill:
    for part in ("skill", "workspace"):
        (folder / part).mkdir(parents=True)
    token = secrets.token_hex(8)
    return Skill(home=folder / "skill", workspace=folder / "workspace", token=token)


@pytest.mark.promise("warm-6")
@few_or_many("calls", 640, 3_200)
async def test_while_everything_is_killed_at_random_each_call_is_right_or_said_to_be_lost(
    tmp_path: Path, calls: int
) -> None:
    skill, others = new_skill(tmp_path), set(below())
    often = 0.3 * min(1, calls / 2_000)  # enough to meet every sort of process
    async with Engine(grace_seconds=0.2) as engine:
        await Storm(skill, engine, 1).rage(max(192, calls // 5), 64, kill_every=often)
        before = resident_kib(), descriptors()
        storm = Storm(skill, engine, 2)
        await storm.rage(calls, 64, kill_every=often)
        after = resident_kib(), descriptors()

    assert storm.wrong == []
    assert sum(storm.became.values()) == calls
    assert set(storm.killed) == {"prefork", "sandbox", "child", "zygote"}
    assert set(below()) <= others
    assert after[0] - before[0] < 8192
    assert after[1] - before[1] < 64  # sandboxes that are idle, and what is still ending


async def test_a_burst_of_sleeping_calls_makes_slots_and_idleness_ends_them(
    tmp_path: Path,
) -> None:
    skill, others = new_skill(tmp_path), set(below())
    async with Engine(idle_seconds=0.5) as engine:
        warm = skill.caller(engine)
        script = "import time\nprint('up', flush=True)\ntime.sleep(1)\n"
        most = 0

        def count(*_: object) -> None:
            nonlocal most
            most = max(most, len(prefork_servers()))

        ended = await asyncio.gather(*(warm(script, on_output=count) for _ in range(24)))
        assert {(each.outcome, each.warm) for each in ended} == {("ok", True)}
        assert most > 4

        await until(lambda: set(below()) <= others)
        assert (await warm(script)).stdout.text == "up\n"


@few_or_many("scripts", 24, 100)
async def test_many_scripts_called_once_each_are_all_let_go(tmp_path: Path, scripts: int) -> None:
    skill, others = new_skill(tmp_path), set(below())
    async with Engine(idle_seconds=1) as engine:
        warm = skill.caller(engine)
        most = 0
        for number in range(scripts):
            ended = await warm(f"import json\nprint({number})", name=f"s{number}")
            assert (ended.stdout.text, ended.warm) == (f"{number}\n", True)
            most = max(most, len(prefork_servers()))
        # Sixteen idle, the one that runs, and those that a busy machine has not quite ended.
        assert most <= 64

        await until(lambda: set(below()) <= others)


async def test_no_more_than_thirty_two_zygotes_live_however_many_skills_are_called(
    tmp_path: Path,
) -> None:
    skills = [new_skill(tmp_path / str(number)) for number in range(48)]
    others, most = len(zygotes()), 0

    async with Engine() as engine:

        async def call(number: int) -> str:
            nonlocal most
            ended = await skills[number].caller(engine)(
                "import sys\nprint(sys.argv[1])", str(number)
            )
            most = max(most, len(zygotes()) - others)
            return ended.stdout.text

        for _ in range(2):
            said = await asyncio.gather(*(call(number) for number in range(48)))
            assert said == [f"{number}\n" for number in range(48)]
        await until(lambda: len(zygotes()) - others <= 32)
        assert len(waiting_children()) <= 64

    assert most <= 32 + 16  # those that were let go may still be ending
