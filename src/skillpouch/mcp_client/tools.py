"""The tools of an MCP server as tools like any other: checked, permitted, recorded."""

import asyncio
import time
from functools import partial
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import Tool as McpTool

from skillpouch.calls import ToolCall
from skillpouch.mcp_client.answers import failure_of, result_of
from skillpouch.mcp_client.connection import Connection
from skillpouch.mcp_client.errors import McpAnswerError
from skillpouch.policy.mcp_entries import McpAddress, McpEntry
from skillpouch.registry.names import qualified_wire_name
from skillpouch.results import ToolResult
from skillpouch.runtime.loop_thread import run_on_thread
from skillpouch.text import clean
from skillpouch.tools import Effect, Hosted, Tool

_LONGEST_DESCRIPTION = 4_096
_WORDS = ("description", "title", "$comment")
_LONGEST_NAME = 128  # what the protocol allows


def has_usable_name(found: McpTool) -> bool:
    """Tell whether people and terminals see the name as it is: it becomes part of an id."""
    name = found.name
    return 0 < len(name) <= _LONGEST_NAME and name.isprintable() and clean(name.strip()) == name


def tool_of(entry: McpEntry, found: McpTool, connection: Connection) -> Tool:
    """Return one tool of a server; its hints may add to what a policy minds, never take away."""
    where = "at " + entry.runs.url if isinstance(entry.runs, McpAddress) else "started here"
    return Tool(
        id=f"{entry.skill}.{found.name}",
        name=qualified_wire_name(entry.skill, found.name),
        skill=entry.skill,
        description=_description(found),
        input_schema=_seen(found.input_schema),
        runs=Hosted(
            what=f"{found.name!r} of the MCP server {entry.name!r}, {where}",
            run=partial(_call, connection, found.name),
            granted=entry.granted,
            writes_workspace=True,
        ),
        effects=_effects(entry, found),
        timeout_ms=round(entry.timeout_seconds * 1000),
        declared_in="mcp",
        read_by="declaration",
    )


def _description(found: McpTool) -> str:
    return clean(found.description or "").strip()[:_LONGEST_DESCRIPTION] or found.name


def _seen(schema: Any) -> Any:
    """Return a schema whose descriptions say to a model only what a person would see."""
    if isinstance(schema, list):
        return [_seen(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: clean(value) if key in _WORDS and isinstance(value, str) else _seen(value)
        for key, value in schema.items()
    }


def _effects(entry: McpEntry, found: McpTool) -> tuple[Effect, ...]:
    hints = found.annotations
    effects: list[Effect] = ["read", "execute"]
    if not (hints and hints.read_only_hint):
        effects.append("write")
    if hints and hints.destructive_hint and not hints.read_only_hint:
        effects.append("destructive")
    if any(need.kind == "host" for need in entry.granted):
        effects.append("network")
    return tuple(effects)


async def _call(connection: Connection, name: str, call: ToolCall) -> ToolResult:
    started = time.monotonic()
    limit = call.limits.timeout_seconds
    try:
        async with asyncio.timeout(limit):
            answer = await run_on_thread(connection.call(name, call.arguments, _progress(call)))
    except TimeoutError:
        words = f"timed out after {limit:g} s"
        return failure_of(call, "timed_out", words, _milliseconds(started))
    except MCPError as error:
        return failure_of(call, "failed", error.message, _milliseconds(started))
    except McpAnswerError as error:
        return failure_of(call, "failed", str(error), _milliseconds(started))
    return result_of(call, answer, _milliseconds(started))


def _progress(call: ToolCall) -> Any:
    """Return what passes on how far a server says it is."""
    heard = call.on_output
    if heard is None:
        return None
    loop = asyncio.get_running_loop()

    async def told(progress: float, total: float | None, message: str | None) -> None:
        share = f"{progress:g}/{total:g}" if total else f"{progress:g}"
        line = f"{message or share}\n".encode("utf-8", "replace")
        loop.call_soon_threadsafe(heard, "stderr", line)

    return told


def _milliseconds(started: float) -> float:
    return round((time.monotonic() - started) * 1000, 3)
