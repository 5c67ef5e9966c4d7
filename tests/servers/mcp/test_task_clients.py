"""Long calls with clients that others wrote: with tasks, without them, and with forms."""

import asyncio
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client

from skillpouch import Policy, SkillManager
from skillpouch.servers.mcp import LongCalls, McpServer
from tests.conftest import WriteSkill
from tests.servers.mcp.serving import ERAS, Era, arguments_for, listening, over_stdio

pytestmark = pytest.mark.slow

BUILD = Path(__file__).parents[3] / "build"
HERE = Path(__file__).parent
NAP = '''
import pathlib, sys, time
def handler(args: dict) -> str:
    """Take some seconds."""
    with open(f"ran-{args['word']}", "a") as file:
        file.write(f"{args['word']}\\n")
    ends = time.monotonic() + args["seconds"]
    while time.monotonic() < ends:
        print("napping", flush=True)
        time.sleep(1)
    return "rested"
'''
DECLARED = {
    "tools": [
        {
            "name": "nap",
            "description": "Take some seconds.",
            "script": "scripts/nap.py",
            "timeout_ms": 300_000,
            "inputSchema": {
                "type": "object",
                "properties": {"word": {"type": "string"}, "seconds": {"type": "number"}},
                "required": ["word", "seconds"],
            },
        }
    ]
}
YES = {"action": "accept", "content": {"approve": True}}
NO = {"action": "decline"}


@pytest.fixture
def root(write_skill: WriteSkill, tmp_path: Path) -> Path:
    write_skill(files={"scripts/nap.py": NAP, "tools.json": json.dumps(DECLARED)})
    return tmp_path / "skills"


def manager_of(root: Path, workspace: Path, policy: Policy | None = None) -> SkillManager:
    return SkillManager(root, workspace=workspace, writes="direct", policy=policy)


async def by(program: list[str], order: dict[str, Any]) -> Any:
    """Run a client with an order; return what it prints."""
    ran = await asyncio.create_subprocess_exec(
        *program,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await ran.communicate(json.dumps({**order, "env": dict(os.environ)}).encode())
    assert ran.returncode == 0, err.decode()
    return json.loads(out)


def node(name: str) -> list[str]:
    if not (BUILD / "clients/node_modules").is_dir():
        pytest.fail("there are no clients to try; run `make clients`")
    program = shutil.which("node")
    assert program is not None
    return [program, str(HERE / name), str(BUILD / "clients")]


def fastmcp() -> list[str]:
    program = BUILD / "fastmcp/bin/python"
    if not program.exists():
        pytest.fail("there is no FastMCP to try; run `make exhaustive`")
    return [str(program), str(HERE / "fastmcp_client.py")]


def nap(word: str, seconds: float) -> dict[str, Any]:
    return {"tool": "nap", "arguments": {"word": word, "seconds": seconds}}


def ran(workspace: Path) -> list[str]:
    """Return the words of all runs, however often each was run."""
    return sorted(word for path in workspace.glob("ran-*") for word in path.read_text().split())


async def test_the_tasks_client_from_npm_asks_and_finishes(root: Path, workspace: Path) -> None:
    strict = manager_of(root, workspace, Policy.strict())
    asking = LongCalls(approvals="client")

    async with listening(McpServer(strict, long_calls=asking)) as url:
        order = {**nap("a", 2), "url": url, "answer": YES}
        told = await by(node("node_tasks.mjs"), order)

    methods = [each.get("method", "form") for each in told["seen"]]
    assert (told["kind"], told["status"]) == ("task", "completed")
    assert told["result"]["content"][0]["text"] == "rested"
    assert methods[:4] == ["tools/call", "tasks/get", "form", "tasks/update"]
    assert ran(workspace) == ["a"]


@pytest.mark.exhaustive
@pytest.mark.timeout(400)
async def test_clients_with_tasks_finish_and_cancel_a_call_of_90_seconds(
    root: Path, workspace: Path
) -> None:
    manager = manager_of(root, workspace)
    words = arguments_for(root, workspace=workspace)
    stdio = {"command": sys.executable, "args": words}

    async with listening(McpServer(manager)) as url:
        npm, http, local, *cancelled = await asyncio.gather(
            by(node("node_tasks.mjs"), {**nap("npm", 90), "url": url}),
            by(fastmcp(), {**nap("http", 90), "url": url}),
            by(fastmcp(), {**nap("stdio", 90), **stdio}),
            by(node("node_tasks.mjs"), {**nap("npm-cancelled", 90), "url": url, "cancel": True}),
            by(fastmcp(), {**nap("cancelled", 90), "url": url, "cancel": True}),
        )

    assert (npm["kind"], npm["status"], npm["seen"][1]["status"]) == (
        "task",
        "completed",
        "working",
    )
    assert npm["result"]["content"][0]["text"] == "rested"
    for told in (http, local):
        assert (told["first"], told["last"], told["text"]) == ("working", "completed", "rested")
    assert (cancelled[0]["status"], cancelled[1]["last"]) == ("cancelled", "cancelled")
    assert {"http", "npm", "stdio"} <= set(ran(workspace))
    assert len(ran(workspace)) == len(set(ran(workspace)))
    states = {job.state for job in manager.jobs()}
    assert states == {"done", "cancelled"}


@pytest.mark.exhaustive
@pytest.mark.timeout(400)
async def test_clients_without_tasks_finish_a_call_of_90_seconds_by_waiting_for_its_job(
    root: Path, workspace: Path
) -> None:
    manager = manager_of(root, workspace)

    async def official(era: Era, url: str) -> tuple[str, int]:
        where = Client(url, mode=era) if era == "auto" else None
        words = arguments_for(root, workspace=workspace)
        waits = 0
        async with where or over_stdio(*words, era=era) as client:
            result = await client.call_tool("nap", {"word": era, "seconds": 90})
            while "skillpouch/job_id" in (result.meta or {}):
                waits += 1
                job = (result.meta or {})["skillpouch/job_id"]
                result = await client.call_tool("job_wait", {"id": job, "seconds": 30})
        return result.content[0].text, waits  # type: ignore[union-attr]

    async with listening(McpServer(manager)) as url:
        kinds = ("sdk", "client-legacy", "client-modern")
        orders = [
            {"client": kind, "url": url, "calls": {"nap": {"word": kind, "seconds": 90}}}
            for kind in kinds
        ]
        found = await asyncio.gather(
            *(official(era, url) for era in ERAS),
            *(by(node("node_client.mjs"), order) for order in orders),
        )

    assert [text for text, _ in found[:2]] == ["rested"] * 2
    assert all(waits > 1 for _, waits in found[:2])
    assert [told["answers"]["nap"] for told in found[2:]] == ["rested"] * 3
    assert all(told["waits"] > 1 for told in found[2:])
    assert ran(workspace) == sorted([*ERAS, *kinds])


@pytest.mark.exhaustive
@pytest.mark.parametrize(("answer", "text"), [(YES, "rested"), (NO, "may not run")])
async def test_fastmcp_shows_the_form_and_its_answer_counts(
    root: Path, workspace: Path, answer: dict[str, Any], text: str
) -> None:
    strict = manager_of(root, workspace, Policy.strict())
    asking = LongCalls(approvals="client")

    async with listening(McpServer(strict, long_calls=asking)) as url:
        order = {**nap("a", 2), "url": url, "answer": answer, "whole": True}
        told = await by(fastmcp(), order)

    assert len(told["forms"]) == 1
    assert "scripts/nap.py" in told["forms"][0]
    assert text in told["text"]
    assert ran(workspace) == (["a"] if answer is YES else [])
