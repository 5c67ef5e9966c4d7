"""Very many calls at once, and processes killed in the middle: right answers, nothing left."""

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from skillpouch.servers.grpc.v1.skillpouch_pb2_grpc import SkillpouchStub
from tests.effort import few_or_many
from tests.servers.grpc.conftest import NewServer
from tests.servers.grpc.serving import call, connected, listening, running_in, until
from tests.servers.processes import lineage

pytestmark = pytest.mark.slow

AT_ONCE = 64


async def all_right(stub: Any, numbers: Iterator[int]) -> list[int]:
    """Call once for each number, and return those that were answered wrongly."""
    wrong: list[int] = []

    async def work() -> None:
        for number in numbers:
            result = await call(stub, "demo.echo", {"text": f"n{number}"})
            if result.structured_json != json.dumps({"said": f"n{number}"}):
                wrong.append(number)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
    return wrong


@pytest.mark.timeout(600)
@few_or_many("calls", 400, 2_000)
async def test_thousands_of_calls_at_once_are_answered_rightly(
    new_server: NewServer, calls: int
) -> None:
    server = new_server(most_running_per_session=AT_ONCE)
    async with connected(server) as stub:
        wrong = await all_right(stub, iter(range(calls)))

    assert wrong == []
    assert f'skillpouch_calls_total{{outcome="ok"}} {calls}\n' in server.metrics.text()


@pytest.mark.usefixtures("writes_directly")
@pytest.mark.timeout(600)
async def test_a_killed_zygote_loses_its_call_and_every_other_call_is_answered(
    new_server: NewServer, workspace: Path
) -> None:
    server = new_server()
    async with connected(server) as stub:
        await stub.CreateSession(pb.CreateSessionRequest(session_id="other"))
        doomed = asyncio.ensure_future(call(stub, "demo.slow"))
        await until(lambda: running_in(workspace))
        others = [
            asyncio.ensure_future(
                call(stub, "demo.echo", {"text": str(number)}, session_id="other")
            )
            for number in range(40)
        ]
        os.kill(lineage(running_in(workspace)[0])[1], signal.SIGKILL)
        lost = await doomed
        answers = [json.loads((await other).structured_json)["said"] for other in others]
        again = await call(stub, "demo.echo", {"text": "again"})

    assert (lost.outcome, lost.code) == ("killed", "zygote_lost")
    assert answers == [str(number) for number in range(40)]
    assert again.outcome == "ok"
    assert running_in(workspace) == []


@pytest.mark.timeout(600)
async def test_clients_that_come_and_leave_in_the_middle_leave_nothing(
    new_server: NewServer, workspace: Path
) -> None:
    server = new_server()
    async with listening(server) as address:
        for _ in range(5):
            async with grpc.aio.insecure_channel(address) as channel:
                stub = SkillpouchStub(channel)
                left = [stub.ExecuteTool(pb.ExecuteToolRequest(tool="demo.slow")) for _ in range(4)]
                await stub.StreamTool(pb.StreamToolRequest(tool="demo.slow")).read()
                for each in left:
                    each.cancel()
        async with grpc.aio.insecure_channel(address) as channel:
            wrong = await all_right(SkillpouchStub(channel), iter(range(100)))
        await until(lambda: server.admission.running == 0)

    assert wrong == []
    await until(lambda: not running_in(workspace))
