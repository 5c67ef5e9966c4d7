"""Random bytes and random messages of the right shape: no crash, and nothing of ours told."""

import asyncio
import json
import random
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client.client import Client

from skillpouch.servers.mcp import McpServer
from tests.servers.mcp.conftest import NewManager
from tests.servers.mcp.serving import PATIENCE_SECONDS, arguments_for, listening
from tests.servers.mcp.test_stdio import HELLO, READY, call, started

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

METHODS = [
    *("tools/list", "tools/call", "prompts/list", "prompts/get", "resources/list", "ping"),
    *("resources/read", "resources/templates/list", "skills/list", "skills/get", "initialize"),
    *("subscriptions/listen", "completion/complete", "logging/setLevel", "server/discover", ""),
    *("notifications/initialized", "notifications/cancelled", "no/such", "tools/../call"),
]
WORDS: list[Any] = [
    *(None, True, 0, -1, 1e308, 2**70, "", "demo", "demo__echo", "demo__fail", "\0", "\ud800"),
    *("skill://demo/SKILL.md", "skill://", "skill://%", "file:///etc/passwd", "x" * 5000, [], {}),
    *("../../etc/passwd", "workspace:///../x", "AAAA", "é", "${env:HOME}", "__class__"),
]
KEYS = ["name", "arguments", "uri", "cursor", "_meta", "progressToken", "text", "requestId", "x"]
TOLD = re.compile(r"Traceback|\.py\b|site-packages|/src/|File \"")


def value(dice: random.Random, depth: int = 0) -> Any:
    kind = dice.random()
    if depth < 3 and kind < 0.35:
        return {dice.choice(KEYS): value(dice, depth + 1) for _ in range(dice.randrange(4))}
    if depth < 3 and kind < 0.45:
        return [value(dice, depth + 1) for _ in range(dice.randrange(4))]
    return dice.choice(WORDS)


def message(dice: random.Random, number: int) -> dict[str, Any]:
    made: dict[str, Any] = {"jsonrpc": "2.0", "method": dice.choice(METHODS)}
    if dice.random() < 0.8:
        made["id"] = number if dice.random() < 0.9 else dice.choice(WORDS)
    if dice.random() < 0.8:
        made["params"] = value(dice) if dice.random() < 0.3 else shaped(dice)
    return made


def shaped(dice: random.Random) -> dict[str, Any]:
    """Return parameters with the keys that methods have, and anything as their values."""
    return {key: value(dice, 1) for key in dice.sample(KEYS, dice.randrange(5))}


@pytest.mark.promise("mcp-8")
@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.usefixtures("new_manager")
async def test_random_lines_on_standard_input_end_nothing_and_tell_nothing(
    tmp_path: Path, workspace: Path, seed: int
) -> None:
    dice = random.Random(seed)
    async with started(*arguments_for(tmp_path / "skills", workspace=workspace)) as server:
        server.write(HELLO, READY)
        for number in range(1, 200):
            server.write(message(dice, number))
            server.write(dice.randbytes(dice.randrange(40)).replace(b"\n", b" "))
        server.write(call(10_000, "demo__echo", {"text": "alive"}))
        told: list[str] = []
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                answer = await server.read()
                told.append(json.dumps(answer))
                if answer.get("id") == 10_000:
                    break

    assert json.loads(told[-1])["result"]["structuredContent"] == {"said": "alive"}
    errors = [text for text in told if '"error"' in text]
    assert errors
    assert [text for text in errors if TOLD.search(text)] == []


@pytest.mark.promise("mcp-8")
@pytest.mark.parametrize("seed", [3, 4])
async def test_random_requests_over_http_end_nothing_and_tell_nothing(
    new_manager: NewManager, seed: int
) -> None:
    dice = random.Random(seed)
    versions = ["2025-11-25", "2026-07-28", "1999-01-01", ""]
    async with listening(McpServer(new_manager())) as url:
        async with httpx2.AsyncClient(timeout=PATIENCE_SECONDS) as http:
            answers = [await ask(http, url, dice, versions) for _ in range(150)]
        async with Client(url) as client:
            alive = await client.call_tool("demo__echo", {"text": "alive"})

    assert alive.structured_content == {"said": "alive"}
    assert {status for status, _ in answers} <= {200, 202, 400, 404, 405, 406, 413, 421}
    leaking = [text for status, text in answers if status != 200 and TOLD.search(text)]
    assert leaking == []


async def ask(
    http: httpx2.AsyncClient, url: str, dice: random.Random, versions: list[str]
) -> tuple[int, str]:
    made = message(dice, dice.randrange(1000))
    if made["method"] == "subscriptions/listen":
        made["method"] = "tools/list"  # its answer is a stream without an end
    body = dice.randbytes(60) if dice.random() < 0.2 else json.dumps(made).encode()
    headers = {
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        "mcp-protocol-version": dice.choice(versions),
        "mcp-method": str(made["method"]) or "x",
    }
    if dice.random() < 0.2:
        headers.pop(dice.choice(list(headers)))
    answer = await http.request(
        dice.choice(["POST", "POST", "PUT", "DELETE"]), url, content=body, headers=headers
    )
    return answer.status_code, answer.text
