"""Programs that are started before their call is known: bash, speaking to its descriptors."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from skillpouch.errors import CommandStartError
from skillpouch.execution.command import Command, Ended, Prestarted
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine
from skillpouch.limits import Limits
from tests.execution.warm_calls import until, zygotes

pytestmark = pytest.mark.slow

READY = "printf r >&4; "
HEAR = READY + "IFS= read -r job <&4 || exit 0; "
END = "printf '%d\\n' {} >&4; read -r _ <&4"
ECHO = HEAR + 'printf "%s" "$job"; ' + END.format(0)

Serve = Callable[..., Awaitable[Ended]]
Survivors = Callable[[], list[str]]


@pytest.fixture
def serve(engine: Engine, workspace: Path, token: str) -> Serve:
    """Run a call that a waiting program may serve; started afresh it is `/bin/echo cold`."""

    async def run(program: str, **options: Any) -> Ended:
        shared = {"PATH": "/usr/bin:/bin", "TOKEN": token}
        words = ("/bin/bash", "-c", program)
        waits = Prestarted(argv=words, env=tuple(shared.items()), cwd=workspace)
        command = Command(
            argv=("/bin/echo", "cold"),
            env=shared | options.get("env", {}),
            cwd=workspace,
            stdin=options.get("stdin", b""),
            limits=Limits(timeout_seconds=options.get("timeout", 20)),
            answers=True,
            warm=waits,
        )
        return await engine.run(command, Confinement(workspace=workspace))

    return run


def carrying(token: str) -> list[int]:
    """The living processes that have the token in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if token.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except (OSError, ValueError):
            continue
    return [pid for pid in found if pid != os.getpid()]


def descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def test_a_program_that_waits_hears_what_its_call_is(
    serve: Serve, workspace: Path, token: str
) -> None:
    ended = await serve(ECHO, env={"A": "ä\n'\"", "B": "x" * 500_000})

    env = {"PATH": "/usr/bin:/bin", "TOKEN": token, "A": "ä\n'\"", "B": "x" * 500_000}
    job = {"argv": ["/bin/echo", "cold"], "env": env, "cwd": str(workspace)}
    assert ended.stdout.total_bytes == len(json.dumps(job))
    assert (ended.outcome, ended.warm, ended.cold_because) == ("ok", True, "")


@pytest.mark.promise("warm-8")
@pytest.mark.parametrize(
    ("ending", "expected"),
    [
        (END.format(0), ("ok", 0, None)),
        (END.format(7), ("failed", 7, None)),
        (END.format(255), ("failed", 255, None)),
        ("exit 3", ("failed", 3, None)),
        ("kill -9 $$", ("failed", None, 9)),
        ("kill -TERM $$", ("failed", None, 15)),
        ("exec 4>&-; exit 6", ("failed", 6, None)),
        ("printf 4 >&4; exit 5", ("failed", 5, None)),
        ("printf '1234\\n' >&4; exit 5", ("failed", 5, None)),
        ("printf 'nonsense' >&4; read -r _ <&4; exit 8", ("failed", 8, None)),
    ],
)
async def test_a_program_ends_as_it_says_or_as_it_does(
    serve: Serve, ending: str, expected: tuple[str, int | None, int | None]
) -> None:
    for _ in range(2):
        ended = await serve(HEAR + ending)

        assert (ended.outcome, ended.exit_code, ended.signal) == expected
        assert ended.warm


async def test_what_is_printed_and_answered_before_the_end_is_kept(serve: Serve) -> None:
    ended = await serve(HEAR + "echo out; echo err >&2; printf answer >&3; " + END.format(0))

    assert (ended.stdout.text, ended.stderr.text, ended.answer) == ("out\n", "err\n", b"answer")


async def test_a_program_that_ends_with_its_call_unread_is_replaced_by_a_fresh_one(
    serve: Serve,
) -> None:
    ended = await serve(READY + "read -r -N 1 _; exit 5", stdin=b"x")

    assert (ended.outcome, ended.stdout.text, ended.warm) == ("ok", "cold\n", False)
    assert ended.cold_because == "the process that waited for it had ended"


