"""Sessions: what each has for itself, and what all have in common."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from unicodedata import normalize

import pytest

from skillpouch import Policy, SessionManager, SkillManager, ToolExecutor, ToolResult, tool
from skillpouch.discovery.text_skills.folders import SkillNameError, SkillTextError
from skillpouch.errors import (
    CallDeniedError,
    InvalidArgumentsError,
    UnknownToolError,
    WorkspaceError,
)
from skillpouch.journal.reading import JournalReader, Query
from skillpouch.policy import Answer, Question, Rule
from skillpouch.sessions import SessionExistsError, UnknownSessionError
from skillpouch.sessions.errors import SessionNameError
from tests.conftest import WriteSkill
from tests.sessions.conftest import files, say, state

pytestmark = pytest.mark.slow


async def test_a_skill_is_used_and_removed(sessions: SessionManager) -> None:
    session = await sessions.create_session()

    assert await sessions.use_skill(session, "speaker", say("echo hello")) == ["say"]
    assert await sessions.use_skill(session, "speaker", say("echo hello")) == ["say"]
    assert await sessions.list_active_skills(session) == ["speaker"]
    assert (await sessions.execute(session, "say")).content == "hello"
    assert await sessions.remove_skill(session, "speaker") == ["say"]
    assert await sessions.remove_skill(session, "speaker") == []

    assert await sessions.list_active_skills(session) == []
    assert await sessions.definitions(session) == []
    with pytest.raises(UnknownToolError):
        await sessions.execute(session, "say")


async def test_the_name_of_the_skill_is_the_one_it_was_given(sessions: SessionManager) -> None:
    session = await sessions.create_session()

    await sessions.use_skill(session, "loud", say("echo hello", name="whatever"))

    (found,) = await sessions.tools(session)
    assert (found.id, found.skill) == ("loud.say", "loud")
    assert await found.ainvoke() == "hello"


async def test_another_text_of_the_same_name_takes_its_place(sessions: SessionManager) -> None:
    session = await sessions.create_session()
    await sessions.use_skill(session, "speaker", say("echo one"))

    assert await sessions.use_skill(session, "speaker", say("echo two", tool="tell")) == ["tell"]

    assert [each["name"] for each in await sessions.definitions(session)] == ["tell"]
    assert (await sessions.execute(session, "tell")).content == "two"


async def test_a_name_is_the_same_in_every_form_of_unicode(sessions: SessionManager) -> None:
    session = await sessions.create_session()
    composed, apart = (normalize(form, "café") for form in ("NFC", "NFD"))
    await sessions.use_skill(session, composed, say("echo one"))

    assert await sessions.use_skill(session, apart, say("echo two")) == ["say"]

    assert await sessions.list_active_skills(session) == [composed]
    assert (await sessions.execute(session, f"{apart}.say")).content == "two"
    assert await sessions.problems(session, apart) == await sessions.problems(session, composed)
    assert await sessions.remove_skill(session, apart) == ["say"]
    assert await sessions.list_active_skills(session) == []


async def test_shared_skills_are_seen_by_all_and_shadowed_by_one(write_skill: WriteSkill) -> None:
    home = write_skill(
        "shared",
        files={
            "tools.json": '[{"name": "say", "description": "Say", "script": "scripts/say.sh"}]',
            "scripts/say.sh": "echo shared\n",
        },
    )
    sessions = SessionManager(SkillManager(home.parent))
    one, other = await sessions.create_session(), await sessions.create_session()

    await sessions.use_skill(one, "speaker", say("echo mine"))

    assert [each["name"] for each in await sessions.definitions(one)] == ["shared__say", "say"]
    assert [each["name"] for each in await sessions.definitions(other)] == ["say"]
    assert (await sessions.execute(one, "say")).content == "mine"
    assert (await sessions.execute(one, "shared__say")).content == "shared"
    assert (await sessions.execute(other, "say")).content == "shared"
    await sessions.remove_skill(one, "speaker")
    assert (await sessions.execute(one, "say")).content == "shared"
    await sessions.close()


async def test_a_shared_tool_that_is_invoked_by_itself_runs_in_the_session(
    write_skill: WriteSkill,
) -> None:
    home = write_skill("shared", files={"scripts/where.sh": "pwd\n"})
    sessions = SessionManager(SkillManager(home.parent))
    session = await sessions.create_session()

    (found,) = await sessions.tools(session)

    assert await found.ainvoke() == str(await sessions.workspace(session))
    assert await asyncio.to_thread(found.invoke) == str(await sessions.workspace(session))
    await sessions.close()


@pytest.mark.promise("sess-1")
async def test_each_session_writes_its_own_workspace_and_sees_no_other(
    sessions: SessionManager,
) -> None:
    one, other = await sessions.create_session(), await sessions.create_session()
    there = await sessions.workspace(one)
    await sessions.use_skill(one, "speaker", say("echo secret > note; cat note"))
    await sessions.use_skill(other, "speaker", say(f"ls; cat {there}/note 2>&1 || true"))

    assert (await sessions.execute(one, "say")).content == "secret"
    seen = await sessions.execute(other, "say")

    assert "secret" not in seen.content
    assert "No such file" in seen.content
    assert (there / "note").read_text() == "secret\n"


@pytest.mark.promise("sess-1")
async def test_the_shell_and_its_jobs_belong_to_one_session() -> None:
    sessions = SessionManager(builtins=True)
    one, other = await sessions.create_session(), await sessions.create_session()
    await sessions.execute(one, "bash", {"command": "mkdir deep && cd deep"})
    begun = await sessions.execute(one, "bash", {"command": "sleep 600", "background": True})
    job = begun.structured["job"]

    seen = await sessions.execute(other, "bash", {"job": job})

    assert seen.is_error
    assert (await sessions.execute(one, "bash", {"command": "pwd"})).content.endswith("/deep")
    assert not (await sessions.execute(other, "bash", {"command": "pwd"})).content.endswith("deep")
    await sessions.destroy_session(one)
    await sessions.destroy_session(other)


async def test_built_in_tools_of_the_shared_manager_are_not_shared(
    write_skill: WriteSkill,
) -> None:
    home = write_skill("shared", files={"scripts/where.sh": "pwd\n"})
    sessions = SessionManager(SkillManager(home.parent, builtins=True, define_tools=True))
    session = await sessions.create_session()

    assert [each.id for each in await sessions.tools(session)] == ["shared.where"]
    with pytest.raises(UnknownToolError):
        await sessions.execute(session, "bash", {"command": "pwd"})


@pytest.mark.promise("sess-1")
async def test_each_session_has_its_own_secrets() -> None:
    asks = """---
