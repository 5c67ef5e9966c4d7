"""A call that is cancelled, ends late or never begins says so itself, and no other pays for it."""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from skillpouch.errors import CommandStartError
from skillpouch.execution import call
from skillpouch.execution.command import Ended
from skillpouch.execution.engine import Engine
from skillpouch.secrets.redaction import Redactor
from tests.execution.warm_calls import Skill, Warm, sandboxes, until, waiting_children

pytestmark = [pytest.mark.slow, pytest.mark.escape, pytest.mark.timeout(60)]

either_path = pytest.mark.parametrize("path", ["warm", "cold"])

HANG = "import time\nprint('go', flush=True)\ntime.sleep(1000)\n"
UNTIL_LET_GO = """
import os, time
print("go", flush=True)
while not os.path.exists("let-go"):
    time.sleep(0.01)
print("whole")
"""


@contextlib.asynccontextmanager
async def begun(warm: Warm, text: str, /, **options: Any) -> AsyncIterator[asyncio.Task[Ended]]:
    """Give a call that has begun to print; leave none behind."""
    printed = asyncio.Event()
    options = {"name": "other", "on_output": lambda *_: printed.set()} | options
    task = asyncio.ensure_future(warm(text, **options))
    await printed.wait()
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.wait([task])


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.mark.promise("proc-4")
@either_path
@pytest.mark.parametrize("times", [2, 5])
async def test_a_call_that_is_cancelled_several_times_costs_no_other(
    warm: Warm, workspace: Path, times: int, path: str
) -> None:
    async with begun(warm, UNTIL_LET_GO) as other:
        for _ in range(3):
            async with begun(warm, HANG, name="run", warm=path == "warm") as cancelled:
                alive = set(sandboxes())
                for _ in range(times):
                    cancelled.cancel()
                while path == "warm" and alive <= set(sandboxes()):
                    pass  # a busy host: it hears of the end when the sandbox is gone already
                with pytest.raises(asyncio.CancelledError):
                    await cancelled

        (workspace / "let-go").touch()
        ended = await other

    assert (ended.outcome, ended.stdout.text) == ("ok", "go\nwhole\n")


@pytest.mark.promise("proc-4")
@either_path
async def test_who_cancelled_a_call_first_is_told_where_it_was_awaited(
    warm: Warm, path: str
) -> None:
    async with begun(warm, HANG, warm=path == "warm") as task:
        task.cancel("the user left")
        task.cancel("the shop closed")

        with pytest.raises(asyncio.CancelledError) as told:
            await task

    assert told.value.args == ("the user left",)


@pytest.mark.promise("limit-2")
@either_path
async def test_output_that_is_held_back_to_the_end_and_too_much_then_ends_no_later_call(
    skill: Skill, engine: Engine, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "_PATIENCE_SECONDS", 0.05)
    text = "import sys, time\nsys.stdout.write(sys.argv[1])\ntime.sleep(0.3)\n"
    script = skill.write("run", text)
    limits = {"kill_bytes": 1_000, "keep_bytes": 500}

    async def run(word: str) -> Ended:
        command = skill.command(script, word, limits=limits, warm=path == "warm")
        secrets = Redactor({"KEY": "hunter2-hunter2"})
        return await engine.run(replace(command, new_filter=secrets.stream), skill.confinement)

    # It might go on with the rest of the secret: it is kept until nothing can follow.
    held = await run("x" * 990 + " hunter2-hunter")
    later = await run("fine")

    assert (held.outcome, held.code) == ("killed", "output_limit")
    assert (later.outcome, later.code, later.stdout.text) == ("ok", None, "fine")


@either_path
@pytest.mark.parametrize(
    "own",
    [
        *({"NEW": "\ud83d"}, {"NEW": "a\0b"}, {"TOKEN": "\0"}),
        *({"\ud83d": "x"}, {"a\0b": "x"}, {"a=b": "x"}, {"": "x"}),
    ],
)
async def test_a_variable_that_cannot_be_one_is_said_and_costs_no_other_call(
    warm: Warm, workspace: Path, own: dict[str, str], path: str
) -> None:
    async with begun(warm, UNTIL_LET_GO) as other:
        await warm("print('fine')", warm=path == "warm")
        before, said = descriptors(), set()
        for _ in range(5):
            with pytest.raises(CommandStartError) as caught:
                await warm("print('fine')", env=own, warm=path == "warm")
            said.add(str(caught.value))
        after = descriptors()
        following = await warm("print('fine')", warm=path == "warm")

        (workspace / "let-go").touch()
        ended = await other

    ((name, value),) = own.items()
    (words,) = said
    assert f"python3: the variable {name!r} cannot be set: it holds " in words
    assert ascii(value) not in ascii(words)  # it may be a secret
    assert after < before + 5  # not one for each
    assert (following.outcome, following.stdout.text) == ("ok", "fine\n")
    assert (ended.outcome, ended.stdout.text) == ("ok", "go\nwhole\n")


@pytest.mark.promise("proc-4")
async def test_a_call_whose_output_another_process_holds_can_be_cancelled(
    warm: Warm, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(call, "_PATIENCE_SECONDS", 0.5)
    others, other_slots = set(waiting_children()), set(sandboxes())
    async with begun(warm, UNTIL_LET_GO) as task:
        (running,) = set(waiting_children()) - others
        output = os.open(f"/proc/{running}/fd/1", os.O_WRONLY)  # as a fork of the host would have
        try:
            (workspace / "let-go").touch()
            await until(lambda: set(sandboxes()) <= other_slots)  # it is over but for its output

            was_running = task.cancel()
            await asyncio.wait([task], timeout=20)

            assert (task.done(), task.cancelled()) == (True, was_running)
        finally:
            os.close(output)
