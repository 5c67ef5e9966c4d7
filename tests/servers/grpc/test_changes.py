"""What calls changed over the wire: listed, shown, applied, discarded, undone; what is refused."""

from pathlib import Path
from typing import Any

import grpc
import pytest

from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from tests.builtins.keeping import keep
from tests.servers.grpc.conftest import NewServer
from tests.servers.grpc.serving import connected, refusal

pytestmark = pytest.mark.slow


async def test_a_staged_call_is_listed_shown_applied_and_undone(
    new_server: NewServer, workspace: Path
) -> None:
    (workspace / "a.txt").write_text("one\n")
    keep(workspace, {"a.txt": "two\n", "b.txt": "b"}, call_id="90", state="staged")

    async with connected(new_server()) as stub:
        listed = (await stub.ListChanges(pb.ListChangesRequest())).calls
        diff = (await stub.DiffCall(pb.DiffCallRequest(kept_id="90", path="a.txt"))).diff
        applied = (await stub.ApplyCall(pb.ApplyCallRequest(kept_id="90"))).result
        there = (workspace / "a.txt").read_text()
        undone = (await stub.UndoCalls(pb.UndoCallsRequest())).result

    (kept,) = listed
    assert (kept.kept_id, kept.tool, kept.state, kept.total) == ("90", "demo.write", "staged", 2)
    assert [(each.path, each.change) for each in kept.changes] == [
        ("a.txt", "changed"),
        ("b.txt", "created"),
    ]
    assert "-one\n+two\n" in diff
    assert (applied.tool, applied.outcome, applied.writes) == ("skillpouch.apply", "ok", "undoable")
    assert (applied.kept_id, applied.changes_total) == ("90", 2)
    assert (there, (workspace / "a.txt").read_text()) == ("two\n", "one\n")
    assert (undone.outcome, len(undone.changes), undone.is_error) == ("ok", 2, False)


async def test_conflicts_are_told(new_server: NewServer, workspace: Path) -> None:
    keep(workspace, {"a.txt": "two\n"}, call_id="90")
    (workspace / "a.txt").write_text("mine")

    async with connected(new_server()) as stub:
        result = (await stub.UndoCalls(pb.UndoCallsRequest(kept_id="90"))).result

    assert (result.outcome, result.code) == ("failed", "conflicts")
    assert [each.path for each in result.conflicts] == ["a.txt"]
    assert (workspace / "a.txt").read_text() == "mine"


async def test_a_session_has_calls_of_its_own(new_server: NewServer, workspace: Path) -> None:
    keep(workspace, {"a.txt": "of the server"}, call_id="90")

    async with connected(new_server()) as stub:
        session = (await stub.CreateSession(pb.CreateSessionRequest())).session_id
        listed = (await stub.ListChanges(pb.ListChangesRequest(session_id=session))).calls
        request = pb.UndoCallsRequest(session_id=session, kept_id="90")
        code, reason = await refusal(stub.UndoCalls(request))
        discard = pb.DiscardCallRequest(session_id=session, kept_id="90")
        discarded = await refusal(stub.DiscardCall(discard))

    assert [*listed] == []
    assert (code, reason) == (grpc.StatusCode.NOT_FOUND, "nothing_kept")
    assert discarded == (grpc.StatusCode.NOT_FOUND, "nothing_kept")
    assert (workspace / "a.txt").exists()


@pytest.mark.parametrize(
    ("method", "request_message", "expected"),
    [
        ("DiffCall", pb.DiffCallRequest(), ("INVALID_ARGUMENT", "invalid_message")),
        ("ApplyCall", pb.ApplyCallRequest(kept_id="7"), ("NOT_FOUND", "no_such_change")),
        (
            "DiscardCall",
            pb.DiscardCallRequest(kept_id="90"),
            ("FAILED_PRECONDITION", "change_state"),
        ),
        (
            "DiffCall",
            pb.DiffCallRequest(kept_id="90", path="no"),
            ("INVALID_ARGUMENT", "unknown_change"),
        ),
        (
            "UndoCalls",
            pb.UndoCallsRequest(kept_id="90", calls=2),
            ("INVALID_ARGUMENT", "invalid_message"),
        ),
        (
            "UndoCalls",
            pb.UndoCallsRequest(whole_session=True),
            ("INVALID_ARGUMENT", "invalid_message"),
        ),
        (
            "ExecuteTool",
            pb.ExecuteToolRequest(tool="demo.echo", writes="anywhere"),
            ("INVALID_ARGUMENT", "invalid_message"),
        ),
    ],
)
async def test_a_wrong_request_has_a_code_of_its_own(
    method: str,
    request_message: Any,
    expected: tuple[str, str],
    new_server: NewServer,
    workspace: Path,
) -> None:
    keep(workspace, {"a.txt": "x"}, call_id="90")

    async with connected(new_server()) as stub:
        code, reason = await refusal(getattr(stub, method)(request_message))

    assert (code.name, reason) == expected
    assert (workspace / "a.txt").read_text() == "x"


async def test_a_folder_of_the_server_is_not_named(new_server: NewServer, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "private"
    other.mkdir(parents=True)
    keep(other, {"a.txt": "x"}, call_id="90")

    async with connected(new_server()) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await stub.UndoCalls(pb.UndoCallsRequest(kept_id="90"))

    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "elsewhere" not in str(caught.value.details())


async def test_all_that_waits_in_a_session_is_settled_at_once(new_server: NewServer) -> None:
    server = new_server()
    async with connected(server) as stub:
        session = (await stub.CreateSession(pb.CreateSessionRequest())).session_id
        folder = await server.sessions.workspace(session)
        said: dict[str, Any] = {"session_id": session, "whole_session": True}
        for number in ("90", "91"):
            keep(folder, {number: "new"}, call_id=number, state="staged", session=session)
        applied = (await stub.ApplyCall(pb.ApplyCallRequest(**said))).result
        keep(folder, {"92": "new"}, call_id="92", state="staged", session=session)
        discarded = (await stub.DiscardCall(pb.DiscardCallRequest(**said))).result
        both = await refusal(stub.ApplyCall(pb.ApplyCallRequest(kept_id="90", **said)))
        whose = await refusal(stub.DiscardCall(pb.DiscardCallRequest(whole_session=True)))
        found = sorted(path.name for path in folder.iterdir())

    assert (applied.outcome, applied.changes_total, discarded.outcome) == ("ok", 2, "ok")
    assert found == ["90", "91"]
    assert (both[1], whose[1]) == ("invalid_message", "invalid_message")