name: asker
description: Asks.
metadata:
  skillpouch:
    requires:
      env: [API_KEY]
tools:
  - name: show
    description: Show it
    backend: {type: script, interpreter: bash, script: "echo ${#API_KEY}"}
    parameters: {}
---
"""
    everybody = SessionManager(
        policy=Policy.trusting(), secrets=lambda session, name: f"{session}:{name}"
    )
    one = await everybody.create_session("one", environment={"API_KEY": "k" * 20})
    other = await everybody.create_session("other")
    for session in (one, other):
        await everybody.use_skill(session, "asker", asks)

    shown = [(await everybody.execute(session, "show")).content for session in (one, other)]

    assert shown == ["20", str(len("other:API_KEY"))]
    await everybody.close()


async def test_each_session_has_its_own_policy() -> None:
    no_say = Policy(rules=[Rule(verdict="deny", tools=["speaker.say"])])
    sessions = SessionManager(policy=lambda name: no_say if name == "child" else None)
    for name in ("child", "adult"):
        await sessions.create_session(name)
        await sessions.use_skill(name, "speaker", say("echo hello"))
    await sessions.create_session("guest", policy=no_say)
    await sessions.use_skill("guest", "speaker", say("echo hello"))

    assert (await sessions.execute("adult", "say")).content == "hello"
    for name in ("child", "guest"):
        with pytest.raises(CallDeniedError):
            await sessions.execute(name, "say")
    await sessions.set_policy("guest", Policy())
    assert (await sessions.execute("guest", "say")).content == "hello"
    await sessions.close()


async def test_an_approver_is_told_whose_call_it_is() -> None:
    asked: list[Question] = []

    def approve(question: Question) -> Answer:
        asked.append(question)
        return Answer(yes=True)

    sessions = SessionManager(policy=Policy.strict(), approver=approve)
    session = await sessions.create_session("chat-7")
    await sessions.use_skill(session, "speaker", say("echo hello"))

    assert (await sessions.execute(session, "say")).content == "hello"

    assert [question.session for question in asked] == ["chat-7"]
    await sessions.close()


async def test_the_journal_says_whose_call_it_was(sessions: SessionManager) -> None:
    for name in ("one", "other"):
        await sessions.create_session(name)
        await sessions.use_skill(name, "speaker", say("echo hello"))
        await sessions.execute(name, "say")

    with JournalReader(state()) as reader:
        found = [(entry.session, entry.tool) for entry in reader.after(Query())]

    assert found == [("one", "speaker.say"), ("other", "speaker.say")]


async def test_functions_are_shared_too() -> None:
    @tool
    def add(a: int, b: int) -> int:
        return a + b

    sessions = SessionManager([add])
    session = await sessions.create_session()

    assert (await sessions.execute(session, "add", {"a": 2, "b": 3})).content == "5"
    with pytest.raises(InvalidArgumentsError):
        await sessions.execute(session, "add", {"a": "two"})


async def test_a_session_that_is_not_there_is_said(sessions: SessionManager) -> None:
    calls = [
        sessions.use_skill("nobody", "speaker", say("echo hello")),
        sessions.remove_skill("nobody", "speaker"),
        sessions.list_active_skills("nobody"),
        sessions.execute("nobody", "say"),
        sessions.definitions("nobody"),
        sessions.workspace("nobody"),
        sessions.destroy_session("nobody"),
    ]

    for call in calls:
        with pytest.raises(UnknownSessionError) as raised:
            await call
        assert (raised.value.code, raised.value.session_id) == ("unknown_session", "nobody")


async def test_a_name_is_used_once_and_leads_nowhere(sessions: SessionManager) -> None:
    await sessions.create_session("chat")

    with pytest.raises(SessionExistsError):
        await sessions.create_session("chat")
    for name in ("../chat", "a/b", ".hidden", "a" * 129, "a\nb", "é"):
        with pytest.raises(SessionNameError):
            await sessions.create_session(name)

    assert await sessions.list_sessions() == ["chat"]
    assert len([path for path in files() if "workspaces" in path]) == 1


async def test_a_workspace_of_ones_own_is_checked_and_kept(
    sessions: SessionManager, tmp_path: Path
) -> None:
    with pytest.raises(WorkspaceError):
        await sessions.create_session(workspace="/")
    with pytest.raises(WorkspaceError):
        await sessions.create_session(workspace=tmp_path / "none")
    session = await sessions.create_session(workspace=tmp_path)
    await sessions.use_skill(session, "speaker", say("echo hello > kept"))
    await sessions.execute(session, "say")

    await sessions.destroy_session(session)

    assert (tmp_path / "kept").read_text() == "hello\n"


async def test_a_bad_text_leaves_the_earlier_one_in_use(sessions: SessionManager) -> None:
    session = await sessions.create_session()
    await sessions.use_skill(session, "speaker", say("echo hello"))

    with pytest.raises(SkillTextError):
        await sessions.use_skill(session, "speaker", "")
    with pytest.raises(SkillNameError):
        await sessions.use_skill(session, "../speaker", say("echo hello"))

    assert await sessions.list_active_skills(session) == ["speaker"]
    assert (await sessions.execute(session, "say")).content == "hello"


async def test_instructions_without_tools_can_be_used(sessions: SessionManager) -> None:
    session = await sessions.create_session()

    names = await sessions.use_skill(session, "advice", "---\nname: advice\ndescription: x\n---\n")

    assert names == []
    assert await sessions.list_active_skills(session) == ["advice"]


async def test_what_is_wrong_with_one_tool_is_on_record(sessions: SessionManager) -> None:
    session = await sessions.create_session()
    lost = "  - name: lost\n    description: Lost\n    script: none.py\n"
    text = say("echo hello").replace("parameters: {}\n", f"parameters: {{}}\n{lost}")

    assert await sessions.use_skill(session, "speaker", text) == ["say"]

    assert "script-absent" in {problem.code for problem in await sessions.problems(session)}


async def test_one_manager_serves_several_event_loops(sessions: SessionManager) -> None:
    session = await sessions.create_session()
    await sessions.use_skill(session, "speaker", say("echo hello"))

    def elsewhere() -> ToolResult:
        return asyncio.run(sessions.execute(session, "say"))

    results = await asyncio.gather(*(asyncio.to_thread(elsewhere) for _ in range(4)))

    assert {result.content for result in results} == {"hello"}


async def test_a_damaged_file_of_sessions_is_said(sessions: SessionManager) -> None:
    await sessions.create_session()
    await sessions.close()
    (state() / "sessions.sqlite3").write_bytes(b"not a database at all" * 100)

    with pytest.raises(Exception, match="cannot be used") as raised:
        await sessions.list_sessions()

    assert getattr(raised.value, "code", "") == "session_store"


async def test_a_file_of_a_newer_version_is_left_alone(sessions: SessionManager) -> None:
    await sessions.create_session()
    await sessions.close()
    with closing(sqlite3.connect(state() / "sessions.sqlite3")) as connection:
        connection.execute("PRAGMA user_version = 99")

    with pytest.raises(Exception, match="a newer Skillpouch wrote it"):
        await sessions.list_sessions()


NOT_SKILLS = {
    "only words": "it has no `name`",
    "---\ndescription: b\n---\n": "it has no `name`",
    "": "it has no `name`",
    "---\nname: a\n---\n": "neither a description nor any text",
}


@pytest.mark.parametrize("text", NOT_SKILLS)
async def test_a_session_refuses_text_as_an_executor_does(
    sessions: SessionManager, text: str
) -> None:
    session = await sessions.create_session()

    with pytest.raises(SkillTextError, match=NOT_SKILLS[text]) as used:
        await sessions.use_skill(session, "a", text)
    with pytest.raises(SkillTextError, match=NOT_SKILLS[text]) as registered:
        ToolExecutor().register_skill_tools(text)

    assert used.value.hint == registered.value.hint
    assert await sessions.list_active_skills(session) == []


async def test_a_text_that_calls_itself_otherwise_is_used_and_reported(
    sessions: SessionManager,
) -> None:
    session = await sessions.create_session()

    await sessions.use_skill(session, "mine", "---\nname: theirs\ndescription: d\n---\n")

    (problem,) = await sessions.problems(session)
    assert (problem.code, problem.severity) == ("name-differs", "warning")
    assert problem.message == "name 'theirs' differs from the name it is used under, 'mine'"
