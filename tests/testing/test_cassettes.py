"""Calls that are recorded once and answered from the record ever after."""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skillpouch import Policy, SkillManager, ToolResult, tool
from skillpouch.errors import CallDeniedError, InvalidArgumentsError, SkillpouchError
from skillpouch.integrations.openai import run_openai_calls
from skillpouch.testing import CassetteError, CassetteMissError, cassette
from skillpouch.testing.cassette import CassetteFileError, CassetteSecretError, read_cassette

pytestmark = pytest.mark.slow

WriteSkill = Callable[..., Path]
PIXEL = b"\x89PNG\r\n\x1a\n" + b"\0" * 24

COUNT = '''"""Count up."""
import pathlib


def main(step: int = 1) -> dict:
    file = pathlib.Path("count.txt")
    now = (int(file.read_text()) if file.exists() else 0) + step
    file.write_text(str(now))
    return {"now": now}
'''
FAIL = '#!/bin/bash\n# Fail\necho said\necho "no such page" >&2\nexit 4\n'
TELL = '''"""Tell the key."""
import os


def main(word: str = "") -> str:
    return word + os.environ["TELL_KEY"]
'''
FRONT = """name: demo
description: Does demo.
metadata:
  skillpouch:
    requires:
      env: [TELL_KEY]
"""


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def manager(write_skill: WriteSkill, work: Path) -> SkillManager:
    files = {"scripts/count.py": COUNT, "scripts/fail.sh": FAIL}
    return SkillManager(write_skill("demo", files=files).parent, workspace=work, builtins=True)


def without_timings(result: ToolResult) -> dict[str, Any]:
    left_out = ("timings", "warm", "cold_because", "saved", "call_id")
    names = [name for name in ToolResult.__dataclass_fields__ if name not in left_out]
    return {name: getattr(result, name) for name in names}


def test_a_replayed_call_gives_the_same_and_runs_nothing(
    manager: SkillManager, work: Path, tmp_path: Path
) -> None:
    (work / "dot.png").write_bytes(PIXEL)
    asked = [("count", {"step": 2}), ("demo.fail", None), ("read", {"file_path": "dot.png"})]
    file = tmp_path / "calls.json"

    with cassette(file):
        first = [manager.call(*each) for each in asked]
    (work / "count.txt").unlink()
    with cassette(file) as played:
        second = [manager.call(*each) for each in asked]

    assert [*map(without_timings, second)] == [*map(without_timings, first)]
    assert second[0].structured == {"now": 2}
    assert second[1].exit_code == 4
    assert second[2].attachments[0].data == PIXEL
    assert not (work / "count.txt").exists()
    assert (played.replays, played.unused) == (True, [])


def test_the_same_call_is_answered_as_often_as_it_was_recorded_in_its_order(
    manager: SkillManager, tmp_path: Path
) -> None:
    file = tmp_path / "calls.json"
    with cassette(file):
        for _ in range(2):
            manager.call("count", {"step": 1})

    with cassette(file) as played:
        values = [manager.call("count", {"step": 1}).structured for _ in range(2)]
        with pytest.raises(CassetteMissError) as missed:
            manager.call("count", {"step": 1})
        played.forget()

    assert (values, played.unused) == ([{"now": 1}, {"now": 2}], [])

    assert 'demo.count with {"step": 1} was recorded 2 times and is called once more' in str(
        missed.value
    )


def test_a_miss_says_what_is_there_and_what_to_do(manager: SkillManager, tmp_path: Path) -> None:
    file = tmp_path / "calls.json"
    with cassette(file):
        manager.call("count", {"step": 1})

    with pytest.raises(CassetteMissError) as missed, cassette(file):
        manager.call("count", {"step": 2})

    assert str(missed.value) == (
        f'{file}: no recorded call of demo.count with {{"step": 2}}\n'
        'hint: demo.count was recorded with {"step": 1}; '
        'delete the file, or use mode="record" once, to record it again'
    )


def test_a_miss_that_an_agent_swallows_fails_the_test_at_the_end(
    manager: SkillManager, tmp_path: Path
) -> None:
    file = tmp_path / "calls.json"
    with cassette(file):
        manager.call("count")

    def agent() -> None:
        with cassette(file), suppress(Exception):
            manager.call("count", {"step": 3})

    with pytest.raises(CassetteMissError):
        agent()


def test_arguments_are_checked_as_if_the_tool_ran(manager: SkillManager, tmp_path: Path) -> None:
    file = tmp_path / "calls.json"
    with cassette(file):
        manager.call("count")

    with cassette(file, mode="replay"), pytest.raises(InvalidArgumentsError):
        manager.call("count", {"step": "two"})


def test_a_refusal_is_replayed_too(manager: SkillManager, tmp_path: Path) -> None:
    file = tmp_path / "calls.json"
    careful = SkillManager(*manager.roots, policy=Policy.strict())

    with cassette(file), pytest.raises(CallDeniedError) as first:
        careful.call("count")
    with cassette(file), pytest.raises(CallDeniedError) as second:
        SkillManager(*manager.roots, policy=Policy.trusting()).call("count")

    assert (str(second.value), second.value.hint) == (str(first.value), first.value.hint)
    assert second.value.code == "denied"


