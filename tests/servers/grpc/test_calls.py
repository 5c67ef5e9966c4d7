"""One call over the wire: its result, its output while it runs, its end, and what is refused."""

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc.error_details_pb2 import BadRequest

from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from skillpouch.servers.grpc.v1.skillpouch_pb2_grpc import SkillpouchStub
from tests.conftest import WriteSkill
from tests.servers.grpc.conftest import NewServer
from tests.servers.grpc.serving import (
    PATIENCE_SECONDS,
    call,
    connected,
    listening,
    refusal,
    rich_status,
    running_in,
    until,
)

pytestmark = pytest.mark.slow

SLOW = pb.ExecuteToolRequest(tool="demo.slow", call_id="mine")


async def test_a_handler_answers_with_its_value(new_server: NewServer) -> None:
    async with connected(new_server()) as stub:
        result = await call(stub, "demo.echo", {"text": "grüße 👋"})

    assert (result.outcome, json.loads(result.structured_json)) == ("ok", {"said": "grüße 👋"})
    assert result.protections["fs"]


@pytest.mark.parametrize("printed", ["1e999", "[" * 300 + "]" * 300])
async def test_a_value_that_few_can_read_is_text(
    printed: str, new_server: NewServer, write_skill: WriteSkill
) -> None:
    write_skill("odd", files={"scripts/odd.py": f'"""Odd."""\nprint({printed!r})\n'})

    async with connected(new_server()) as stub:
        result = await call(stub, "odd.odd")

    assert (result.outcome, result.content, result.structured_json) == ("ok", printed, "")


@pytest.mark.promise("fs-5")
async def test_what_a_call_did_to_files_is_told(
    new_server: NewServer,
    write_skill: WriteSkill,
    workspace: Path,
) -> None:
    script = "mv old.txt new.txt; mkdir .claude; echo > .claude/settings.json\n"
    write_skill("changes", files={"scripts/go.sh": script})
    (workspace / "old.txt").write_text("old")

    async with connected(new_server()) as stub:
        result = await call(stub, "changes.go")

    assert [(file.path, file.change, file.size) for file in result.files] == [
        (".claude/settings.json", "created", 1),
        ("new.txt", "created", 3),
        ("old.txt", "deleted", 0),
    ]
    assert (result.files_complete, [*result.run_later]) == (True, [".claude"])


async def test_a_tool_that_failed_is_a_result(new_server: NewServer) -> None:
    async with connected(new_server()) as stub:
        result = await call(stub, "demo.fail")

    assert (result.outcome, result.is_error, result.exit_code) == ("failed", True, 1)
    assert (result.stdout, result.stderr) == ("half\n", "it broke\n")


async def test_output_comes_in_order_and_the_result_comes_last(new_server: NewServer) -> None:
    async with connected(new_server()) as stub:
        events = [event async for event in stub.StreamTool(pb.StreamToolRequest(tool="demo.steps"))]

    printed = {
        stream: b"".join(e.output.data for e in events[:-1] if e.output.stream == stream)
        for stream in (pb.OutputChunk.STREAM_STDOUT, pb.OutputChunk.STREAM_STDERR)
    }
    assert list(printed.values()) == [b"one\nthree\n", b"two\n"]
    assert events[-1].WhichOneof("event") == "result"
    assert (events[-1].result.stdout, events[-1].result.stderr) == ("one\nthree\n", "two\n")


async def test_what_a_tool_reports_is_an_event(new_server: NewServer, tmp_path: Path) -> None:
    lines = '{"done": 1, "total": 2, "message": "half"}\\n'
    script = f"printf '{lines}' >> $SKILLPOUCH_PROGRESS; echo out\n"
    (tmp_path / "skills/demo/scripts/reports.sh").write_text(script)

    async with connected(new_server()) as stub:
        request = pb.StreamToolRequest(tool="demo.reports")
        events = [event async for event in stub.StreamTool(request)]

    progress = [event.progress for event in events if event.WhichOneof("event") == "progress"]
    assert progress == [pb.Progress(done=1, total=2, message="half")]
    assert events[-1].result.stdout == "out\n"


