"""ToolExecutor.register_skill_tools: the text of a SKILL.md becomes tools, and stops being them."""

import asyncio
import gc
from pathlib import Path

import pytest

from skillpouch import ToolExecutor, ToolRegistry, tool
from skillpouch.controls import Controls
from skillpouch.discovery.text_skills.folders import SkillNameError, SkillTextError, keep, let_go
from skillpouch.errors import UnknownToolError
from tests.discovery.text_skills.test_folders import texts
from tests.sessions.conftest import say

pytestmark = pytest.mark.slow


def skill(name: str = "words", said: str = "one", extra: str = "") -> str:
    return f"""---
name: {name}
description: Says things.
tools:
  - name: say
    description: Say it
    backend:
      type: script
      interpreter: bash
      script: echo {said}
    parameters: {{}}
{extra}---
"""


def test_a_text_is_callable_until_it_is_unregistered(tmp_path: Path) -> None:
    executor = ToolExecutor(workspace=tmp_path, journal=False)

    names = executor.register_skill_tools(skill())

    assert names == ["say"]
    assert [each["name"] for each in executor.definitions()] == ["say"]
    assert executor.execute_sync("say").content == "one"
    assert executor.execute_sync("words.say").content == "one"
    assert executor.unregister_tools(names) == ["say"]
    assert executor.definitions() == []
    assert texts() == []
    with pytest.raises(UnknownToolError):
        executor.execute_sync("say")


def test_the_same_text_changes_nothing_and_another_takes_its_place(tmp_path: Path) -> None:
    executor = ToolExecutor(workspace=tmp_path, journal=False)

    assert executor.register_skill_tools(skill()) == ["say"]
    assert executor.register_skill_tools(skill()) == ["say"]
    assert len(texts()) == 1
    assert executor.register_skill_tools(skill(said="two")) == ["say"]

    assert executor.execute_sync("say").content == "two"
    assert len(texts()) == 1
    assert executor.unregister_tools(["say", "say"]) == ["say"]


def test_a_tool_that_was_shadowed_comes_back(tmp_path: Path) -> None:
    @tool
    def say() -> str:
        return "the first"

    executor = ToolExecutor([say], workspace=tmp_path, journal=False)
    names = executor.register_skill_tools(skill())

    assert executor.execute_sync("say").content == "one"
    executor.unregister_tools(names)

    assert executor.execute_sync("say").content == "the first"
    assert executor.unregister_tools(["say"]) == []


def test_two_executors_over_one_registry_do_not_see_each_others_texts(tmp_path: Path) -> None:
    registry = ToolRegistry()
    controls = Controls(journal=False, workspace=tmp_path)
    one, other = (ToolExecutor(registry, controls=controls) for _ in range(2))

    one.register_skill_tools(skill())
    other.register_skill_tools(skill(said="two"))
    one.unregister_tools(["say"])

    assert one.definitions() == []
    assert other.execute_sync("say").content == "two"
    assert len(registry) == 0


def test_one_of_two_tools_can_be_unregistered(tmp_path: Path) -> None:
    more = """  - name: also
    description: Say more
    backend: {type: script, interpreter: bash, script: echo also}
    parameters: {}
"""
    executor = ToolExecutor(workspace=tmp_path, journal=False)
    assert executor.register_skill_tools(skill(extra=more)) == ["say", "also"]

    assert executor.unregister_tools(["say"]) == ["say"]

    assert executor.execute_sync("also").content == "also"
    assert executor.unregister_tools(["words.also"]) == ["also"]
    assert texts() == []


async def test_a_running_call_keeps_the_version_it_started_with(tmp_path: Path) -> None:
    slow = skill(said="begun; touch began; while [ ! -e go ]; do sleep 0.05; done; echo one")
    # Directly, because the call and the test meet in the workspace.
    executor = ToolExecutor(workspace=tmp_path, journal=False, writes="direct")
    executor.register_skill_tools(slow)
    running = asyncio.create_task(executor.execute("say"))
    while not (tmp_path / "began").exists():
        await asyncio.sleep(0.02)

    executor.register_skill_tools(skill(said="two"))
    later = await executor.execute("say")
    (tmp_path / "go").touch()

    assert (await running).content == "begun\none"
    assert later.content == "two"


def test_an_executor_that_is_dropped_leaves_no_folder(tmp_path: Path) -> None:
    executor = ToolExecutor(workspace=tmp_path, journal=False)
    executor.register_skill_tools(skill())
    assert len(texts()) == 1

    del executor
    gc.collect()

    assert texts() == []


def test_a_text_that_is_no_skill_is_refused_with_all_that_is_wrong() -> None:
    executor = ToolExecutor()

    with pytest.raises(SkillTextError, match="has no `name`") as raised:
        executor.register_skill_tools("just text")
    assert raised.value.code == "skill_text"
    with pytest.raises(SkillTextError, match="none of its tools can be read"):
        executor.register_skill_tools(skill().replace("type: script", "type: [magic]"))
    with pytest.raises(SkillTextError, match="more than the"):
        executor.register_skill_tools(skill() + "x" * 2_000_000)
    with pytest.raises(SkillTextError, match="not text"):
        executor.register_skill_tools(skill() + "\ud800")
    with pytest.raises(SkillNameError):
        executor.register_skill_tools(skill(name="'../evil'"))

    let_go(keep({"SKILL.md": "x"}, "x"))
    assert texts() == []


@pytest.mark.promise("text-1")
def test_a_text_cannot_declare_a_script_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "outside.sh").write_text("echo outside\n")
    text = f"""---
name: sly
description: Sly.
tools:
  - name: run
    description: Run it
    script: {tmp_path}/outside.sh
---
"""

    with pytest.raises(SkillTextError, match="none of its tools"):
        ToolExecutor(workspace=tmp_path).register_skill_tools(text)


def test_one_tool_is_unregistered_by_its_name_alone() -> None:
    executor = ToolExecutor()
    assert executor.register_skill_tools(say("echo hello", tool="say")) == ["say"]

    assert executor.unregister_tools("say") == ["say"]

    assert executor.tools == []