def test_calls_through_any_door_are_recorded(tmp_path: Path) -> None:
    made: list[int] = []

    @tool
    def double(number: int) -> int:
        """Double a number."""
        made.append(number)
        return number * 2

    call = {"name": "double", "arguments": '{"number": 4}'}
    message = {
        "role": "assistant",
        "tool_calls": [{"id": "1", "type": "function", "function": call}],
    }
    file = tmp_path / "calls.json"

    with cassette(file):
        first = run_openai_calls(message, [double])
    with cassette(file):
        second = run_openai_calls(message, [double])

    assert first == second == [{"role": "tool", "tool_call_id": "1", "content": "8"}]
    assert made == [4]


@pytest.mark.parametrize("script", ["hello; echo done; result 7", "hello; exit 3", "if then"])
def test_a_script_is_replayed_without_being_run(tmp_path: Path, script: str) -> None:
    from skillpouch import ScriptedTool, ToolArgs, ToolDef

    calls: list[str] = []

    def hello(_args: ToolArgs) -> str:
        calls.append("hello")
        return "hi"

    scripted = ScriptedTool.builder("api", "inproc").tool(ToolDef("hello", "Say hi"), hello).build()
    with cassette(tmp_path / "script.json"):
        first = scripted.execute_sync(script)
    ran = list(calls)
    with cassette(tmp_path / "script.json"):
        second = scripted.execute_sync(script)

    assert calls == ran
    assert (second.stdout, second.stderr, second.exit_code, second.status, second.result) == (
        *(first.stdout, first.stderr, first.exit_code, first.status, first.result),
    )


async def test_calls_side_by_side_each_get_their_own_answer(
    manager: SkillManager, tmp_path: Path
) -> None:
    file = tmp_path / "calls.json"
    steps = list(range(20))

    async def ask(step: int) -> str:
        return (await manager.acall("bash", {"command": f"echo {step}"})).content

    with cassette(file):
        await asyncio.gather(*map(ask, steps))
    with cassette(file):
        found = await asyncio.gather(*map(ask, reversed(steps)))

    assert [text.split()[0] for text in found] == [str(step) for step in reversed(steps)]


@pytest.mark.promise("tape-1")
def test_no_secret_that_a_call_was_given_is_in_a_cassette(
    write_skill: WriteSkill, tmp_path: Path
) -> None:
    root = write_skill("demo", front=FRONT, files={"scripts/tell.py": TELL}).parent
    manager = SkillManager(
        root, policy=Policy.trusting(), secrets=lambda *_: "correct-horse-battery"
    )
    file = tmp_path / "calls.json"

    with cassette(file):
        said = manager.call("tell", {"word": "it is "})
    with pytest.raises(CassetteSecretError, match="in its arguments"), cassette(tmp_path / "no"):
        manager.call("tell", {"word": "correct-horse-battery"})

    assert said.content == "it is [redacted TELL_KEY]"
    assert b"correct-horse" not in file.read_bytes()
    assert not (tmp_path / "no").exists()


def test_a_replay_needs_no_secret(write_skill: WriteSkill, tmp_path: Path) -> None:
    root = write_skill("demo", front=FRONT, files={"scripts/tell.py": TELL}).parent
    file = tmp_path / "calls.json"
    with cassette(file):
        SkillManager(root, policy=Policy.trusting(), secrets=lambda *_: "one-two-three").call(
            "tell"
        )

    with cassette(file):
        assert SkillManager(root).call("tell").content == "[redacted TELL_KEY]"


def test_a_block_that_fails_records_nothing(manager: SkillManager, tmp_path: Path) -> None:
    file = tmp_path / "calls.json"

    def fail() -> None:
        with cassette(file):
            raise ZeroDivisionError(manager.call("count").content)

    with pytest.raises(ZeroDivisionError):
        fail()

    assert not file.exists()
    assert list(tmp_path.glob(".calls*")) == []


def test_what_is_recorded_can_be_read(manager: SkillManager, tmp_path: Path) -> None:
    file = tmp_path / "deep" / "calls.json"

    with cassette(file, mode="record"):
        manager.call("count", {"step": 2})

    written = json.loads(file.read_text())
    (call,) = written["calls"]
    assert (written["format"], written["version"]) == ("skillpouch-cassette", 1)
    assert (call["tool"], call["arguments"]) == ("demo.count", {"step": 2})
    assert call["result"]["structured"] == {"now": 2}
    assert file.stat().st_mode & 0o777 == 0o644


def test_replaying_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with (
        pytest.raises(CassetteFileError, match="No such file"),
        cassette(tmp_path / "none.json", mode="replay"),
    ):
        pass
    with (
        pytest.raises(ValueError, match="there are auto, record, replay"),
        cassette(
            tmp_path / "none.json",
            mode="again",  # type: ignore[arg-type]  # what is tested
        ),
    ):
        pass


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["key", "tool", "arguments", "result", "error", "files", "http", "attachments"]
            )
            | st.text(max_size=3),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(calls=ANYTHING, version=st.sampled_from([1, 1, 2, None]), cut=st.integers(0, 400))
def test_any_file_gives_calls_or_one_error(
    tmp_path_factory: pytest.TempPathFactory, calls: Any, version: Any, cut: int
) -> None:
    file = tmp_path_factory.mktemp("cassette") / "calls.json"
    text = json.dumps({"format": "skillpouch-cassette", "version": version, "calls": calls})
    file.write_text(text[:cut] if cut < 50 else text)

    found = []
    with suppress(CassetteFileError):
        found = read_cassette(file)

    assert all(call.gave for call in found)


def test_errors_of_skillpouch_are_not_those_of_a_cassette() -> None:
    assert not issubclass(CassetteError, SkillpouchError)
