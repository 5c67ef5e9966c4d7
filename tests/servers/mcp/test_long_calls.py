"""Calls that take longer than a client waits: the soft limit, and the tasks extension."""

import asyncio
import itertools
import json
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Self

import httpx2
import pytest
from mcp.client.client import Client
from mcp_types import ElicitResult

from skillpouch import Policy, SkillManager
from skillpouch.environment import config_directory
from skillpouch.needs import Need
from skillpouch.servers.mcp import HttpSettings, LongCalls, McpServer
from skillpouch.trust.grants import Grants
from tests.conftest import WriteSkill
from tests.jobs.hosts import end_host
from tests.servers.mcp.serving import ERAS, Era, arguments_for, listening

pytestmark = pytest.mark.slow

TASKS: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
ASKS: dict[str, Any] = {"elicitation": {"form": {}}}
MISSING, INVALID, MISMATCH = -32021, -32602, -32020
VERSION = "2026-07-28"
# Appends its word to a file, which shows how often it ran, then waits for another file.
GATED = """#!/bin/bash
# Wait for a file.
echo "$1" >> ran
echo begun
for _ in $(seq 6000); do [ -e "go-$1" ] && exit "${2:-0}"; sleep 0.01; done; exit 1
"""
TYPED = '''
import pathlib, time
def handler(args: dict) -> dict:
    """Wait for a file."""
    while not pathlib.Path("go-typed").exists():
        time.sleep(0.01)
    return {"value": 1}
'''
SOON = LongCalls(soft_limit_seconds=0.5)
numbers = itertools.count(1)


@pytest.fixture
def manager(write_skill: WriteSkill, workspace: Path, tmp_path: Path) -> SkillManager:
    write_skill(files={"scripts/gated.sh": GATED})
    return SkillManager(tmp_path / "skills", workspace=workspace, writes="direct")


@pytest.fixture
def strict(manager: SkillManager, workspace: Path) -> SkillManager:
    """The same, whose policy asks about every skill that is new."""
    return SkillManager(
        *manager.roots, workspace=workspace, writes="direct", policy=Policy.strict()
    )


def ran(workspace: Path) -> list[str]:
    path = workspace / "ran"
    return path.read_text().split() if path.exists() else []


def approve(question_id: str) -> None:
    """Answer a question as the user does at a terminal."""
    command = [sys.executable, "-m", "skillpouch", "approve", question_id]
    subprocess.run(command, check=True, capture_output=True)


def words(*said: str) -> dict[str, Any]:
    return {"args": list(said)}


def envelope(capabilities: dict[str, Any]) -> dict[str, Any]:
    """Return what every request of the protocol without a handshake says of its client."""
    return {
        "io.modelcontextprotocol/protocolVersion": VERSION,
        "io.modelcontextprotocol/clientInfo": {"name": "wire", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }


class Wire:
    """Sends requests of the protocol without a handshake, as they are on the wire."""

    def __init__(self, url: str, capabilities: dict[str, Any], token: str = "") -> None:
        self._url = url
        self._capabilities = capabilities
        self._token = token

    async def ask(
        self, method: str, params: dict[str, Any], *, name: str | None = None
    ) -> dict[str, Any]:
        """Return the result, or the error, of a request."""
        meta = envelope(self._capabilities)
        body = {"jsonrpc": "2.0", "id": next(numbers), "method": method}
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": VERSION,
            "mcp-method": method,
        }
        named = name or params.get("taskId") or params.get("name")
        headers |= {"mcp-name": named} if named else {}
        headers |= {"authorization": f"Bearer {self._token}"} if self._token else {}
        async with httpx2.AsyncClient(timeout=90, trust_env=False) as http:
            reply = await http.post(
                self._url, json={**body, "params": {**params, "_meta": meta}}, headers=headers
            )
        lines = [line[5:] for line in reply.text.splitlines() if line.startswith("data:")]
        message = json.loads(lines[-1] if lines else reply.text)
        found: dict[str, Any] = message.get("result") or message["error"]
        found.pop("_meta", None)
        return found

    async def call(self, *said: str, **more: Any) -> dict[str, Any]:
        params = {"name": "demo__gated", "arguments": words(*said), **more}
        return await self.ask("tools/call", params)

    async def task(self, task_id: str) -> dict[str, Any]:
        return await self.ask("tasks/get", {"taskId": task_id})

    async def until(self, task_id: str, *statuses: str) -> dict[str, Any]:
        """Ask how a task is until it has one of some statuses."""
        async with asyncio.timeout(90):
            while True:
                found = await self.task(task_id)
                if found["status"] in statuses:
                    return found
                await asyncio.sleep(0.02)


