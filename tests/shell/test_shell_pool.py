"""Shells are cleared and used again: no script sees another, no command gets another's answer."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch import ScriptedTool, ToolArgs, ToolDef
from skillpouch.shell.builder import EngineKind
from tests.shell.test_engine_contract import LOOK, MESS

pytestmark = pytest.mark.slow

ENGINES: list[EngineKind] = ["inproc", "worker"]


def echo(args: ToolArgs) -> str:
    return json.dumps(dict(args.params))


def tool_on(engine: EngineKind) -> ScriptedTool:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
    definition = ToolDef("tool", "Echo").with_schema(schema)
    return ScriptedTool.builder("api", engine).journal(False).tool(definition, echo).build()


@pytest.mark.promise("script-7")
@pytest.mark.parametrize("engine", ENGINES)
def test_a_script_finds_nothing_of_the_one_before(engine: EngineKind) -> None:
    tool = tool_on(engine)
    first = tool.execute_sync(LOOK)

    messed = tool.execute_sync(MESS)
    second = tool.execute_sync(LOOK)

    assert (messed.exit_code, [artifact.path for artifact in messed.artifacts]) == (3, ["a/b"])
    assert second.stdout.split("\n") == first.stdout.split("\n")
    assert second.artifacts == ()


@pytest.mark.promise("script-7")
@pytest.mark.parametrize("engine", ENGINES)
def test_tools_of_many_commands_with_the_same_names_share_nothing(engine: EngineKind) -> None:
    def many(word: str) -> ScriptedTool:
        builder = ScriptedTool.builder("api", engine).journal(False)
        for number in range(100):
            builder.tool(ToolDef(f"say_{number}", "Say"), lambda _: word)
        return builder.build()

    tools = {word: many(word) for word in ("one", "two")}
    script = "echo [$x]; x=left; echo y > /tmp/left; say_7"

    for word, tool in (*tools.items(), *tools.items()):
        assert tool.execute_sync(script).stdout == f"[]\n{word}\n"
        assert tool.execute_sync("ls /tmp; say_7").stdout == f"{word}\n"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_script_counts_its_own_seconds(engine: EngineKind) -> None:
    tool = tool_on(engine)
    tool.execute_sync("tool --n 1")
    time.sleep(1.2)

    assert tool.execute_sync("tool --n 1; echo $SECONDS").stdout.split("\n")[-2] == "0"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("ending", ["exit 7", "while :; do :; done", "if then", "tool --n x"])
def test_however_a_script_ends_the_next_is_served(engine: EngineKind, ending: str) -> None:
    tool = tool_on(engine)

    for _ in range(3):
        tool.execute_sync(f"x=left; echo y > /tmp/left; {ending}")
        after = tool.execute_sync("echo [$x]; ls /tmp; tool --n 1")

        assert (after.status, after.stdout) == ("ok", '[]\n{"n": 1}\n')


@pytest.mark.parametrize("engine", ENGINES)
async def test_scripts_at_once_get_their_own_answers(engine: EngineKind) -> None:
    tool = tool_on(engine)

    async def run(number: int) -> str:
        script = f"for i in 1 2 3; do tool --n {number}$i; done"
        return (await tool.execute(script)).stdout

    found = await asyncio.gather(*(run(number) for number in range(1, 25)))

    assert found == [
        "".join(f'{{"n": {number}{i}}}\n' for i in (1, 2, 3)) for number in range(1, 25)
    ]


HANGING = """
import sys, time
from skillpouch import ScriptedTool, ToolDef

def hang(args):
    print("hanging", flush=True)
    time.sleep(60)

tool = ScriptedTool.builder("api").journal(False).tool(ToolDef("hang", "Hang"), hang).build()
tool.execute_sync("hang")
"""


def test_a_worker_that_waits_for_an_answer_ends_with_its_host() -> None:
    """Its socket is read without a loop then: the end of it must still be heard."""
    host = subprocess.Popen([sys.executable, "-c", HANGING], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    assert host.stdout.readline() == "hanging\n"
    workers = _workers_of(host.pid)

    _kill(host)

    assert workers
    _until(lambda: not any(map(_is_alive, workers)))


def _kill(host: "subprocess.Popen[str]") -> None:
    host.kill()
    host.wait()
    if host.stdout is not None:
        host.stdout.close()


def _until(fact: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not fact():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def _ticks(pids: list[int]) -> int:
    """Return what processes have used of a processor, in hundredths of a second."""
    stats = (Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids)
    return sum(int(fields[11]) + int(fields[12]) for fields in stats)


def _workers_of(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        found += [int(word) for word in (task / "children").read_text().split()]
    return found


def _is_alive(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


BUSY = """
import os, threading, time
from skillpouch import ScriptedTool, ToolDef

