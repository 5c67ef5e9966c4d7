"""What a module can do that a prefork server imports before any call: nothing but harm itself."""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from skillpouch.execution.command import Ended
from skillpouch.execution.engine import Engine
from tests.escapes.preloads import HOSTILE, REACHING_OUT, hostile, reaching_out
from tests.execution.warm_calls import Skill, below, until, with_module

pytestmark = [
    pytest.mark.slow,
    pytest.mark.escape,
    pytest.mark.timeout(240),
    pytest.mark.usefixtures("no_other_processes"),
]

SCRIPT = "import stranger\nprint('ran')\n"
MakeSkill = Callable[..., Skill]


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with Engine(grace_seconds=0.1) as engine:
        yield engine


@pytest.fixture
def make_skill(tmp_path: Path) -> MakeSkill:
    def make(name: str, module: str | None = None) -> Skill:
        home, workspace = tmp_path / name, tmp_path / f"{name}-workspace"
        for folder in (home, workspace):
            folder.mkdir()
        skill = Skill(home=home, workspace=workspace, token=secrets.token_hex(16))
        if module is None:
            return skill
        return with_module(skill, "stranger", module, tmp_path / f"{name}-venv")

    return make


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def is_an_answer(ended: Ended) -> bool:
    """Whether it is right, or says what became of it."""
    if ended.outcome == "ok":
        return ended.stdout.text in ("ran\n", "")
    return ended.code in ("timeout", "zygote_lost") or ended.outcome == "failed"


@pytest.mark.promise("warm-2")
@pytest.mark.promise("warm-3")
@pytest.mark.parametrize("name", HOSTILE)
async def test_a_hostile_module_harms_the_calls_of_its_own_skill_at_most(
    engine: Engine, make_skill: MakeSkill, name: str
) -> None:
    others = set(below())  # such as a shell that waits for the next script
    good, bad = make_skill("good"), make_skill("bad", hostile(name))
    call_good, call_bad = good.caller(engine), bad.caller(engine)
    await call_good("print('fine')")
    before = descriptors()

    for _ in range(2):
        async with asyncio.timeout(100):
            theirs = asyncio.gather(
                *(call_bad(SCRIPT, limits={"timeout_seconds": 1}) for _ in "ab")
            )
            ours = [await call_good("print('fine')") for _ in range(5)]
            answers = await theirs
        assert [ended.stdout.text for ended in ours] == ["fine\n"] * 5
        assert [is_an_answer(ended) for ended in answers] == [True, True]

    await engine.close()
    await until(lambda: set(below()) <= others)
    assert descriptors() < before


@pytest.mark.promise("warm-2")
async def test_a_prefork_reaches_nothing_but_itself(engine: Engine, make_skill: MakeSkill) -> None:
    skill = make_skill("bad", reaching_out())

    ended = await skill.caller(engine)(SCRIPT)

    told = (skill.workspace / "told").read_text().splitlines()
    assert dict(line.split(": ") for line in told) == dict.fromkeys(REACHING_OUT, "denied")
    assert (ended.stdout.text, ended.warm, ended.cold_because) == ("ran\n", True, "")


@pytest.mark.promise("warm-3")
@pytest.mark.timeout(120)
async def test_a_prefork_that_never_reads_its_calls_does_not_hold_up_the_host(
    engine: Engine, make_skill: MakeSkill
) -> None:
    lie = (
        "nest.send(b'Y')\n    while True: nest.send(b'X 0 0 0 0'); nest.recv(16); time.sleep(0.01)"
    )
    preload = hostile("ends well").replace("os._exit(0)", lie)
    call = make_skill("bad", preload).caller(engine)

    for _ in range(10):
        async with asyncio.timeout(60):
            ended = await call(SCRIPT, "x" * 50_000, limits={"timeout_seconds": 1})
        assert is_an_answer(ended)


@pytest.mark.promise("warm-4")
@pytest.mark.parametrize("name", ["ends well", "ends badly", "crashes", "sends garbage"])
async def test_a_module_that_ends_the_prefork_makes_its_calls_cold(
    engine: Engine, make_skill: MakeSkill, name: str
) -> None:
    ended = await make_skill("bad", hostile(name)).caller(engine)(SCRIPT)

    assert (ended.outcome, ended.stdout.text, ended.warm) == ("ok", "ran\n", False)
    assert ended.cold_because == "its imports end the interpreter"
