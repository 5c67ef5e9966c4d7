"""Output is read to the end of the program, whatever it does to its streams, and nothing spins."""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from skillpouch.execution.command import Ended

pytestmark = pytest.mark.slow

Bash = Callable[..., Awaitable[Ended]]


async def test_errors_are_read_to_their_end_after_output_was_closed(bash: Bash) -> None:
    ended = await bash("exec 1>&-; for i in {1..20000}; do echo line $i >&2; done")

    assert (ended.outcome, ended.stdout.data) == ("ok", b"")
    assert ended.stderr.text.endswith("line 19999\nline 20000\n")
    assert ended.stderr.total_bytes == sum(len(f"line {n}\n") for n in range(1, 20_001))


async def test_closing_both_streams_does_not_outlast_the_timeout(bash: Bash) -> None:
    script = "echo said; exec 1>&- 2>&-; sleep 1000"

    ended = await bash(script, limits={"timeout_seconds": 0.5})

    assert (ended.outcome, ended.exit_code, ended.stdout.text) == ("timed_out", 124, "said\n")


async def test_bytes_that_are_no_text_do_not_stop_the_reading(bash: Bash) -> None:
    ended = await bash(r"head -c 300000 /dev/zero | tr '\0' '\377'; echo end")

    assert (ended.outcome, ended.stdout.total_bytes) == ("ok", 300_004)
    assert ended.stdout.text.startswith("\ufffd")
    assert ended.stdout.text.endswith("\ufffdend\n")


async def test_while_a_program_is_silent_the_host_sleeps(
    bash: Bash, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns = 0
    selector: Any = asyncio.get_running_loop()._selector  # type: ignore[attr-defined]
    select = selector.select

    def counted(timeout: float | None = None) -> Any:
        nonlocal turns
        turns += 1
        return select(timeout)

    monkeypatch.setattr(selector, "select", counted)

    ended = await bash("exec 2>&-; sleep 1; echo done")

    assert ended.stdout.text == "done\n"
    assert turns < 500  # one that is always ready would make it tens of thousands


HOST = """
import asyncio, os, sys
from pathlib import Path
from skillpouch.execution.command import Command
from skillpouch.execution.confinement import Confinement
from skillpouch.execution.engine import Engine
from skillpouch.execution.machine import Machine

os.register_at_fork(after_in_child=lambda: os.write(1, b"noise of a library"))
workspace = Path(sys.argv[1])
command = Command(argv=("/bin/echo", "mine"), env={"A": "b"}, cwd=workspace)

async def main():
    for machine, sandbox in ((None, "on"), (Machine(), "off")):
        async with Engine(machine=machine) as engine:
            for _ in range(5):
                ended = await engine.run(command, Confinement(workspace=workspace, sandbox=sandbox))
                assert ended.stdout.data == b"mine\\n", ended.stdout.data

asyncio.run(main())
"""


def test_the_fork_handlers_of_the_hosts_libraries_write_into_no_output(workspace: Path) -> None:
    ran = subprocess.run([sys.executable, "-c", HOST, workspace], capture_output=True, check=False)

    assert ran.returncode == 0, ran.stderr.decode()
    assert ran.stdout == b""  # not even where it would not be seen
