"""Two sessions, the same names, sixty-four calls at once: nobody gets another's tool."""

import asyncio
import random

import pytest

from skillpouch import SessionManager
from skillpouch.errors import UnknownToolError
from tests.sessions.conftest import say

pytestmark = pytest.mark.slow

WAYS = 64


@pytest.mark.timeout(300)
@pytest.mark.promise("sess-1")
async def test_the_right_tool_every_time_under_sixty_four_calls(sessions: SessionManager) -> None:
    names = ["a", "b"]
    for name in names:
        await sessions.create_session(name)
        await sessions.use_skill(name, "speaker", say(f"echo {name} $PWD"))
    where = {name: await sessions.workspace(name) for name in names}

    async def call(number: int) -> tuple[str, str]:
        name = names[number % 2]
        return name, (await sessions.execute(name, "say")).content

    answers = await asyncio.gather(*(call(number) for number in range(2 * WAYS)))

    assert {content for name, content in answers if name == "a"} == {f"a {where['a']}"}
    assert {content for name, content in answers if name == "b"} == {f"b {where['b']}"}


@pytest.mark.timeout(300)
@pytest.mark.promise("sess-1")
async def test_what_one_removes_changes_and_destroys_never_touches_the_other(
    sessions: SessionManager,
) -> None:
    await sessions.create_session("steady")
    await sessions.use_skill("steady", "speaker", say("echo steady"))
    seen: list[str] = []
    moments = random.Random(3)

    async def restless(number: int) -> None:
        name = await sessions.create_session(f"restless-{number}")
        # The same text as that of the other, now and then: its folder is the same.
        for said in ("steady", f"restless-{number}"):
            await sessions.use_skill(name, "speaker", say(f"echo {said}"))
            if moments.random() < 0.5:
                assert (await sessions.execute(name, "say")).content == said
        assert await sessions.remove_skill(name, "speaker") == ["say"]
        with pytest.raises(UnknownToolError):
            await sessions.execute(name, "say")
        await sessions.destroy_session(name)

    async def steady(_: int) -> None:
        seen.append((await sessions.execute("steady", "say")).content)

    work = [steady(number) for number in range(WAYS)]
    work += [restless(number) for number in range(WAYS // 4)]
    moments.shuffle(work)
    await asyncio.gather(*work)

    assert seen == ["steady"] * WAYS
    assert await sessions.list_active_skills("steady") == ["speaker"]
    assert (await sessions.execute("steady", "say")).content == "steady"
    assert await sessions.list_sessions() == ["steady"]


async def test_one_session_used_and_left_by_many_at_once_ends_as_one_of_them_left_it(
    sessions: SessionManager,
) -> None:
    session = await sessions.create_session()
    await sessions.use_skill(session, "speaker", say("echo 0"))

    async def change(number: int) -> None:
        await sessions.use_skill(session, "speaker", say(f"echo {number}"))
        await sessions.use_skill(session, f"other-{number}", say("echo x", tool=f"t{number}"))

    async def call() -> None:
        assert (await sessions.execute(session, "say")).content.isdigit()

    work = [change(number) for number in range(1, 9)] + [call() for _ in range(16)]
    await asyncio.gather(*work)

    content = (await sessions.execute(session, "say")).content
    assert content in set(map(str, range(9)))
    restarted = SessionManager()
    assert (await restarted.execute(session, "say")).content == content
    assert set(await restarted.list_active_skills(session)) == {
        "speaker",
        *(f"other-{number}" for number in range(1, 9)),
    }
    await restarted.close()
