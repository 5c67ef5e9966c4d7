"""An approval that is asked for over MCP outlives the server that asked."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.jobs.hosts import end_host, kill_host
from tests.servers.mcp.test_stdio import HELLO, READY, Program, call, started

pytestmark = pytest.mark.slow
SERVE = ("-m", "skillpouch", "serve", "mcp")
POLICY = """
writes = "direct"
[[rules]]
verdict = "ask"
tools = ["demo.mark"]
reason = "look first"
"""


@pytest.fixture(autouse=True)
def no_host_left(own_directories: None) -> Iterator[None]:  # noqa: ARG001 - it sets the folders
    yield
    end_host()


@pytest.fixture
def skills(tmp_path: Path) -> Path:
    """A skill whose tool appends a word to a file, and a policy that asks about it."""
    scripts = tmp_path / "skills/demo/scripts"
    scripts.mkdir(parents=True)
    (scripts / "mark.sh").write_text('#!/bin/bash\n# Append a word.\necho "$1" >> ran\necho done\n')
    (scripts.parent / "SKILL.md").write_text("---\nname: demo\ndescription: Demo.\n---\nDo it.\n")
    settings = Path(os.environ["XDG_CONFIG_HOME"]) / "skillpouch"
    settings.mkdir(parents=True, exist_ok=True)
    (settings / "policy.toml").write_text(POLICY)
    return tmp_path / "skills"


async def called(server: Program, number: int, name: str, arguments: dict[str, Any]) -> Any:
    server.write(call(number, name, arguments))
    return (await server.answer_to(number))["result"]


def text_in(result: Any) -> str:
    return str(result["content"][0]["text"])


@pytest.mark.promise("ask-4")
@pytest.mark.parametrize("host_too", [False, True])
async def test_an_approval_asked_over_mcp_is_answered_after_the_server_was_killed(
    skills: Path, workspace: Path, *, host_too: bool
) -> None:
    words = ["--root", str(skills), "--workspace", str(workspace), "--job-tools"]
    async with started(*SERVE, *words) as server:
        server.write(HELLO, READY)
        left = await called(server, 1, "demo__mark", {"args": ["one"]})
        server.process.send_signal(signal.SIGKILL)
        await server.end()
    if host_too:
        kill_host()
    job = left["_meta"]["skillpouch/job_id"]
    question = re.search(r"skillpouch approve (q[0-9a-f]{32})", text_in(left))
    assert question is not None

    async with started(*SERVE, *words) as server:
        server.write(HELLO, READY)
        waits = await called(server, 2, "job_wait", {"id": job, "seconds": 0})
        before = (workspace / "ran").exists()
        approve = [sys.executable, "-m", "skillpouch", "approve", question[1]]
        subprocess.run(approve, check=True, capture_output=True)
        ended = await called(server, 3, "job_wait", {"id": job, "seconds": 40})
        again = await called(server, 4, "job_wait", {"id": job, "seconds": 40})
        server.close()
        await server.end()

    assert question[1] in text_in(waits)
    assert not before
    assert (text_in(ended), text_in(again)) == ("done", "done")
    assert (workspace / "ran").read_text() == "one\n"
