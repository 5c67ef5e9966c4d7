"""`skillpouch serve grpc` as a program: it says when it is ready, drains, and ends in order."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from skillpouch.servers.grpc.v1.skillpouch_pb2_grpc import SkillpouchStub
from tests.conftest import WriteSkill
from tests.servers.grpc.serving import PATIENCE_SECONDS, call, refusal, running_in, until
from tests.servers.processes import signal_other_thread

pytestmark = pytest.mark.slow

WAITS = """
import os, pathlib, subprocess, time, zlib
subprocess.Popen(["sleep", str(10**6 + zlib.crc32(os.getcwd().encode()))])
pathlib.Path("started").touch()
while not pathlib.Path("go").exists():
    time.sleep(0.02)
print("let go")
"""


@pytest.fixture
def workspace(tmp_path: Path, write_skill: WriteSkill) -> Path:
    write_skill(files={"scripts/waits.py": WAITS})
    (tmp_path / "workspace").mkdir()
    return tmp_path / "workspace"


class Program:
    """A server that runs by itself, and the address from its ready line."""

    def __init__(self, *words: str) -> None:
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "skillpouch",
                "serve",
                "grpc",
                "--listen",
                "127.0.0.1:0",
                *words,
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert self.process.stderr is not None
        self.ready = json.loads(self.process.stderr.readline())
        found = re.search(r"\S+$", self.ready["message"])
        assert found is not None
        self.address = found[0]

    def end(self) -> tuple[int, bytes, bytes]:
        out, err = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, out, err


@pytest.fixture
def program(workspace: Path, tmp_path: Path) -> Iterator[Program]:
    words = ("--root", str(tmp_path / "skills"), "--workspace", str(workspace), "--log", "json")
    started = Program(*words)
    yield started
    started.process.kill()
    started.process.communicate()


@pytest.mark.usefixtures("writes_directly")
async def test_sigterm_lets_a_running_call_finish_and_takes_no_other(
    program: Program, workspace: Path
) -> None:
    async with grpc.aio.insecure_channel(program.address) as channel:
        stub = SkillpouchStub(channel)
        running = asyncio.ensure_future(call(stub, "demo.waits"))
        await until((workspace / "started").exists)
        program.process.send_signal(signal.SIGTERM)
        late = await _first_refusal(stub)
        (workspace / "go").touch()
        result = await running
    ended = await asyncio.to_thread(program.end)

    assert program.ready["message"].startswith("serving 1 tools over gRPC at 127.0.0.1:")
    assert late == (grpc.StatusCode.UNAVAILABLE, "server_stopping")
    assert (result.outcome, result.content) == ("ok", "let go")
    assert ended == (0, b"", b"")


@pytest.mark.usefixtures("writes_directly")
@pytest.mark.promise("stop-1")
async def test_sigterm_is_heard_whichever_thread_the_kernel_hands_it_to(
    program: Program, workspace: Path
) -> None:
    async with grpc.aio.insecure_channel(program.address) as channel:
        stub = SkillpouchStub(channel)
        running = asyncio.ensure_future(call(stub, "demo.waits"))
        await until((workspace / "started").exists)
        signal_other_thread(program.process.pid, signal.SIGTERM)
        late = await _first_refusal(stub)
        (workspace / "go").touch()
        await running
    code, *_ = await asyncio.to_thread(program.end)

    assert (late[1], code) == ("server_stopping", 0)


async def _first_refusal(stub: Any) -> tuple[grpc.StatusCode, str]:
    """Ask for a tool that is not there until the answer is about the server instead."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (found := await refusal(call(stub, "none")))[1] == "unknown_tool":
            await asyncio.sleep(0.02)
    return found


@pytest.mark.usefixtures("writes_directly")
async def test_a_second_signal_ends_what_runs(program: Program, workspace: Path) -> None:
    async with grpc.aio.insecure_channel(program.address) as channel:
        stub = SkillpouchStub(channel)
        running = asyncio.ensure_future(refusal(call(stub, "demo.waits")))
        await until((workspace / "started").exists)
        program.process.send_signal(signal.SIGTERM)
        await _first_refusal(stub)
        program.process.send_signal(signal.SIGTERM)
        status, _ = await running
    code, _, _ = await asyncio.to_thread(program.end)

    assert (status, code) == (grpc.StatusCode.CANCELLED, 0)
    await until(lambda: not running_in(workspace))


