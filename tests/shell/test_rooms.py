"""Shells are cleared and used again: no script sees another, no command gets another's answer."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from kitbag import ScriptedTool, ToolArgs, ToolDef
from kitbag.shell.builder import EngineKind
from tests.shell.test_engine_contract import LOOK, MESS

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
    assert (second.stdout, second.artifacts) == (first.stdout, ())


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
from kitbag import ScriptedTool, ToolDef

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

    host.kill()
    host.wait()
    host.stdout.close()

    assert workers
    deadline = time.monotonic() + 10
    while any(map(_is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_is_alive, workers))


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
