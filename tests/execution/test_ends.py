import asyncio
import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from skillpouch.errors import CommandStartError
from skillpouch.execution.command import Command, Ended
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine

pytestmark = pytest.mark.slow

Bash = Callable[..., Awaitable[Ended]]
Survivors = Callable[[], list[str]]

# A daemon that has left its parent, its session and its terminal.
DAEMON = "(setsid sleep 1000 </dev/null >/dev/null 2>&1 &) ; (setsid sleep 1000 &) ;"


async def test_output_and_errors_stay_apart(bash: Bash) -> None:
    ended = await bash("echo out; echo err >&2")

    assert (ended.stdout.data, ended.stderr.data) == (b"out\n", b"err\n")
    assert (ended.outcome, ended.exit_code, ended.signal, ended.code) == ("ok", 0, None, None)


async def test_a_failing_program_is_a_result_with_its_exit_code(bash: Bash) -> None:
    ended = await bash("echo why >&2; exit 7")

    assert (ended.outcome, ended.exit_code, ended.stderr.text) == ("failed", 7, "why\n")


@pytest.mark.parametrize(
    "script",
    [
        "kill -9 $$",
        "kill -TERM $$",
        "kill -ABRT $$",
        "trap 'exit 3' TERM; kill -TERM $$; exit 4",
        "sleep 100 & kill $!; wait $!; exit $?",
        "(kill -INT $BASHPID); exit $?",
        "yes | head -1; exit ${PIPESTATUS[0]}",
    ],
)
async def test_signals_do_what_they_do_under_a_plain_shell(
    bash: Bash, workspace: Path, script: str
) -> None:
    plain = subprocess.run(["/bin/bash", "-c", script], cwd=workspace, check=False)

    ended = await bash(script)

    status = ended.exit_code if ended.signal is None else -ended.signal
    assert status == plain.returncode


@pytest.mark.promise("proc-3")
async def test_a_timeout_asks_first_then_kills(bash: Bash, survivors: Survivors) -> None:
    polite = await bash(
        "trap 'echo bye; exit 0' TERM; sleep 1000 & wait", limits={"timeout_seconds": 0.3}
    )
    stubborn = await bash(
        "trap '' TERM; echo no; while :; do sleep 1000; done", limits={"timeout_seconds": 0.3}
    )

    assert (polite.outcome, polite.exit_code, polite.stdout.text) == ("timed_out", 124, "bye\n")
    assert (stubborn.outcome, stubborn.exit_code, stubborn.code) == ("timed_out", 124, "timeout")
    assert survivors() == []


@pytest.mark.promise("proc-1")
async def test_a_daemon_is_dead_when_its_call_ends(bash: Bash, survivors: Survivors) -> None:
    ended = await bash(DAEMON + "echo done")

    assert survivors() == []
    assert (ended.outcome, ended.stdout.text) == ("ok", "done\n")
    assert ended.duration_seconds < 20


@pytest.mark.promise("proc-2")
async def test_a_daemon_is_dead_when_its_call_times_out(bash: Bash, survivors: Survivors) -> None:
    ended = await bash(DAEMON + "sleep 1000", limits={"timeout_seconds": 0.3})

    assert survivors() == []
    assert ended.outcome == "timed_out"


@pytest.mark.promise("proc-4")
async def test_cancelling_the_task_kills_the_tree_before_it_raises(
    bash: Bash, survivors: Survivors
) -> None:
    started = asyncio.Event()
    task = asyncio.ensure_future(
        bash(DAEMON + "echo go; sleep 1000", on_output=lambda *_: started.set())
    )
    await started.wait()
    assert survivors() != []

    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert survivors() == []


async def test_a_background_child_that_keeps_the_pipe_open_does_not_delay_the_result(
    bash: Bash, survivors: Survivors
) -> None:
    ended = await bash("sleep 1000 & echo first")

    assert (ended.outcome, ended.stdout.text) == ("ok", "first\n")
    assert survivors() == []


async def test_input_larger_than_a_pipe_arrives_whole(bash: Bash) -> None:
    ended = await bash("wc -c", stdin=b"x" * 5_000_000)

    assert ended.stdout.text == "5000000\n"


async def test_input_and_output_larger_than_pipes_do_not_block_each_other(bash: Bash) -> None:
    ended = await bash("cat", stdin=b"x" * 3_000_000)

    assert ended.stdout.total_bytes == 3_000_000


