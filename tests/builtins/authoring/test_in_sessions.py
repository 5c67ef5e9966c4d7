"""An agent makes a tool in a conversation, calls it there, and finds it again after a restart."""

from typing import Any

import pytest

from skillpouch import SessionManager
from skillpouch.checks.report import check_skills
from skillpouch.errors import UnknownToolError
from tests.sessions.conftest import say, state

pytestmark = pytest.mark.slow

SHOUT: dict[str, Any] = {
    "name": "shout",
    "description": "Say it in capital letters",
    "parameters": '{"text": {"type": "string", "description": "what to say"}}',
    "code": "return args['text'].upper()",
}


@pytest.mark.promise("sess-1")
async def test_a_tool_belongs_to_the_session_that_made_it() -> None:
    sessions = SessionManager(define_tools=True)
    one, other = await sessions.create_session(), await sessions.create_session()

    for persistent in ("false", "true"):
        made = await sessions.execute(one, "define_tool", {**SHOUT, "persistent": persistent})
        assert made.outcome == "ok", made.content
        assert (await sessions.execute(one, "shout", {"text": "hi"})).structured == "HI"
        with pytest.raises(UnknownToolError):
            await sessions.execute(other, "shout", {"text": "hi"})
        names = [each["name"] for each in await sessions.definitions(one)]
        assert names == ["define_tool", "remove_tool", "shout"]

    theirs = {**SHOUT, "code": "return args['text'].lower()"}
    assert (await sessions.execute(other, "define_tool", theirs)).outcome == "ok"
    assert (await sessions.execute(other, "shout", {"text": "Hi"})).structured == "hi"
    assert (await sessions.execute(one, "shout", {"text": "Hi"})).structured == "HI"
    await sessions.execute(other, "remove_tool", {"name": "shout"})
    assert (await sessions.execute(one, "shout", {"text": "Hi"})).structured == "HI"
    await sessions.close()


@pytest.mark.promise("def-2")
async def test_a_persistent_tool_survives_a_restart_and_a_temporary_one_does_not() -> None:
    before = SessionManager(define_tools=True)
    session = await before.create_session()
    await before.execute(session, "define_tool", {**SHOUT, "persistent": "true"})
    await before.execute(session, "define_tool", {**SHOUT, "name": "whisper"})
    await before.close()

    after = SessionManager(define_tools=True)

    assert (await after.execute(session, "shout", {"text": "hi"})).structured == "HI"
    with pytest.raises(UnknownToolError):
        await after.execute(session, "whisper", {"text": "hi"})
    checked = check_skills([state() / "sessions"], strict=True, progress=lambda _d, _a: None)
    assert (checked.tools, checked.problems) == (1, ())
    await after.execute(session, "remove_tool", {"name": "shout"})
    await after.close()
    again = SessionManager(define_tools=True)
    assert [each.id for each in await again.tools(session)] == ["define_tool", "remove_tool"]
    await again.close()


async def test_a_skill_in_use_is_neither_taken_nor_removed() -> None:
    sessions = SessionManager(define_tools=True)
    session = await sessions.create_session()
    await sessions.use_skill(session, "speaker", say("echo hello", tool="shout"))

    assert (await sessions.execute(session, "define_tool", SHOUT)).code == "conflict"
    assert (await sessions.execute(session, "remove_tool", {"name": "shout"})).code == "denied"

    assert (await sessions.execute(session, "shout")).content == "hello"
    await sessions.close()


async def test_a_skill_does_not_take_the_place_of_a_tool_that_was_made() -> None:
    sessions = SessionManager(define_tools=True)
    session = await sessions.create_session()
    await sessions.execute(session, "define_tool", SHOUT)

    with pytest.raises(Exception, match="define_tool made") as raised:
        await sessions.use_skill(session, "shout", say("echo hello", name="shout"))

    assert getattr(raised.value, "code", "") == "skill_text"
    assert (await sessions.execute(session, "shout", {"text": "hi"})).structured == "HI"
    await sessions.close()