@asynccontextmanager
async def served(manager: SkillManager, long_calls: LongCalls = SOON, **options: Any) -> Any:
    async with listening(McpServer(manager, long_calls=long_calls), **options) as url:
        yield url


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_is_answered_in_time_and_goes_on_with_job_wait(
    manager: SkillManager, workspace: Path, era: Era
) -> None:
    async with served(manager) as url, Client(url, mode=era) as client:
        before = [tool.name for tool in (await client.list_tools()).tools]
        left = await client.call_tool("demo__gated", words("a"))
        after = [tool.name for tool in (await client.list_tools()).tools]
        job = (left.meta or {})["skillpouch/job_id"]
        (workspace / "go-a").touch()
        result = left
        while "skillpouch/job_id" in (result.meta or {}):
            result = await client.call_tool("job_wait", {"id": job, "seconds": 60})

    assert before == ["demo__gated"]
    assert after == ["demo__gated", "job_cancel", "job_output", "job_wait"]
    assert not left.is_error
    assert job in left.content[0].text  # type: ignore[union-attr]
    assert result.content[0].text == "begun"  # type: ignore[union-attr]
    assert ran(workspace) == ["a"]


async def test_clients_are_told_that_there_are_more_tools(manager: SkillManager) -> None:
    heard: list[str] = []

    async def hear(message: Any) -> None:
        heard.append(getattr(message, "method", ""))

    async with (
        served(manager) as url,
        Client(url, mode="legacy", message_handler=hear) as client,
    ):
        await client.call_tool("demo__gated", words("a"))
        async with asyncio.timeout(60):
            while "notifications/tools/list_changed" not in heard:
                await asyncio.sleep(0.01)
        await client.call_tool("job_cancel", {"id": manager.jobs()[0].id})


async def test_the_tools_are_listed_from_the_start_if_that_is_asked_for(
    manager: SkillManager,
) -> None:
    async with (
        served(manager, LongCalls(list_tools=True)) as url,
        Client(url) as client,
    ):
        listed = [tool.name for tool in (await client.list_tools()).tools]

    assert listed == ["demo__gated", "job_cancel", "job_output", "job_wait"]


async def test_a_tool_that_declares_its_output_can_be_left_running(
    write_skill: WriteSkill, workspace: Path, tmp_path: Path
) -> None:
    declared = {
        "tools": [
            {
                "name": "typed",
                "description": "Wait.",
                "script": "scripts/typed.py",
                "inputSchema": {"type": "object"},
                "outputSchema": {"type": "object", "required": ["value"]},
            }
        ]
    }
    write_skill(files={"scripts/typed.py": TYPED, "tools.json": json.dumps(declared)})
    manager = SkillManager(tmp_path / "skills", workspace=workspace, writes="direct")
    name = manager.tools[0].name

    async with served(manager) as url, Client(url) as client:
        await client.list_tools()  # so that the client knows the schema, and checks answers
        left = await client.call_tool(name, {})
        (workspace / "go-typed").touch()

    assert "job_wait" in left.content[0].text  # type: ignore[union-attr]


