"""Makes tools of MCP servers tools of a manager: lists them, calls them, reads their answers."""

import asyncio
import base64
import binascii
import logging
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult, ContentBlock
from mcp_types import Tool as McpTool

from skillpouch.calls import ToolCall
from skillpouch.errors import SkillpouchError
from skillpouch.manager import SkillManager
from skillpouch.mcp_client.configuration import McpAnswerError, McpToolNamesError
from skillpouch.mcp_client.connection import McpConnection
from skillpouch.policy.project import McpAddress, McpEntry
from skillpouch.results import Attachment, Captured, ToolResult
from skillpouch.runtime.loop_thread import run_blocking, run_on_thread
from skillpouch.text import clean
from skillpouch.tools import Effect, Hosted, Tool, qualified_wire_name


def result_of(call: ToolCall, answer: CallToolResult, milliseconds: float) -> ToolResult:
    """Return text, value and images; what is too long is cut in the middle, as output is."""
    texts = [text for block in answer.content if (text := _text(block))]
    text, is_cut = _cut("\n".join(texts), call.limits.keep_bytes)
    return ToolResult(
        tool=call.tool.id,
        outcome="failed" if answer.is_error else "ok",
        content=clean(text),
        structured=None if answer.is_error else _value(answer),
        exit_code=1 if answer.is_error else 0,
        stdout="" if answer.is_error else text,
        stderr=text if answer.is_error else "",
        truncated=is_cut,
        duration_ms=milliseconds,
        attachments=tuple(each for block in answer.content if (each := _attachment(block))),
        timeout_seconds=call.limits.timeout_seconds,
    )


def failure_of(call: ToolCall, outcome: Any, words: str, milliseconds: float) -> ToolResult:
    """Return a call that the server did not answer."""
    return ToolResult(
        tool=call.tool.id,
        outcome=outcome,
        content=clean(words),
        exit_code=124 if outcome == "timed_out" else 1,
        stderr=words,
        code="timeout" if outcome == "timed_out" else "mcp_error",
        duration_ms=milliseconds,
        timeout_seconds=call.limits.timeout_seconds,
    )


def _value(answer: CallToolResult) -> Any:
    return answer.structured_content


def _text(block: ContentBlock) -> str:
    if block.type == "text":
        return block.text
    if block.type == "resource_link":
        return f"{block.name}: {block.uri}"
    if block.type == "resource":
        return str(getattr(block.resource, "text", f"[{block.resource.uri}]"))
    return ""


def _attachment(block: ContentBlock) -> Attachment | None:
    if block.type not in ("image", "audio"):
        return None
    try:
        data = base64.b64decode(block.data, validate=True)
    except (binascii.Error, ValueError):
        return None
    return Attachment(name=block.type, type=block.mime_type, data=data)


def _cut(text: str, keep: int) -> tuple[str, bool]:
    data, half = text.encode("utf-8", "replace"), keep // 2
    if len(data) <= keep:
        return text, False
    head, tail = (part.decode("utf-8", "ignore").encode() for part in (data[:half], data[-half:]))
    return Captured(head=head, tail=tail, total_bytes=len(data)).text, True


_LONGEST_DESCRIPTION = 4_096
_WORDS = ("description", "title", "$comment")
_LONGEST_NAME = 128  # what the protocol allows


def has_usable_name(found: McpTool) -> bool:
    """Tell whether people and terminals see the name as it is: it becomes part of an id."""
    name = found.name
    return 0 < len(name) <= _LONGEST_NAME and name.isprintable() and clean(name.strip()) == name


def tool_of(entry: McpEntry, found: McpTool, connection: McpConnection) -> Tool:
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


async def _call(connection: McpConnection, name: str, call: ToolCall) -> ToolResult:
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


_log = logging.getLogger(__name__)


class McpServers:
    """The servers that were joined. Use it in `with` or `async with`: leaving ends them all.

    A server that cannot be reached is left out, and so is a tool whose name cannot be used;
    `problems` say why. Everything else is there.
    """

    def __init__(self, manager: SkillManager, entries: Sequence[McpEntry]) -> None:
        self._manager = manager
        self._entries = tuple(entries)
        self._connections: dict[str, McpConnection] = {}
        self.problems: dict[str, SkillpouchError] = {}

    async def join(self) -> None:
        """Connect all servers, and add their tools to the manager."""
        await run_on_thread(self._join())

    async def leave(self) -> None:
        """Take the tools out, and end the servers."""
        for entry in self._entries:
            self._manager.source.drop(entry.skill)
        await run_on_thread(self._leave())

    async def _join(self) -> None:
        workspace = self._manager.executor.workspace
        found = await asyncio.gather(*(self._tools(entry, workspace) for entry in self._entries))
        for entry, tools in zip(self._entries, found, strict=True):
            if tools:
                self._manager.source.put(entry.skill, tools)

    async def _tools(self, entry: McpEntry, workspace: Path) -> list[Tool]:
        connection = self._connections[entry.name] = McpConnection(entry, workspace)
        try:
            found = await connection.tools()
        except (SkillpouchError, MCPError) as error:
            known = error if isinstance(error, SkillpouchError) else SkillpouchError(error.message)
            self._tell(entry, known)
            return []
        # Last first: of two with one name, the first is kept.
        named = {each.name: each for each in reversed(found)}
        wanted = [each for each in found if named[each.name] is each and _is_wanted(entry, each)]
        usable = [each for each in wanted if has_usable_name(each)]
        if refused := [each.name for each in wanted if each not in usable]:
            self._tell(entry, McpToolNamesError(entry.name, refused))
        return [tool_of(entry, each, connection) for each in usable]

    def _tell(self, entry: McpEntry, problem: SkillpouchError) -> None:
        self.problems[entry.name] = problem
        _log.warning("%s", problem)

    async def _leave(self) -> None:
        await asyncio.gather(*(each.close() for each in self._connections.values()))

    async def __aenter__(self) -> Self:
        await self.join()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.leave()

    def __enter__(self) -> Self:
        run_blocking(self.join())
        return self

    def __exit__(self, *_: object) -> None:
        run_blocking(self.leave())


def _is_wanted(entry: McpEntry, found: McpTool) -> bool:
    return not entry.tools or found.name in entry.tools