async def test_a_program_that_ignores_its_input_is_no_error(bash: Bash) -> None:
    ended = await bash("exec 0<&-; echo fine", stdin=b"x" * 5_000_000)

    assert (ended.outcome, ended.stdout.text) == ("ok", "fine\n")


async def test_without_input_a_program_reads_end_of_file(bash: Bash) -> None:
    assert (await bash("cat; echo end")).stdout.text == "end\n"


@pytest.mark.promise("limit-1")
async def test_long_output_keeps_head_and_tail_and_is_saved_whole(
    bash: Bash, workspace: Path
) -> None:
    ended = await bash("for i in {1..20000}; do echo line $i; done", limits={"keep_bytes": 1000})

    whole = "".join(f"line {i}\n" for i in range(1, 20001)).encode()
    assert ended.stdout.total_bytes == len(whole)
    assert ended.stdout.head == whole[:500]
    assert ended.stdout.tail == whole[-500:]
    assert ended.stdout.truncated
    assert ended.stdout.saved_to is not None
    assert ended.stdout.saved_to.parent == workspace / ".skillpouch" / "output"
    assert ended.stdout.saved_to.read_bytes() == whole
    assert ended.stderr.saved_to is None


@pytest.mark.promise("limit-2")
async def test_endless_output_is_killed(bash: Bash, survivors: Survivors) -> None:
    ended = await bash("yes & yes", limits={"kill_bytes": 1_000_000})

    assert (ended.outcome, ended.code) == ("killed", "output_limit")
    assert ended.stdout.total_bytes < 1_200_000
    assert survivors() == []


async def test_live_output_reaches_the_callback(bash: Bash) -> None:
    seen: dict[str, bytes] = {"stdout": b"", "stderr": b""}

    def collect(stream: str, piece: bytes) -> None:
        seen[stream] += piece

    await bash("echo out; echo err >&2", on_output=collect)

    assert seen == {"stdout": b"out\n", "stderr": b"err\n"}


async def test_a_missing_program_is_said_before_anything_runs(
    engine: Engine, workspace: Path
) -> None:
    command = Command(argv=("/usr/bin/no-such-program",), env={}, cwd=workspace)

    with pytest.raises(CommandStartError, match="no-such-program: No such file"):
        await engine.run(command, Confinement(workspace=workspace))


async def test_a_missing_folder_is_said_before_anything_runs(bash: Bash, workspace: Path) -> None:
    with pytest.raises(CommandStartError):
        await bash("true", cwd=workspace / "missing")


@pytest.mark.promise("env-1")
async def test_a_program_sees_exactly_the_environment_it_was_given(
    bash: Bash, token: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET", "hunter2")

    ended = await bash("exec /usr/bin/env", env={"GIVEN": "ä\n"})

    # The three that bash makes itself.
    lines = [x for x in ended.stdout.text.split("\n") if not x.startswith(("PWD=", "SHLVL=", "_="))]
    assert sorted(lines) == sorted(["PATH=/usr/bin:/bin", f"TOKEN={token}", "GIVEN=ä", "", ""])


async def test_arguments_too_long_for_a_packet_arrive(engine: Engine, workspace: Path) -> None:
    words = tuple(f"{'x' * 100}{i}" for i in range(5000))
    command = Command(argv=("/usr/bin/printf", "%s\\n", *words), env={}, cwd=workspace)

    ended = await engine.run(command, Confinement(workspace=workspace))

    assert ended.stdout.total_bytes == sum(len(word) + 1 for word in words)


async def test_the_result_says_what_protected_it(bash: Bash) -> None:
    ended = await bash("true")

    assert ended.protections["tree"] in {"pidns", "subreaper"}
    assert ended.protections["fs"] != "none"
    assert ended.usage is not None
    assert ended.usage.peak_memory_bytes > 100_000


async def test_a_descriptor_of_the_host_does_not_reach_a_program(
    bash: Bash, tmp_path: Path
) -> None:
    fd = os.open(tmp_path, os.O_RDONLY)
    os.set_inheritable(fd, True)
    try:
        ended = await bash("ls /proc/self/fd | sort -n | tr '\\n' ' '")
    finally:
        os.close(fd)

    # 3 is the folder that ls is reading.
    assert ended.stdout.text == "0 1 2 3 "