tool = ScriptedTool.builder("api").journal(False).tool(ToolDef("x", "X"), lambda a: "").build()
tool.execute_sync("x")
print("ready", flush=True)
tool.execute_sync("jq -n 'last(repeat(1))'", timeout=60)
"""


@pytest.mark.promise("script-3")
def test_a_worker_that_is_busy_with_a_script_ends_with_its_host() -> None:
    host = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    assert host.stdout.readline() == "ready\n"
    workers = _workers_of(host.pid)
    before = _ticks(workers)
    _until(lambda: _ticks(workers) > before + 20)  # it is busy with nothing but the script

    _kill(host)

    assert workers
    _until(lambda: not any(map(_is_alive, workers)))


async def wait_for(args: ToolArgs) -> str:
    await asyncio.sleep(args.param_f64("seconds") or 0.0)
    return "waited"


LIBRARY = "q() { timeout 0.2 slow --seconds 5; echo $?; }; p() { slow & slow & wait; }"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("script", ["source /in/lib; q", "eval 'ti''meout 0.2 slow --seconds 5'"])
def test_waiting_that_a_text_does_not_show_is_waited_for_rightly(
    engine: EngineKind, script: str
) -> None:
    schema = {"type": "object", "properties": {"seconds": {"type": "number"}}}
    definition = ToolDef("slow", "Wait").with_schema(schema)
    tool = ScriptedTool.builder("api", engine).journal(False).tool(definition, wait_for).build()

    started = time.monotonic()
    ran = tool.execute_sync(f"{script}; echo $?", files={"lib": LIBRARY})

    assert "124" in ran.stdout
    assert time.monotonic() - started < 4


@pytest.mark.parametrize("engine", ENGINES)
def test_shells_that_are_not_used_again_leave_room_for_the_next(engine: EngineKind) -> None:
    tool = tool_on(engine)

    ends = [tool.execute_sync("eval 'echo 1'", files={"a": "b"}).status for _ in range(12)]

    assert ends == ["ok"] * 12


def test_a_deep_expression_does_not_crash_a_worker() -> None:
    ran = tool_on("worker").execute_sync("jq -n '" + "(" * 5000 + "1" + ")" * 5000 + "'")

    assert (ran.status, ran.stdout) == ("ok", "1\n")


def test_a_callback_that_runs_another_tool_waits_on_no_loop() -> None:
    def slow(_args: ToolArgs) -> str:
        time.sleep(1)
        return "slow"

    inner = ScriptedTool.builder("inner").journal(False).tool(ToolDef("slow", "Wait"), slow).build()

    def outer(_args: ToolArgs) -> str:
        return inner.execute_sync("slow", timeout=0.2).status

    tool = ScriptedTool.builder("o", "inproc").journal(False).tool(ToolDef("run", "Run"), outer)
    ran = tool.build().execute_sync("run")

    assert ran.stdout == "timed_out\n"


def test_a_function_that_returns_something_to_await_is_awaited() -> None:
    tool = ScriptedTool.builder("api", "inproc").journal(False)
    built = tool.tool(ToolDef("lazy", "Wait"), lambda args: wait_for(args)).build()  # noqa: PLW0108

    assert built.execute_sync("lazy").stdout == "waited\n"


@pytest.mark.parametrize("engine", ENGINES)
def test_a_schema_that_its_host_uses_for_another_tool_stays_what_it_was(engine: EngineKind) -> None:
    schema = {"type": "object", "properties": {"id": {"type": "string"}}}
    texts = []
    for words in ("tool --id 1", "tool --n 1"):
        definition = ToolDef("tool", "Echo").with_schema(schema)
        tool = ScriptedTool.builder("api", engine).journal(False).tool(definition, echo).build()
        texts.append(tool.execute_sync(words).stdout)
        schema["properties"] = {"n": {"type": "integer"}}

    assert texts == ['{"id": "1"}\n', '{"n": 1}\n']


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts descriptors in /proc")
@pytest.mark.parametrize(
    ("script", "options"),
    [
        ("tool --n 1 & wait", {}),
        ("while :; do tool --n 1; done", {"timeout": 0.02}),
        ("sleep 0.001; tool --n 1", {}),
        ("tool --n 1", {"files": {"a": "b"}}),
        ("x=1", {"keep_state": True}),
    ],
)
def test_shells_that_are_not_used_again_leave_nothing_open(
    script: str, options: dict[str, Any]
) -> None:
    tool = tool_on("inproc")
    tool.execute_sync(script, **options)
    before = descriptors()

    for _ in range(20):
        tool.execute_sync(script, **options)

    deadline = time.monotonic() + 10
    while descriptors() > before + 12:  # four shells are kept for the next, with three each
        assert time.monotonic() < deadline
        time.sleep(0.05)
