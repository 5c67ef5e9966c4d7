"""Bash scripts over the wire: the tools of a session are commands, and end with it."""

import asyncio
import json
import os
import signal
import sys
from pathlib import Path

import grpc
import pytest

from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from skillpouch.servers.grpc.v1.skillpouch_pb2_grpc import SkillpouchStub
from tests.servers.grpc.conftest import NewServer
from tests.servers.grpc.serving import (
    connected,
    refusal,
    running_in,
    until,
)
from tests.servers.grpc.test_sessions import SHOUT
from tests.servers.processes import lineage, processes_with

pytest.importorskip("bashkit")

pytestmark = pytest.mark.slow


async def test_a_script_calls_the_tools_of_its_session(new_server: NewServer) -> None:
    async with connected(new_server()) as stub:
        await stub.CreateSession(pb.CreateSessionRequest(session_id="s"))
        use = pb.UseSkillRequest(session_id="s", skill_name="shouting", skill_content=SHOUT)
        await stub.UseSkill(use)
        script = (
            'demo.echo --text "$(cat /in/word)" | jq -r .said\n'
            "shouting.shout --text loud\n"
            "echo kept > /out/file\n"
        )
        request = pb.RunScriptRequest(session_id="s", script=script, files={"word": b"soft"})
        answer = await stub.RunScript(request)
        other = await stub.RunScript(pb.RunScriptRequest(script="shouting.shout --text loud"))

    assert (answer.status, answer.stdout, answer.stderr) == ("ok", "soft\nLOUD\n", "")
    assert [(each.tool, each.outcome) for each in answer.calls] == [
        ("demo.echo", "ok"),
        ("shouting.shout", "ok"),
    ]
    assert json.loads(answer.calls[0].params_json) == {"text": "soft"}
    assert [(each.path, each.data) for each in answer.artifacts] == [("file", b"kept\n")]
    assert (other.status, list(other.calls)) == ("failed", [])


@pytest.mark.usefixtures("writes_directly")
async def test_a_script_ends_by_its_name_and_with_its_session(new_server: NewServer) -> None:
    server = new_server()
    async with connected(server) as stub:
        await stub.CreateSession(pb.CreateSessionRequest(session_id="s"))
        workspace = await server.sessions.workspace("s")
        request = pb.RunScriptRequest(session_id="s", script="demo.slow", call_id="mine")
        first = asyncio.ensure_future(refusal(stub.RunScript(request)))
        await until((workspace / "started").exists)
        cancelled = await stub.Cancel(pb.CancelRequest(session_id="s", call_id="mine"))
        (workspace / "started").unlink()
        second = asyncio.ensure_future(refusal(stub.RunScript(request)))
        await until((workspace / "started").exists)
        await stub.DestroySession(pb.DestroySessionRequest(session_id="s"))
        ends = [await first, await second]

    assert cancelled.cancelled
    assert ends == [
        (grpc.StatusCode.CANCELLED, "cancelled"),
        (grpc.StatusCode.ABORTED, "session_ended"),
    ]


async def test_a_script_that_is_no_bash_is_an_answer_and_no_error(new_server: NewServer) -> None:
    async with connected(new_server()) as stub:
        answer = await stub.RunScript(pb.RunScriptRequest(script="if then"))

    assert answer.status == "syntax"


@pytest.mark.promise("limit-8")
@pytest.mark.parametrize("asked", [1000.0, float("inf")])
async def test_no_script_asks_for_more_time_than_the_limit(
    new_server: NewServer, asked: float
) -> None:
    async with connected(new_server()) as stub:
        script = pb.RunScriptRequest(script="true", timeout_seconds=asked)
        refused = await refusal(stub.RunScript(script))

    assert refused == (grpc.StatusCode.INVALID_ARGUMENT, "time_limit")


@pytest.mark.usefixtures("writes_directly")
async def test_a_killed_worker_loses_its_script_and_the_next_one_is_answered(
    new_server: NewServer, workspace: Path
) -> None:
    async with connected(new_server()) as stub:
        script = asyncio.ensure_future(stub.RunScript(pb.RunScriptRequest(script="demo.slow")))
        await until(lambda: running_in(workspace))
        for pid in processes_with(b"worker/main.py"):
            if os.getpid() in lineage(pid):
                os.kill(pid, signal.SIGKILL)
        lost = await script
        after = await stub.RunScript(pb.RunScriptRequest(script="echo again"))

    assert (lost.status, running_in(workspace)) == ("crashed", [])
    assert (after.status, after.stdout) == ("ok", "again\n")


async def test_a_client_of_the_command_makes_a_tool_and_calls_it(tmp_path: Path) -> None:
    (tmp_path / "skills").mkdir()
    words = ("serve", "grpc", "--listen", "127.0.0.1:0", "--root", "skills", "--define-tools")
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "skillpouch", *words), cwd=tmp_path, stderr=asyncio.subprocess.PIPE
    )
    assert server.stderr is not None
    line = ""
    while "over gRPC at " not in line:
        line = (await server.stderr.readline()).decode()
        assert line, "the server ended"
    tool = {"name": "twice", "description": "Twice.", "code": "return args['n'] * 2"}
    given = json.dumps(tool | {"parameters": {"n": {"type": "integer"}}})
    address = line.split("over gRPC at ")[1].split()[0].removeprefix("http://")
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            stub = SkillpouchStub(channel)
            await stub.CreateSession(pb.CreateSessionRequest(session_id="s"))
            define = pb.ExecuteToolRequest(session_id="s", tool="define_tool", args_json=given)
            await stub.ExecuteTool(define)
            script = pb.RunScriptRequest(session_id="s", script="twice.twice --n 21")
            answer = await stub.RunScript(script)
    finally:
        server.terminate()
        await server.wait()

    assert (answer.status, answer.stdout) == ("ok", "42\n")
