"""What a call gave, as MCP says it: text, value, images, links to files, and whether it failed."""

import base64
from typing import Any

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    TextContent,
)

from skillpouch.errors import SkillpouchError
from skillpouch.registry.registry import AUTHORING_NAMES
from skillpouch.results import Attachment, ToolResult
from skillpouch.servers.mcp.links import Links
from skillpouch.tools import Tool

ERROR_KEY = "skillpouch/error"
FILES_KEY = "skillpouch/files"
RUN_LATER_KEY = "skillpouch/run_later"


def as_mcp(tool: Tool, result: ToolResult, links: Links, *, modern: bool) -> CallToolResult:
    """Return a result for the wire."""
    blocks: list[ContentBlock] = [TextContent(text=_text(tool, result, links))]
    blocks += [_attached(each) for each in result.attachments]
    blocks += links.to(result.files)
    is_error = result.is_error
    return CallToolResult(
        content=blocks,
        structured_content=None if is_error else _value(tool, result, links, modern),
        is_error=is_error,
        _meta=_meta(result) or None,
    )


def _meta(result: ToolResult) -> dict[str, Any]:
    """Return what is for the client and not for its model."""
    files = [{"path": file.path, "change": file.change} for file in result.files]
    found = {
        ERROR_KEY: (result.code or result.outcome) if result.is_error else "",
        FILES_KEY: files,
        RUN_LATER_KEY: [*result.run_later],
    }
    return {key: value for key, value in found.items() if value}


def error_as_mcp(error: SkillpouchError, links: Links, tool: Tool | None) -> CallToolResult:
    """Return an error that a model can do something about as the result of its call."""
    text = links.error_words(error, tool)
    return CallToolResult(
        content=[TextContent(text=text)], is_error=True, _meta={ERROR_KEY: error.code}
    )


def _text(tool: Tool, result: ToolResult, links: Links) -> str:
    text = result.content
    places = {str(path): links.to_saved(path) for path in result.saved}
    for path, place in places.items():
        text = text.replace(path, place)
    if _is_of_skillpouch(tool, result):
        text = links.words(text, tool)
    return f"{text}\n[all of it: {', '.join(places.values())}]" if places else text


def _is_of_skillpouch(tool: Tool, result: ToolResult) -> bool:
    """Tell whether a text is Skillpouch's own: why a call failed, or what became of a skill."""
    return result.is_error or tool.name in AUTHORING_NAMES


def _value(tool: Tool, result: ToolResult, links: Links, modern: bool) -> Any:
    value = result.structured
    if tool.name in AUTHORING_NAMES and isinstance(value, dict):
        value = {key: links.words(v, tool) if isinstance(v, str) else v for key, v in value.items()}
    # Clients of the older protocol refuse a value that is no object; the text says it, too.
    return value if modern or isinstance(value, dict) else None


def _attached(attachment: Attachment) -> ContentBlock:
    data = base64.b64encode(attachment.data).decode()
    match attachment.type.partition("/")[0]:
        case "image":
            return ImageContent(data=data, mime_type=attachment.type)
        case "audio":
            return AudioContent(data=data, mime_type=attachment.type)
        case _:
            uri = f"attachment:///{attachment.name}"
            contents = BlobResourceContents(uri=uri, mime_type=attachment.type, blob=data)
            return EmbeddedResource(resource=contents)