@pytest.mark.parametrize("era", ERAS)
async def test_a_silent_call_says_that_it_runs(
    manager: SkillManager, era: Era, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skillpouch.servers.mcp.calls._SILENCE_SECONDS", 0.05)
    told: list[tuple[float, str | None]] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:  # noqa: ARG001
        told.append((progress, message))

    async with served(manager) as url, Client(url, mode=era) as client:
        await client.call_tool("demo__gated", words("a"), progress_callback=report)
        await client.call_tool("job_cancel", {"id": manager.jobs()[0].id})

    assert any((words or "").startswith("runs for ") for _, words in told)
    assert [done for done, _ in told] == sorted({done for done, _ in told})


async def test_a_client_that_cancels_ends_the_job(manager: SkillManager, workspace: Path) -> None:
    # It takes long, so it is a job from its beginning.
    Grants().grant(manager.get_skill("demo"), [Need(kind="time", value="2h")], by="user")
    async with served(manager, LongCalls()) as url, Client(url, mode="legacy") as client:
        calling = asyncio.create_task(client.call_tool("demo__gated", words("a")))
        while not ran(workspace):
            await asyncio.sleep(0.01)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        async with asyncio.timeout(60):
            while manager.jobs()[0].state != "cancelled":
                await asyncio.sleep(0.01)


@pytest.mark.promise("leave-2")
async def test_a_task_is_on_the_disk_and_is_asked_about_until_it_has_ended(
    manager: SkillManager, workspace: Path
) -> None:
    async with served(manager) as url:
        wire = Wire(url, TASKS)
        created = await wire.call("a")
        row = manager.job(created["taskId"])
        working = await wire.task(row.id)
        (workspace / "go-a").touch()
        ended = await wire.until(row.id, "completed")
        again = await wire.task(row.id)

    assert (created["resultType"], created["status"]) == ("task", "working")
    assert {"createdAt", "lastUpdatedAt", "ttlMs", "pollIntervalMs"} <= created.keys()
    assert (working["resultType"], working["status"]) == ("complete", "working")
    assert "result" not in working
    assert ended["result"]["content"][0] == {"type": "text", "text": "begun"}
    assert again["result"] == ended["result"]
    assert ran(workspace) == ["a"]


async def test_a_call_that_ends_at_once_is_no_task(
    manager: SkillManager, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However long a busy machine takes to start the job host.
    monkeypatch.setattr("skillpouch.servers.mcp.calls._AT_ONCE_SECONDS", 60)
    (workspace / "go-a").touch()
    async with served(manager) as url:
        found = await Wire(url, TASKS).call("a")

    assert (found["resultType"], found["isError"]) == ("complete", False)


async def test_a_tool_that_fails_is_a_completed_task(
    manager: SkillManager, workspace: Path
) -> None:
    async with served(manager) as url:
        wire = Wire(url, TASKS)
        created = await wire.call("a", "3")
        (workspace / "go-a").touch()
        ended = await wire.until(created["taskId"], "completed", "failed")

    assert (ended["status"], ended["result"]["isError"]) == ("completed", True)


async def test_a_task_is_cancelled_with_everything_it_started(manager: SkillManager) -> None:
    async with served(manager) as url:
        wire = Wire(url, TASKS)
        created = await wire.call("a")
        answer = await wire.ask(
            "tasks/cancel", {"taskId": created["taskId"]}, name=created["taskId"]
        )
        ended = await wire.until(created["taskId"], "cancelled")

    assert answer == {"resultType": "complete"}
    assert "result" not in ended
    assert manager.job(created["taskId"]).state == "cancelled"


async def test_a_lost_job_is_a_failed_task(manager: SkillManager) -> None:
    async with served(manager) as url:
        wire = Wire(url, TASKS)
        created = await wire.call("a")
        end_host()
        ended = await wire.until(created["taskId"], "failed", "completed")

    assert (ended["status"], ended["error"]["code"]) == ("failed", -32603)
    assert "lost" in ended["statusMessage"]


METHODS = ("tasks/get", "tasks/update", "tasks/cancel")


async def test_tasks_need_the_declaration_on_the_very_request_and_the_right_name(
    manager: SkillManager,
) -> None:
    async with served(manager) as url:
        wire = Wire(url, TASKS)
        created = await wire.call("a")
        params = {"taskId": created["taskId"], "inputResponses": {}}
        undeclared = [await Wire(url, {}).ask(method, params) for method in METHODS]
        unknown = [await wire.ask(each, {**params, "taskId": "j0"}) for each in METHODS]
        mismatch = [await wire.ask(each, params, name="j0") for each in METHODS]
        left = await Wire(url, {}).call("b")
        for job in manager.jobs():
            job.cancel()

    needed = {"requiredCapabilities": TASKS}
    assert [(each["code"], each["data"]) for each in undeclared] == [(MISSING, needed)] * 3
    assert [each["code"] for each in unknown] == [INVALID] * 3
    assert [each["code"] for each in mismatch] == [MISMATCH] * 3
    assert left["resultType"] == "complete"  # never a task for a client that does not know them


@pytest.mark.promise("leave-3")
async def test_a_task_of_another_token_is_as_unknown_as_any(
    manager: SkillManager, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text("ada-ada-ada-ada-ada\nbob-bob-bob-bob-bob\n")
    settings = HttpSettings(token_file=tokens)
    async with served(manager, settings=settings) as url:
        ada = Wire(url, TASKS, "ada-ada-ada-ada-ada")
        bob = Wire(url, TASKS, "bob-bob-bob-bob-bob")
        created = await ada.call("a")
        params = {"taskId": created["taskId"], "inputResponses": {}}
        refused = [await bob.ask(method, params) for method in METHODS]
        unknown = [await bob.ask(each, {**params, "taskId": "j0"}) for each in METHODS]
        waited = await bob.ask(
            "tools/call",
            {"name": "job_wait", "arguments": {"id": created["taskId"], "seconds": 0}},
        )
        own = await ada.task(created["taskId"])
        manager.job(created["taskId"]).cancel()

    assert refused == unknown
    assert (waited["isError"], own["status"]) == (True, "working")


async def test_a_server_that_was_started_again_knows_the_tasks_of_the_one_before(
    manager: SkillManager, workspace: Path
) -> None:
    async with served(manager) as url:
        created = await Wire(url, TASKS).call("a")
    other = SkillManager(*manager.roots, workspace=workspace)
    async with served(other) as url:
        working = await Wire(url, TASKS).task(created["taskId"])
        async with Client(url) as client:
            listed = [tool.name for tool in (await client.list_tools()).tools]
        (workspace / "go-a").touch()
        ended = await Wire(url, TASKS).until(created["taskId"], "completed")

    assert working["status"] == "working"
    assert "job_wait" in listed
    assert ended["result"]["content"][0]["text"] == "begun"
    assert ran(workspace) == ["a"]


async def test_who_listens_is_told_how_a_task_is(manager: SkillManager, workspace: Path) -> None:
    async with served(manager) as url:
        created = await Wire(url, TASKS).call("a")
        heard = asyncio.create_task(listened(url, TASKS, created["taskId"]))
        (workspace / "go-a").touch()
        messages = await asyncio.wait_for(heard, 90)
        refused = await Wire(url, {}).ask(
            "subscriptions/listen", {"notifications": {"taskIds": [created["taskId"]]}}
        )

    assert messages[0]["params"]["notifications"] == {"taskIds": [created["taskId"]]}
    assert messages[-1]["method"] == "notifications/tasks"
    assert messages[-1]["params"]["status"] == "completed"
    assert messages[-1]["params"]["result"]["content"][0]["text"] == "begun"
    assert refused["code"] == MISSING


async def listened(url: str, capabilities: dict[str, Any], *ids: str) -> list[dict[str, Any]]:
    """Return what is told of some tasks until one has ended; unknown ids are not acknowledged."""
    params = {"notifications": {"taskIds": [*ids, "j0"]}, "_meta": envelope(capabilities)}
    body = {"jsonrpc": "2.0", "id": "listen", "method": "subscriptions/listen", "params": params}
    headers = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": VERSION,
        "mcp-method": "subscriptions/listen",
    }
    found = []
    async with (
        httpx2.AsyncClient(timeout=90, trust_env=False) as http,
        http.stream("POST", url, json=body, headers=headers) as reply,
    ):
        async for line in reply.aiter_lines():
            if line.startswith("data:") and line[5:].strip():
                found.append(json.loads(line[5:]))
                if found[-1].get("params", {}).get("status") == "completed":
                    break
    return found


YES = {"approve": True}
FORMS = (
    ElicitResult(action="accept", content={"approve": True}),
    ElicitResult(action="accept", content={"approve": False}),
    ElicitResult(action="decline"),
    ElicitResult(action="cancel"),
)
ASKING = LongCalls(soft_limit_seconds=25, approvals="client")


@pytest.mark.parametrize("era", ERAS)
async def test_the_person_at_a_client_is_asked_and_only_an_approval_runs_it(
    strict: SkillManager, workspace: Path, era: Era
) -> None:
    (workspace / "go-a").touch()
    shown: list[str] = []
    forms = iter(FORMS)

    async def answered(context: Any, params: Any) -> ElicitResult:  # noqa: ARG001
        shown.append(params.message)
        return next(forms)

    async with (
        served(strict, ASKING) as url,
        Client(url, mode=era, elicitation_callback=answered) as client,
    ):
        found = [await client.call_tool("demo__gated", words("a")) for _ in FORMS]
    texts = [each.content[0].text for each in found]  # type: ignore[union-attr]
    states = [job.state for job in reversed(strict.jobs())]
    strict.jobs()[0].cancel()

    assert len(shown) == len(FORMS)
    assert all("demo.gated" in form and "scripts/gated.sh" in form for form in shown)
    assert [each.is_error for each in found] == [False, True, True, False]
    assert texts[0] == "begun"
    assert all("may not run" in text for text in texts[1:3])
    assert "skillpouch approve q" in texts[3]  # nobody decided: the question stays open
    assert states == ["done", "failed", "failed", "waiting_for_approval"]
    assert ran(workspace) == ["a"]


@pytest.mark.promise("leave-4")
@pytest.mark.parametrize("era", ERAS)
async def test_over_http_nobody_at_a_client_approves_unless_the_owner_wants_that(
    strict: SkillManager, workspace: Path, era: Era
) -> None:
    async def answered(context: Any, params: Any) -> ElicitResult:  # noqa: ARG001
        raise AssertionError("it was asked")

    async with (
        served(strict, LongCalls()) as url,
        Client(url, mode=era, elicitation_callback=answered) as client,
    ):
        result = await client.call_tool("demo__gated", words("a"))
        created = await Wire(url, {**TASKS, **ASKS}).call("a")
        question = strict.job(created["taskId"]).question
        assert question is not None
        told = {question.id: {"action": "accept", "content": YES}}
        params = {"taskId": created["taskId"], "inputResponses": told}
        wire = Wire(url, {**TASKS, **ASKS})
        await wire.ask("tasks/update", params)
        still = await wire.task(created["taskId"])
        for job in strict.jobs():
            job.cancel()

    assert "skillpouch approve q" in result.content[0].text  # type: ignore[union-attr]
    assert str(workspace.parent) not in result.content[0].text  # type: ignore[union-attr]
    assert (still["status"], ran(workspace)) == ("working", [])
    assert question.id in still["statusMessage"]


async def test_where_nobody_may_approve_a_call_is_denied_at_once(strict: SkillManager) -> None:
    async with served(strict, LongCalls(approvals="nobody")) as url:
        found = await Wire(url, {**TASKS, **ASKS}).call("a")

    assert (found["isError"], strict.jobs()) == (True, [])
    assert "may not run" in found["content"][0]["text"]


async def test_a_task_asks_for_approval_as_input_that_is_required(
    strict: SkillManager, workspace: Path
) -> None:
    (workspace / "go-a").touch()
    async with served(strict, ASKING) as url:
        wire = Wire(url, {**TASKS, **ASKS})
        created = await wire.call("a")
        asked = await wire.until(created["taskId"], "input_required")
        ((key, form),) = asked["inputRequests"].items()
        told = {"else": {"action": "decline"}, key: {"action": "accept", "content": YES}}
        params = {"taskId": created["taskId"], "inputResponses": told}
        answer = await wire.ask("tasks/update", params)
        ended = await wire.until(created["taskId"], "completed")
        late = await wire.ask("tasks/update", params)

    assert form["method"] == "elicitation/create"
    assert form["params"]["requestedSchema"]["required"] == ["approve"]
    assert answer == late == {"resultType": "complete"}
    assert ended["result"]["isError"] is False
    assert ran(workspace) == ["a"]


async def test_a_form_that_is_closed_is_not_shown_again_and_the_question_stays_open(
    strict: SkillManager, workspace: Path
) -> None:
    (workspace / "go-a").touch()
    async with served(strict, ASKING) as url:
        wire = Wire(url, {**TASKS, **ASKS})
        created = await wire.call("a")
        asked = await wire.until(created["taskId"], "input_required")
        (key,) = asked["inputRequests"]
        params = {"taskId": created["taskId"], "inputResponses": {key: {"action": "cancel"}}}
        await wire.ask("tasks/update", params)
        closed = await wire.task(created["taskId"])
        await asyncio.to_thread(approve, key)
        ended = await wire.until(created["taskId"], "completed")

    assert (closed["status"], ran(workspace)) == ("working", ["a"])
    assert ended["result"]["isError"] is False


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_from_elsewhere_counts_while_a_form_is_shown(
    strict: SkillManager, workspace: Path, era: Era
) -> None:
    (workspace / "go-a").touch()
    shown = asyncio.Event()

    async def answered(context: Any, params: Any) -> ElicitResult:  # noqa: ARG001
        shown.set()
        if era == "legacy":
            await asyncio.Event().wait()  # the person never comes back
        question = (await asyncio.to_thread(strict.jobs))[0].question
        assert question is not None
        await asyncio.to_thread(approve, question.id)
        return ElicitResult(action="decline")  # too late

    async with (
        served(strict, ASKING) as url,
        Client(url, mode=era, elicitation_callback=answered) as client,
    ):
        calling = asyncio.create_task(client.call_tool("demo__gated", words("a")))
        await asyncio.wait_for(shown.wait(), 60)
        if era == "legacy":
            question = (await asyncio.to_thread(strict.jobs))[0].question
            assert question is not None
            await asyncio.to_thread(approve, question.id)
        result = await asyncio.wait_for(calling, 60)

    assert result.content[0].text == "begun"  # type: ignore[union-attr]
    assert ran(workspace) == ["a"]


async def test_answers_to_a_call_of_somebody_else_count_for_nothing(
    strict: SkillManager, workspace: Path, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.touch(mode=0o600)
    tokens.write_text("ada-ada-ada-ada-ada\nbob-bob-bob-bob-bob\n")
    async with served(strict, ASKING, settings=HttpSettings(token_file=tokens)) as url:
        asked = await Wire(url, ASKS, "ada-ada-ada-ada-ada").call("a")
        (key,) = asked["inputRequests"]
        more = {
            "requestState": asked["requestState"],
            "inputResponses": {key: {"action": "accept", "content": YES}},
        }
        refused = await Wire(url, ASKS, "bob-bob-bob-bob-bob").call("a", **more)
        strict.jobs()[0].cancel()

    assert asked["resultType"] == "input_required"
    assert (refused["code"], ran(workspace)) == (INVALID, [])


class StdioServer:
    """A server as a program, spoken to line by line; leaving kills it, as a crash does."""

    def __init__(self, root: Path, workspace: Path) -> None:
        words = arguments_for(root, workspace=workspace)
        self.process = subprocess.Popen(
            [sys.executable, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.communicate()

    def call(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """Call a tool, of a client that knows neither tasks nor forms."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        params = {"name": name, "arguments": arguments, "_meta": envelope({})}
        body = {"jsonrpc": "2.0", "id": next(numbers), "method": "tools/call", "params": params}
        self.process.stdin.write(json.dumps(body).encode() + b"\n")
        self.process.stdin.flush()
        while "result" not in (message := json.loads(self.process.stdout.readline())):
            assert "error" not in message
        found: dict[str, Any] = message["result"]
        return found


@pytest.mark.promise("leave-2")
def test_an_approval_asked_over_mcp_outlives_a_server_that_is_killed_and_the_call_runs_once(
    manager: SkillManager, workspace: Path
) -> None:
    rule = '[[rules]]\nverdict = "ask"\ntools = ["demo.*"]\nreason = "it goes live"\n'
    folder = config_directory()
    assert folder is not None
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "policy.toml").write_text(rule)
    (workspace / "go-a").touch()

    with StdioServer(manager.roots[0], workspace) as server:
        left = server.call("demo__gated", words("a"))
    job = left["_meta"]["skillpouch/job_id"]
    before = ran(workspace)
    question = manager.job(job).question
    assert question is not None
    with StdioServer(manager.roots[0], workspace) as server:
        waiting = server.call("job_wait", {"id": job, "seconds": 0})
        approve(question.id)
        while "skillpouch/job_id" in (result := server.call("job_wait", {"id": job})).get(
            "_meta", {}
        ):
            pass

    assert f"skillpouch approve {question.id}" in left["content"][0]["text"]
    assert "waits for the user's approval" in waiting["content"][0]["text"]
    assert (before, ran(workspace)) == ([], ["a"])
    assert result["content"][0]["text"] == "begun"