async def test_a_client_that_does_not_read_is_told_how_much_it_missed(
    new_server: NewServer,
) -> None:
    async with connected(new_server(most_unread_bytes=100_000)) as stub:
        stream = stub.StreamTool(pb.StreamToolRequest(tool="demo.much"))
        events = [event async for event in stream]

    heard = sum(len(event.output.data) + event.output.dropped_bytes for event in events)
    assert heard == 200_000 * 100
    assert events[-1].result.outcome == "ok"


@pytest.mark.usefixtures("writes_directly")
@pytest.mark.promise("grpc-4")
async def test_a_call_that_a_client_left_ends_and_leaves_nothing_running(
    new_server: NewServer, workspace: Path
) -> None:
    server = new_server()
    async with listening(server) as address:
        async with grpc.aio.insecure_channel(address) as channel:
            running = SkillpouchStub(channel).ExecuteTool(SLOW)
            await until(lambda: running_in(workspace))
            running.cancel()

        await until(lambda: server.admission.running == 0)
        await until(lambda: not running_in(workspace))


@pytest.mark.usefixtures("writes_directly")
@pytest.mark.promise("grpc-4")
async def test_a_stream_that_a_client_left_ends_and_leaves_nothing_running(
    new_server: NewServer, workspace: Path
) -> None:
    server = new_server()
    async with listening(server) as address:
        async with grpc.aio.insecure_channel(address) as channel:
            stream = SkillpouchStub(channel).StreamTool(pb.StreamToolRequest(tool="demo.slow"))
            first = await stream.read()
            await until(lambda: running_in(workspace))

        assert first.output.data.startswith(b"step 0\n")
        await until(lambda: server.admission.running == 0)
        await until(lambda: not running_in(workspace))


@pytest.mark.usefixtures("writes_directly")
async def test_anybody_can_end_a_call_by_its_name_and_it_has_ended_then(
    new_server: NewServer, workspace: Path
) -> None:
    server = new_server()
    async with connected(server) as stub:
        running = asyncio.ensure_future(refusal(stub.ExecuteTool(SLOW)))
        await until((workspace / "started").exists)
        again = await refusal(stub.ExecuteTool(SLOW))

        ended = await stub.Cancel(pb.CancelRequest(call_id="mine"))

        left = server.admission.running, running_in(workspace)
        status = await running
        gone = await stub.Cancel(pb.CancelRequest(call_id="mine"))

    assert again == (grpc.StatusCode.ALREADY_EXISTS, "call_id_in_use")
    assert (ended.cancelled, gone.cancelled, left) == (True, False, (0, []))
    assert status == (grpc.StatusCode.CANCELLED, "cancelled")


@pytest.mark.usefixtures("writes_directly")
async def test_a_session_that_is_destroyed_ends_its_calls(new_server: NewServer) -> None:
    server = new_server()
    async with connected(server) as stub:
        await stub.CreateSession(pb.CreateSessionRequest(session_id="s"))
        workspace = await server.sessions.workspace("s")
        slow = pb.ExecuteToolRequest(session_id="s", tool="demo.slow")
        running = asyncio.ensure_future(refusal(stub.ExecuteTool(slow)))
        await until((workspace / "started").exists)

        await stub.DestroySession(pb.DestroySessionRequest(session_id="s"))
        status = await running

    assert status == (grpc.StatusCode.ABORTED, "session_ended")
    assert not workspace.exists()


async def test_a_deadline_becomes_a_timeout_and_the_output_until_then_arrives(
    new_server: NewServer,
) -> None:
    async with connected(new_server()) as stub:
        # The first call may have to start what the second one finds ready.
        await call(stub, "demo.echo", {"text": "warm"})
        answer = await stub.ExecuteTool(pb.ExecuteToolRequest(tool="demo.slow"), timeout=6)

    assert (answer.result.outcome, answer.result.code) == ("timed_out", "timeout")
    assert answer.result.stdout.startswith("step 0\n")


async def test_a_timeout_that_is_asked_for_is_kept(new_server: NewServer) -> None:
    async with connected(new_server()) as stub:
        result = await call(stub, "demo.slow", timeout_seconds=2)

    assert result.outcome == "timed_out"


