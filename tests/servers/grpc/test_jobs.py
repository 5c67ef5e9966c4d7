"""Jobs over gRPC: they outlive clients and servers, and are reached by who started them only."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from skillpouch import SkillManager
from skillpouch.policy.policy import Policy
from skillpouch.policy.rules import Rule
from skillpouch.servers.grpc import GrpcServer, GrpcSettings
from skillpouch.servers.grpc.v1 import skillpouch_pb2 as pb
from skillpouch.servers.grpc.v1.skillpouch_pb2_grpc import SkillpouchStub
from tests.conftest import WriteSkill
from tests.servers.grpc.serving import call, connected, listening, refusal, until

pytestmark = pytest.mark.slow

NOT_FOUND, DENIED = grpc.StatusCode.NOT_FOUND, grpc.StatusCode.PERMISSION_DENIED
ADA, BOB = "token-of-ada-which-is-long", "token-of-bob-which-is-long"
GATED = """#!/bin/bash
# Append a word to a file, and wait for another one.
echo "$1" >> ran
echo begun
echo '{"done": 1, "total": 2, "message": "half"}' >> "$SKILLPOUCH_PROGRESS"
for _ in $(seq 6000); do [ -e "go-$1" ] && { echo ended; exit 0; }; sleep 0.01; done
exit 1
"""
MUCH = "#!/bin/bash\n# Print much.\nhead -c 300000 /dev/zero | tr '\\0' x\n"
MARK = '#!/bin/bash\n# Append a word.\necho "$1" >> ran\n'
FAIL = "import sys\nprint('half', flush=True)\nsys.exit('it broke')\n"
ASKING = Policy(rules=[Rule(verdict="ask", tools=["demo.*"], reason="look first")])


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def skills(write_skill: WriteSkill, tmp_path: Path) -> Path:
    scripts = {"gated.sh": GATED, "much.sh": MUCH, "mark.sh": MARK, "fail.py": FAIL}
    write_skill(files={f"scripts/{name}": text for name, text in scripts.items()})
    return tmp_path / "skills"


@pytest.fixture
def manager(skills: Path, work: Path) -> SkillManager:
    """Its calls write directly: tests meet them while they run."""
    return SkillManager(skills, workspace=work, writes="direct")


@pytest.fixture
def asking(skills: Path, work: Path) -> SkillManager:
    """A manager whose every call asks."""
    return SkillManager(skills, workspace=work, writes="direct", policy=ASKING)


@pytest.fixture
def tokens(tmp_path: Path) -> GrpcSettings:
    path = tmp_path / "tokens"
    path.touch(mode=0o600)
    path.write_text(f"{ADA}\n{BOB}\n")
    return GrpcSettings(token_file=path)


def said_by(token: str) -> dict[str, Any]:
    return {"metadata": (("authorization", f"Bearer {token}"),)}


@asynccontextmanager
async def serving(
    manager: SkillManager, settings: GrpcSettings | None = None
) -> AsyncIterator[Any]:
    """Serve while inside, and yield a client."""
    server = GrpcServer(manager, watch=False)
    async with (
        listening(server, settings) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        yield SkillpouchStub(channel)


async def start(stub: Any, tool: str, *args: str, **more: Any) -> pb.Job:
    """Start a tool of `demo`; `by` is the token."""
    said = said_by(more.pop("by")) if "by" in more else {}
    arguments = json.dumps({"args": args} if args else {})
    request = pb.StartToolRequest(tool=f"demo.{tool}", args_json=arguments, **more)
    job: pb.Job = (await stub.StartTool(request, **said)).job
    return job


async def get(stub: Any, job: pb.Job, **said: Any) -> pb.GetJobResponse:
    answer: pb.GetJobResponse = await stub.GetJob(pb.GetJobRequest(job_id=job.job_id), **said)
    return answer


async def events(stub: Any, job: pb.Job, **fields: Any) -> list[pb.WaitJobResponse]:
    stream = stub.WaitJob(pb.WaitJobRequest(job_id=job.job_id, **fields))
    return [event async for event in stream]


def ran(work: Path) -> list[str]:
    path = work / "ran"
    return path.read_text().split() if path.exists() else []


async def test_a_job_is_followed_to_its_end(manager: SkillManager, work: Path) -> None:
    async with serving(manager) as stub:
        job = await start(stub, "gated", "one")
        stream = stub.WaitJob(pb.WaitJobRequest(job_id=job.job_id))
        seen = list[pb.WaitJobResponse]()
        async for event in stream:
            seen.append(event)
            if event.WhichOneof("event") == "progress":
                (work / "go-one").touch()

    states = [event.job.state for event in seen if event.WhichOneof("event") == "job"]
    output = b"".join(event.output.data for event in seen)
    steps = [event.progress for event in seen if event.WhichOneof("event") == "progress"]
    assert states[-2:] == ["running", "done"]
    assert output == b"begun\nended\n"
    assert [(step.done, step.total, step.message) for step in steps] == [(1, 2, "half")]
    assert seen[-1].result.outcome == "ok"
    assert ran(work) == ["one"]


async def test_a_client_that_goes_away_ends_nothing(manager: SkillManager, work: Path) -> None:
    async with serving(manager) as stub:
        job = await start(stub, "gated", "one")
        stream = stub.WaitJob(pb.WaitJobRequest(job_id=job.job_id))
        await stream.read()
        await until(lambda: ran(work))
        stream.cancel()
        (work / "go-one").touch()
        seen = await events(stub, job)

    assert seen[-1].result.outcome == "ok"
    assert ran(work) == ["one"]


async def test_a_job_outlives_the_server_that_started_it(
    manager: SkillManager, skills: Path, work: Path
) -> None:
    async with serving(manager) as stub:
        job = await start(stub, "gated", "one")
        await until(lambda: ran(work))
    (work / "go-one").touch()
    async with serving(SkillManager(skills, workspace=work)) as stub:
        seen = await events(stub, job)
        listed = (await stub.ListJobs(pb.ListJobsRequest())).jobs

    assert seen[-1].result.outcome == "ok"
    assert [(each.job_id, each.state) for each in listed] == [(job.job_id, "done")]
    assert ran(work) == ["one"]


async def test_a_request_that_is_repeated_starts_one_job(manager: SkillManager, work: Path) -> None:
    async with serving(manager) as stub:
        jobs = [await start(stub, "mark", "one", request_id="r1") for _ in range(3)]
        other = await start(stub, "mark", "one", request_id="r2")
        for job in (*jobs, other):
            await events(stub, job)

    assert len({job.job_id for job in jobs}) == 1
    assert other.job_id != jobs[0].job_id
    assert ran(work) == ["one", "one"]


async def test_waiting_goes_on_where_it_stopped(manager: SkillManager, work: Path) -> None:
    async with serving(manager) as stub:
        job = await start(stub, "gated", "one")
        await until(lambda: ran(work))
        first = [event.output for event in await events(stub, job, seconds=0.5)]
        (work / "go-one").touch()
        offset = max(output.next_offset for output in first)
        rest = await events(stub, job, offset=offset)

    assert b"".join(output.data for output in first) == b"begun\n"
    assert b"".join(event.output.data for event in rest) == b"ended\n"


@pytest.mark.parametrize("offset", [1_000, 2**63 - 1, 2**63, 2**64 - 1])
async def test_an_offset_behind_all_output_gives_none(manager: SkillManager, offset: int) -> None:
    async with serving(manager) as stub:
        seen = await events(stub, await start(stub, "mark", "one"), offset=offset, seconds=1e300)

    assert b"".join(event.output.data for event in seen) == b""
    assert seen[-1].result.outcome == "ok"


async def test_much_output_comes_in_pieces_that_clients_take(manager: SkillManager) -> None:
    async with serving(manager) as stub:
        seen = await events(stub, await start(stub, "much"))

    pieces = [event.output for event in seen if event.WhichOneof("event") == "output"]
    assert sum(len(piece.data) for piece in pieces) + pieces[0].left_out == 300_000
    assert max(len(piece.data) for piece in pieces) <= 64 * 1024


async def test_a_job_that_is_cancelled_says_so(manager: SkillManager, work: Path) -> None:
    async with serving(manager) as stub:
        job = await start(stub, "gated", "one")
        await until(lambda: ran(work))
        ended = await stub.CancelJob(pb.CancelJobRequest(job_id=job.job_id))
        found = await get(stub, job)
        waited = await refusal(anext(aiter(_results(stub, job))))

    assert ended.job.state == "cancelled"
    assert (found.job.state, found.error.code) == ("cancelled", "job_cancelled")
    assert waited == (grpc.StatusCode.CANCELLED, "job_cancelled")


async def _results(stub: Any, job: pb.Job) -> AsyncIterator[pb.ToolResult]:
    async for event in stub.WaitJob(pb.WaitJobRequest(job_id=job.job_id)):
        if event.WhichOneof("event") == "result":
            yield event.result


async def test_a_tool_that_fails_is_a_result(manager: SkillManager) -> None:
    async with serving(manager) as stub:
        job = await start(stub, "fail")
        await events(stub, job)
        found = await get(stub, job)

    assert (found.job.state, found.result.outcome, found.result.is_error) == (
        "failed",
        "failed",
        True,
    )


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (pb.StartToolRequest(tool="demo.nothing"), "unknown_tool"),
        (pb.StartToolRequest(tool="demo.mark", args_json="{"), "invalid_message"),
        (pb.StartToolRequest(tool="demo.mark", args_json='{"x": 1}'), "invalid_arguments"),
        (pb.StartToolRequest(tool="demo.mark", writes="never"), "invalid_message"),
        (pb.StartToolRequest(tool="demo.mark", timeout_seconds=-1), "invalid_message"),
        (pb.StartToolRequest(tool="demo.mark", timeout_seconds=1e9), "time_limit"),
        (pb.StartToolRequest(tool="demo.mark", retries=1), "not_idempotent"),
        (pb.StartToolRequest(tool="demo.mark", session_id="nobody"), "unknown_session"),
    ],
)
async def test_a_wrong_request_starts_nothing(
    manager: SkillManager, request_: pb.StartToolRequest, code: str
) -> None:
    async with serving(manager) as stub:
        refused = await refusal(stub.StartTool(request_))
        jobs = (await stub.ListJobs(pb.ListJobsRequest())).jobs

    assert (refused[1], list(jobs)) == (code, [])


async def test_wrong_questions_about_jobs_are_refused(manager: SkillManager) -> None:
    async with serving(manager) as stub:
        job = await start(stub, "mark", "one")
        refused = [
            await refusal(stub.GetJob(pb.GetJobRequest())),
            await refusal(stub.GetJob(pb.GetJobRequest(job_id="j0"))),
            await refusal(stub.CancelJob(pb.CancelJobRequest(job_id="j0"))),
            await refusal(stub.ListJobs(pb.ListJobsRequest(states=["sleeping"]))),
            await refusal(stub.WaitJob(pb.WaitJobRequest(job_id="j0")).read()),
            await refusal(stub.WaitJob(pb.WaitJobRequest(job_id=job.job_id, seconds=-1)).read()),
        ]

    codes = ["invalid_message", "no_such_job", "no_such_job"]
    assert [code for _, code in refused] == [
        *codes,
        "invalid_message",
        "no_such_job",
        "invalid_message",
    ]


@pytest.mark.promise("grpc-6")
async def test_a_token_does_not_reach_the_sessions_of_another(
    manager: SkillManager, tokens: GrpcSettings
) -> None:
    async with serving(manager, tokens) as stub:
        made = await stub.CreateSession(pb.CreateSessionRequest(), **said_by(ADA))
        session = made.session_id
        own = await stub.ListTools(pb.ListToolsRequest(session_id=session), **said_by(ADA))
        requests = [
            stub.ListTools(pb.ListToolsRequest(session_id=session), **said_by(BOB)),
            stub.DestroySession(pb.DestroySessionRequest(session_id=session), **said_by(BOB)),
            stub.ExecuteTool(
                pb.ExecuteToolRequest(session_id=session, tool="demo.mark"), **said_by(BOB)
            ),
            stub.StreamTool(
                pb.StreamToolRequest(session_id=session, tool="demo.mark"), **said_by(BOB)
            ).read(),
            stub.StartTool(
                pb.StartToolRequest(session_id=session, tool="demo.mark"), **said_by(BOB)
            ),
            stub.RunScript(pb.RunScriptRequest(session_id=session, script=":"), **said_by(BOB)),
            stub.Cancel(pb.CancelRequest(session_id=session, call_id="c"), **said_by(BOB)),
            stub.ListChanges(pb.ListChangesRequest(session_id=session), **said_by(BOB)),
            stub.UndoCalls(
                pb.UndoCallsRequest(session_id=session, whole_session=True), **said_by(BOB)
            ),
            stub.ListJobs(pb.ListJobsRequest(session_id=session), **said_by(BOB)),
        ]
        refused = {await refusal(request) for request in requests}
        still = await stub.ListTools(pb.ListToolsRequest(session_id=session), **said_by(ADA))

    assert refused == {(NOT_FOUND, "unknown_session")}
    assert len(own.tools) == len(still.tools) == 4


@pytest.mark.promise("grpc-6")
async def test_a_session_stays_its_owners_when_the_server_starts_again(
    manager: SkillManager, tokens: GrpcSettings
) -> None:
    async with serving(manager, tokens) as stub:
        made = await stub.CreateSession(pb.CreateSessionRequest(), **said_by(ADA))
    request = pb.ListToolsRequest(session_id=made.session_id)
    async with serving(manager, tokens) as stub:
        own = await stub.ListTools(request, **said_by(ADA))
        others = await refusal(stub.ListTools(request, **said_by(BOB)))

    assert (len(own.tools), others) == (4, (NOT_FOUND, "unknown_session"))


@pytest.mark.promise("grpc-6")
async def test_a_token_does_not_reach_the_jobs_of_another(
    manager: SkillManager, tokens: GrpcSettings, work: Path
) -> None:
    theirs = await manager.astart("demo.mark", {"args": ["mine"]})
    await theirs.aresult()
    async with serving(manager, tokens) as stub:
        job = await start(stub, "gated", "one", by=ADA)
        await until(lambda: "one" in ran(work))
        asked = [
            stub.GetJob(pb.GetJobRequest(job_id=job.job_id), **said_by(BOB)),
            stub.CancelJob(pb.CancelJobRequest(job_id=job.job_id), **said_by(BOB)),
            stub.WaitJob(pb.WaitJobRequest(job_id=job.job_id), **said_by(BOB)).read(),
            stub.GetJob(pb.GetJobRequest(job_id=theirs.id), **said_by(ADA)),
        ]
        refused = {await refusal(request) for request in asked}
        listed = [
            [each.job_id for each in (await stub.ListJobs(pb.ListJobsRequest(), **by)).jobs]
            for by in (said_by(ADA), said_by(BOB))
        ]
        (work / "go-one").touch()
        state = (await get(stub, job, **said_by(ADA))).job.state

    assert refused == {(NOT_FOUND, "no_such_job")}
    assert listed == [[job.job_id], []]
    assert state in ("running", "done")


@pytest.mark.promise("grpc-6")
async def test_a_call_without_a_session_is_cancelled_by_its_own_token_only(
    manager: SkillManager, tokens: GrpcSettings, work: Path
) -> None:
    def request(tool: str, word: str) -> pb.ExecuteToolRequest:
        arguments = json.dumps({"args": [word]})
        return pb.ExecuteToolRequest(tool=f"demo.{tool}", args_json=arguments, call_id="same")

    async with serving(manager, tokens) as stub:
        running = stub.ExecuteTool(request("gated", "one"), **said_by(ADA))
        await until(lambda: ran(work))
        other = await stub.Cancel(pb.CancelRequest(call_id="same"), **said_by(BOB))
        besides = await stub.ExecuteTool(request("mark", "two"), **said_by(BOB))
        (work / "go-one").touch()
        result = (await running).result

    assert not other.cancelled
    assert (besides.result.outcome, result.outcome) == ("ok", "ok")


async def test_what_a_job_asks_is_listed_and_answered(asking: SkillManager, work: Path) -> None:
    async with serving(asking, GrpcSettings(approvals="client")) as stub:
        yes, no = await start(stub, "mark", "yes"), await start(stub, "mark", "no")
        await until_asked(stub, 2)
        listed = (await stub.ListApprovals(pb.ListApprovalsRequest())).approvals
        ids = {each.job_id: each.approval_id for each in listed}
        shown = next(each for each in listed if each.job_id == yes.job_id)
        waiting = await get(stub, yes)
        allow = pb.AnswerRequest(approval_id=ids[yes.job_id], approve=True)
        deny = pb.AnswerRequest(approval_id=ids[no.job_id], reason="not today")
        answered = [(await stub.Answer(each)).approval.state for each in (allow, deny)]
        again = await refusal(stub.Answer(deny))
        await events(stub, yes)
        denied = await refusal(anext(aiter(_results(stub, no))))

    assert waiting.job.state == "waiting_for_approval"
    assert waiting.job.approval.approval_id == ids[yes.job_id]
    assert shown.tool == "demo.mark"
    assert "look first" in shown.reasons[0]
    assert json.loads(shown.arguments_json) == {"args": ["yes"]}
    assert answered == ["approved", "denied"]
    assert again[1] == "already_answered"
    assert denied == (DENIED, "denied")
    assert ran(work) == ["yes"]


async def until_asked(stub: Any, count: int, **said: Any) -> list[pb.Approval]:
    async with asyncio.timeout(60):
        while True:
            found = (await stub.ListApprovals(pb.ListApprovalsRequest(), **said)).approvals
            if len(found) == count:
                return list(found)
            await asyncio.sleep(0.01)


@pytest.mark.promise("grpc-7")
async def test_clients_answer_nothing_unless_the_owner_says_so(
    asking: SkillManager, work: Path
) -> None:
    async with serving(asking) as stub:
        job = await start(stub, "mark", "one")
        (asked,) = await until_asked(stub, 1)
        request = pb.AnswerRequest(approval_id=asked.approval_id, approve=True)
        refused = await refusal(stub.Answer(request))
        before = ran(work)
        await asking.aanswer(asked.approval_id, True)
        seen = await events(stub, job)

    assert refused == (DENIED, "answers_refused")
    assert (before, seen[-1].result.outcome) == ([], "ok")


@pytest.mark.promise("grpc-7")
async def test_a_token_answers_for_its_own_jobs_only_and_never_for_always(
    asking: SkillManager, tokens: GrpcSettings, work: Path
) -> None:
    settings = GrpcSettings(token_file=tokens.token_file, approvals="client")
    async with serving(asking, settings) as stub:
        await start(stub, "mark", "one", by=ADA)
        (asked,) = await until_asked(stub, 1, **said_by(ADA))
        others = await stub.ListApprovals(pb.ListApprovalsRequest(), **said_by(BOB))
        request = pb.AnswerRequest(approval_id=asked.approval_id, approve=True)
        refused = await refusal(stub.Answer(request, **said_by(BOB)))
        always = pb.AnswerRequest(approval_id=asked.approval_id, approve=True, remember="always")
        lasting = await refusal(stub.Answer(always, **said_by(ADA)))
        before = ran(work)

    assert (list(others.approvals), refused) == ([], (DENIED, "may_not_answer"))
    assert (lasting[1], before) == ("invalid_message", [])


async def test_jobs_of_a_session_end_with_it(manager: SkillManager) -> None:
    server = GrpcServer(manager, watch=False)
    async with connected(server) as stub:
        session = (await stub.CreateSession(pb.CreateSessionRequest())).session_id
        job = await start(stub, "gated", "one", session_id=session)
        beside = await call(stub, "demo.mark", {"args": ["two"]}, session_id=session)
        listed = (await stub.ListJobs(pb.ListJobsRequest(session_id=session))).jobs
        await stub.DestroySession(pb.DestroySessionRequest(session_id=session))
        found = await get(stub, job)

    assert beside.outcome == "ok"
    assert [each.job_id for each in listed] == [job.job_id]
    assert found.job.state == "cancelled"