@pytest.mark.usefixtures("writes_directly")
@pytest.mark.promise("grpc-4")
async def test_a_server_that_is_killed_leaves_no_tool_running(
    program: Program, workspace: Path
) -> None:
    async with grpc.aio.insecure_channel(program.address) as channel:
        request = pb.ExecuteToolRequest(tool="demo.waits")
        running = SkillpouchStub(channel).ExecuteTool(request)
        await until((workspace / "started").exists)
        program.process.kill()
        with pytest.raises(grpc.aio.AioRpcError):
            await running

    await until(lambda: not running_in(workspace))


@pytest.mark.usefixtures("writes_directly")
@pytest.mark.promise("grpc-4")
async def test_a_client_that_is_killed_ends_its_call_and_no_other(
    program: Program, workspace: Path
) -> None:
    client = subprocess.Popen([sys.executable, "-c", _CLIENT, program.address])
    await until(lambda: running_in(workspace))
    async with grpc.aio.insecure_channel(program.address) as channel:
        other = asyncio.ensure_future(call(SkillpouchStub(channel), "demo.waits"))
        await until(lambda: len(running_in(workspace)) == 2)
        client.kill()
        client.wait()
        await until(lambda: len(running_in(workspace)) == 1)
        (workspace / "go").touch()
        result = await other

    assert (result.outcome, result.content) == ("ok", "let go")


_CLIENT = """
import sys, grpc
from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from skillpouch.servers.grpc.v1.skillpouch_pb2_grpc import SkillpouchStub
stub = SkillpouchStub(grpc.insecure_channel(sys.argv[1]))
stub.ExecuteTool(pb.ExecuteToolRequest(tool="demo.waits"))
"""


@pytest.mark.usefixtures("writes_directly")
async def test_health_says_when_the_server_takes_nothing_new(
    program: Program, workspace: Path
) -> None:
    statuses = []
    async with grpc.aio.insecure_channel(program.address) as channel:
        running = asyncio.ensure_future(call(SkillpouchStub(channel), "demo.waits"))
        await until((workspace / "started").exists)
        health: Any = health_pb2_grpc.HealthStub(channel)
        watch = health.Watch(health_pb2.HealthCheckRequest())
        statuses.append((await watch.read()).status)
        program.process.send_signal(signal.SIGTERM)
        statuses.append((await watch.read()).status)
        (workspace / "go").touch()
        result = await running

    serving = health_pb2.HealthCheckResponse.SERVING
    assert statuses == [serving, health_pb2.HealthCheckResponse.NOT_SERVING]
    assert result.outcome == "ok"


@pytest.mark.usefixtures("writes_directly")
async def test_counts_can_be_read_where_they_were_asked_for(
    workspace: Path, tmp_path: Path
) -> None:
    with socket.socket() as chosen:
        chosen.bind(("127.0.0.1", 0))
        port = chosen.getsockname()[1]
    words = ("--root", str(tmp_path / "skills"), "--workspace", str(workspace), "--log", "json")
    started = Program(*words, "--metrics", f"127.0.0.1:{port}")
    (workspace / "go").touch()
    async with grpc.aio.insecure_channel(started.address) as channel:
        await call(SkillpouchStub(channel), "demo.waits")
        await refusal(call(SkillpouchStub(channel), "none"))
    pages = {
        name: await asyncio.to_thread(_read, f"http://127.0.0.1:{port}/{name}")
        for name in ("readyz", "healthz", "metrics")
    }
    started.process.terminate()
    ended = await asyncio.to_thread(started.end)

    assert (pages["readyz"], pages["healthz"]) == ("ready\n", "ok\n")
    assert 'skillpouch_calls_total{outcome="ok"} 1\n' in pages["metrics"]
    assert 'skillpouch_refused_total{fault="not_found"} 1\n' in pages["metrics"]
    assert ended == (0, b"", b"")


def _read(url: str) -> str:
    with urllib.request.urlopen(url, timeout=PATIENCE_SECONDS) as answer:
        return str(answer.read().decode())