@pytest.mark.promise("limit-8")
@pytest.mark.parametrize("asked", [1000.0, float("inf")])
async def test_a_deadline_may_be_long_but_nobody_asks_for_more_than_the_limit(
    new_server: NewServer, asked: float
) -> None:
    fields: dict[str, Any] = {"tool": "demo.echo", "args_json": '{"text": "x"}'}
    async with connected(new_server()) as stub:
        fits = await stub.ExecuteTool(pb.ExecuteToolRequest(**fields), timeout=1000)
        wish = pb.ExecuteToolRequest(**fields, timeout_seconds=asked)
        refused = await refusal(stub.ExecuteTool(wish))
        both = await refusal(stub.ExecuteTool(wish, timeout=20))

    assert fits.result.outcome == "ok"
    assert refused == both == (grpc.StatusCode.INVALID_ARGUMENT, "time_limit")


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"tool": "demo.ecko"}, (grpc.StatusCode.NOT_FOUND, "unknown_tool")),
        ({"tool": "demo.echo"}, (grpc.StatusCode.INVALID_ARGUMENT, "invalid_arguments")),
        (
            {"tool": "demo.echo", "args_json": "{"},
            (grpc.StatusCode.INVALID_ARGUMENT, "invalid_message"),
        ),
        (
            {"tool": "demo.echo", "args_json": "[" * 100_000},
            (grpc.StatusCode.INVALID_ARGUMENT, "invalid_message"),
        ),
        (
            {"tool": "demo.echo", "args_json": '{"text": NaN}'},
            (grpc.StatusCode.INVALID_ARGUMENT, "invalid_message"),
        ),
        (
            {"tool": "demo.echo", "timeout_seconds": -1},
            (grpc.StatusCode.INVALID_ARGUMENT, "invalid_message"),
        ),
    ],
)
async def test_a_call_that_cannot_be_made_is_an_error_with_a_code(
    new_server: NewServer, fields: dict[str, Any], status: tuple[grpc.StatusCode, str]
) -> None:
    async with connected(new_server()) as stub:
        found = await refusal(stub.ExecuteTool(pb.ExecuteToolRequest(**fields)))
        streamed = await refusal(_all(stub.StreamTool(pb.StreamToolRequest(**fields))))

    assert (found, streamed) == (status, status)


async def _all(stream: Any) -> None:
    async for _ in stream:
        pass


async def test_what_is_wrong_with_arguments_is_said_of_each(new_server: NewServer) -> None:
    async with connected(new_server()) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await call(stub, "demo.echo", {"words": "x"})

    found = BadRequest()
    assert rich_status(caught.value).details[1].Unpack(found)
    assert [each.field for each in found.field_violations] == ["args_json"] * 2
    assert ["words" in each.description for each in found.field_violations] == [True, False]


async def test_an_error_of_any_length_reaches_the_client(new_server: NewServer) -> None:
    async with connected(new_server()) as stub:
        found = await refusal(call(stub, "ü" * 100_000))

    assert found == (grpc.StatusCode.NOT_FOUND, "unknown_tool")


@pytest.mark.usefixtures("writes_directly")
async def test_a_call_more_than_a_session_may_have_waiting_is_refused_and_others_are_not(
    new_server: NewServer, workspace: Path
) -> None:
    server = new_server(most_running_per_session=1, most_waiting_per_session=1)
    async with connected(server) as stub:
        await stub.CreateSession(pb.CreateSessionRequest(session_id="other"))
        first = stub.ExecuteTool(pb.ExecuteToolRequest(tool="demo.slow"))
        await until((workspace / "started").exists)
        second = asyncio.ensure_future(call(stub, "demo.echo", {"text": "patient"}))
        third = asyncio.ensure_future(refusal(call(stub, "demo.echo", {"text": "late"})))
        done, waiting = await asyncio.wait(
            [second, third], return_when=asyncio.FIRST_COMPLETED, timeout=PATIENCE_SECONDS
        )
        other = await call(stub, "demo.echo", {"text": "other"}, session_id="other")
        first.cancel()
        patient = await second if second in waiting else None

    assert (done, await third) == (
        {third},
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "server_busy"),
    )
    assert other.outcome == "ok"
    assert patient is not None
    assert patient.outcome == "ok"
