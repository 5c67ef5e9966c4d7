"""What an MCP server answered, as the result of a call like any other."""

import base64
import binascii
from typing import Any

from mcp_types import CallToolResult, ContentBlock

from skillpouch.calls import ToolCall
from skillpouch.execution.command import Captured
from skillpouch.results import Attachment, ToolResult
from skillpouch.text import clean


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
