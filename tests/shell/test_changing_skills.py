"""Scripts over skills that come, change and go: what a script can call is what there is now."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from skillpouch import ScriptedTool, SkillManager, ToolExecutor, tool
from skillpouch.sessions import SessionManager
from skillpouch.sessions.errors import SessionEndedError
from skillpouch.shell.builder import EngineKind
from skillpouch.shell.call_log import ScriptEvent
from skillpouch.shell.responses import ToolResponse
from tests.conftest import WriteSkill

pytestmark = pytest.mark.slow

DEFINE = """\
pouch.define_tool --name twice --description 'Twice a number.' \\
  --parameters '{"n": {"type": "integer"}}' --code 'return args["n"] * 2'"""
TEXT = """\
---
name: {name}
description: Says.
tools:
  - name: say
    description: Says something.
    backend: {{type: script, interpreter: bash, script: echo {says}}}
---

Say it.
"""


@pytest.fixture(params=["inproc", "worker"])
def engine(request: pytest.FixtureRequest) -> EngineKind:
    found: EngineKind = request.param
    return found


@pytest.fixture(autouse=True)
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def manager_of(root: Path, **options: Any) -> SkillManager:
    return SkillManager(root, workspace=root.parent / "work", **options)


def said(ran: ToolResponse) -> tuple[str, str, int]:
    return ran.stdout, ran.stderr, ran.exit_code


def test_skills_that_come_change_and_go_do_so_in_scripts(
    write_skill: WriteSkill, engine: EngineKind
) -> None:
    root = write_skill("first", files={"scripts/say.sh": "echo one\n"}).parent
    manager = manager_of(root)
    scripted = ScriptedTool.over(manager, engine=engine)
    assert scripted.execute_sync("first.say").stdout == "one\n"

    second = write_skill("second", files={"scripts/say.sh": "echo two\n"})
    manager.discover()
    assert said(scripted.execute_sync("second.say")) == ("two\n", "", 0)
    assert [each.name for each in scripted.tools] == ["first.say", "second.say"]

    shutil.rmtree(second)
    manager.discover()
    assert scripted.execute_sync("second.say").exit_code == 127


def test_a_tool_that_a_script_defines_can_be_called_in_it(
    write_skill: WriteSkill, engine: EngineKind
) -> None:
    scripted = ScriptedTool.over(manager_of(write_skill().parent, define_tools=True), engine=engine)

    ran = scripted.execute_sync(
        f"{DEFINE} > /dev/null; twice.twice --n 21; pouch.remove_tool --name twice > /dev/null\n"
        "twice.twice --n 1; echo $?"
    )

    assert ran.stdout == "42\n127\n"
    assert ran.stderr == "twice.twice: command not found\n"


def test_a_tool_that_a_script_defines_can_be_called_by_a_name_that_its_text_does_not_say(
    write_skill: WriteSkill, engine: EngineKind
) -> None:
    scripted = ScriptedTool.over(manager_of(write_skill().parent, define_tools=True), engine=engine)

    ran = scripted.execute_sync(f"id=$({DEFINE} | jq -r .id); $id --n 4 | jq '. + 1'")

    assert said(ran) == ("9\n", "", 0)


def test_a_skill_that_comes_while_a_script_waits_can_be_called_in_it(
    write_skill: WriteSkill, engine: EngineKind
) -> None:
    manager = manager_of(write_skill("first", files={"scripts/say.sh": "echo one\n"}).parent)
    scripted = ScriptedTool.over(manager, engine=engine)

    def come(event: ScriptEvent) -> None:
        if event.stdout == "now\n":
            write_skill("second", files={"scripts/say.sh": "echo two\n"})
            manager.discover()

    ran = scripted.execute_sync("echo now; first.say; second.say", on_status=come)

    assert said(ran) == ("now\none\ntwo\n", "", 0)


def test_a_mistyped_command_is_told_which_one_was_meant(write_skill: WriteSkill) -> None:
    root = write_skill("first", files={"scripts/say.sh": "echo one\n"}).parent

    ran = ScriptedTool.over(manager_of(root)).execute_sync("first.sai")

    assert said(ran) == ("", "first.sai: command not found. Did you mean: first.say?\n", 127)


def test_the_tools_of_an_executor_are_commands(engine: EngineKind) -> None:
    @tool
    def double(n: int) -> int:
        """Double a number."""
        return n * 2

    executor = ToolExecutor([double])
    scripted = ScriptedTool.over(executor, engine=engine)
    assert said(scripted.execute_sync("double --n 4")) == ("8\n", "", 0)

    executor.register_skill_tools(TEXT.format(name="later", says="hi"))
    assert said(scripted.execute_sync("later.say")) == ("hi\n", "", 0)


async def test_the_tools_of_a_session_are_commands(
    write_skill: WriteSkill, engine: EngineKind
) -> None:
    root = write_skill("first", files={"scripts/say.sh": "echo one\n"}).parent
    sessions = SessionManager(manager_of(root), define_tools=True)
    mine, other = await sessions.create_session(), await sessions.create_session()
    await sessions.use_skill(mine, "own", TEXT.format(name="own", says="mine"))
    scripted = ScriptedTool.over(sessions.session(mine), engine=engine)

    ran = await scripted.execute(f"first.say; own.say; {DEFINE} >/dev/null; twice.twice --n 2")
    theirs = await ScriptedTool.over(sessions.session(other), engine=engine).execute("own.say")

    assert said(ran) == ("one\nmine\n4\n", "", 0)
    assert theirs.exit_code == 127
    await sessions.close()


async def test_a_script_of_a_session_ends_with_it(write_skill: WriteSkill) -> None:
    root = write_skill("slow", files={"scripts/wait.sh": "sleep 60\n"}).parent
    sessions = SessionManager(manager_of(root))
    session = await sessions.create_session()
    ending: list[asyncio.Future[None]] = []

    def end(event: ScriptEvent) -> None:
        if event.kind == "call_started":
            ending.append(asyncio.ensure_future(sessions.destroy_session(session)))

    with pytest.raises(SessionEndedError):
        await ScriptedTool.over(sessions.session(session)).execute("slow.wait", on_status=end)

    await asyncio.gather(*ending)
    assert len(ending) == 1


def test_only_somebody_with_tools_can_be_scripted_over() -> None:
    with pytest.raises(TypeError, match="list is not a manager, executor or session"):
        ScriptedTool.over([])  # type: ignore[arg-type]  # that is the point