async def test_a_program_that_cannot_wait_is_replaced_by_a_fresh_one(serve: Serve) -> None:
    ended = await serve("echo trouble >&2; exit 1")

    assert (ended.outcome, ended.stdout.text, ended.stderr.text) == ("ok", "cold\n", "")


async def test_a_program_that_does_not_read_its_call_is_ended_at_the_timeout(
    serve: Serve,
) -> None:
    ended = await serve(READY + "sleep 1000", timeout=0.3)

    assert (ended.outcome, ended.exit_code, ended.warm) == ("timed_out", 124, True)


async def test_a_program_that_is_not_there_is_an_error(engine: Engine, workspace: Path) -> None:
    waits = Prestarted(argv=("/bin/no-such-program",), env=(), cwd=workspace)
    command = Command(argv=("/bin/true",), env={}, cwd=workspace, warm=waits)

    with pytest.raises(CommandStartError):
        await engine.run(command, Confinement(workspace=workspace))


async def test_a_cancelled_call_ends_its_program(serve: Serve, survivors: Survivors) -> None:
    task = asyncio.ensure_future(serve(HEAR + "sleep 1000"))
    await until(lambda: any("sleep 1000" in line and "bash" not in line for line in survivors()))

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert not any(line.startswith("sleep") for line in survivors())
    assert (await serve(ECHO)).outcome == "ok"


def _are_gone(pids: set[int], token: str) -> bool:
    return not pids & set(carrying(token))


async def test_a_slot_that_is_lost_while_its_program_waits_leaves_nothing_open(
    serve: Serve, token: str
) -> None:
    await serve(ECHO)
    await until(lambda: bool(carrying(token)))
    before = descriptors()

    for _ in range(10):
        waited = set(carrying(token))
        for pid in waited:
            sandbox = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            os.kill(sandbox, signal.SIGKILL)
        await until(partial(_are_gone, waited, token))
        if (await serve(ECHO)).code == "zygote_lost":  # its end was not noticed before the call
            assert (await serve(ECHO)).outcome == "ok"
        await until(lambda: bool(carrying(token)))

    # What the loop itself may have opened meanwhile, and what one more holds that waits.
    assert descriptors() <= before + 2 + 6


async def test_closing_ends_the_programs_that_wait_and_every_descriptor(
    workspace: Path, token: str
) -> None:
    async def serve_once(engine: Engine) -> None:
        shared = (("PATH", "/usr/bin:/bin"), ("TOKEN", token))
        waits = Prestarted(argv=("/bin/bash", "-c", ECHO), env=shared, cwd=workspace)
        command = Command(argv=("/bin/true",), env=dict(shared), cwd=workspace, warm=waits)
        assert (await engine.run(command, Confinement(workspace=workspace))).warm

    others = set(zygotes())  # of tests before this one, in the same process
    async with Engine() as engine:
        await serve_once(engine)
    before = descriptors()

    for _ in range(3):
        async with Engine() as engine:
            await serve_once(engine)

    assert carrying(token) == []
    assert set(zygotes()) <= others
    assert descriptors() <= before


@pytest.fixture
async def idle_engine() -> AsyncIterator[Engine]:
    async with Engine(idle_seconds=0.2) as engine:
        yield engine


async def test_programs_do_not_wait_for_ever(
    idle_engine: Engine, workspace: Path, token: str
) -> None:
    shared = (("PATH", "/usr/bin:/bin"), ("TOKEN", token))
    waits = Prestarted(argv=("/bin/bash", "-c", ECHO), env=shared, cwd=workspace)
    command = Command(argv=("/bin/true",), env=dict(shared), cwd=workspace, warm=waits)

    others = set(zygotes())
    await idle_engine.run(command, Confinement(workspace=workspace))

    await until(lambda: carrying(token) == [] and set(zygotes()) <= others)
