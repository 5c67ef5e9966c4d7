"""Turns a result into MCP content, with links to the files that the call made."""

import base64
from collections.abc import Iterable
from mimetypes import guess_type
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote

from mcp_types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
)

from skillpouch.discovery.skill_copies import name_originals
from skillpouch.errors import SkillpouchError
from skillpouch.jobs.soft_limit import is_left
from skillpouch.registry.registry import AUTHORING_NAMES
from skillpouch.results import Attachment, ChangedFile, ToolResult
from skillpouch.runtime.memoize import BoundedCache
from skillpouch.servers.faults import rename_folders, said, shorten_error, shorten_paths
from skillpouch.text import escape_hidden
from skillpouch.tools import Tool
from skillpouch.untrusted_files import CannotReadError, read_inside

Scheme = Literal["file", "workspace"]

_MOST_REMEMBERED = 10_000
_MOST_LINKS = 100
_MOST_BYTES = 16 * 1024 * 1024


class Links:
    """Links into one workspace.

    A client on the same machine opens `file:` links itself; one that is elsewhere asks for
    `workspace:` links, which say nothing of where the folder is.
    """

    def __init__(self, workspace: Path, scheme: Scheme) -> None:
        self._workspace = workspace
        self.is_elsewhere = scheme == "workspace"
        self._prefix = f"file://{quote(str(workspace))}/" if scheme == "file" else "workspace:///"
        self._told: BoundedCache[str, ChangedFile] = BoundedCache(_MOST_REMEMBERED)

    def to(self, files: Iterable[ChangedFile]) -> list[ResourceLink]:
        """Return links to files that a call made or changed, and remember them.

        One whose name had to be written out is not linked: the address would be another file's.
        """
        there = [file for file in files if file.change != "deleted"]
        linked = [file for file in there if _is_own_name(file.path)]
        return [self._link(file) for file in linked[:_MOST_LINKS]]

    def to_saved(self, path: Path) -> str:
        """Return where a client finds output that was saved: a path here, an address elsewhere."""
        if not self.is_elsewhere or not path.is_relative_to(self._workspace):
            return str(path)
        kind = guess_type(path.name)[0] or "text/plain"
        relative = path.relative_to(self._workspace).as_posix()
        return self._told_of(ChangedFile(path=relative, type=kind, size=0))

    def error_words(self, error: SkillpouchError, tool: Tool | None) -> str:
        """Return what an error says to this client: one elsewhere is told of no folder here."""
        words = said(error)
        if not self.is_elsewhere:
            return words
        words = words if tool is None else name_originals(words, tool.place)
        return shorten_error(words, error, self._known(tool))

    def words(self, text: str, tool: Tool, *, is_whole: bool = False) -> str:
        """Return a text in which Skillpouch says something, perhaps beside what a tool printed.

        If it `is_whole`, every word of it is Skillpouch's.
        """
        if not self.is_elsewhere:
            return text
        change = shorten_paths if is_whole or tool.name in AUTHORING_NAMES else rename_folders
        return change(name_originals(text, tool.place), self._known(tool))

    def _known(self, tool: Tool | None) -> dict[str, str]:
        """Return the folders that a client elsewhere knows by another name."""
        known = {str(self._workspace): "."}  # tools work there: what they are given is relative
        if tool is not None and tool.home:
            root = str(Path(tool.place).parent)
            known |= {tool.home: f"skill://{tool.skill}", tool.place: f"skill://{tool.skill}"}
            known.setdefault(root, "…")
        return known

    def _told_of(self, file: ChangedFile) -> str:
        uri = f"{self._prefix}{quote(file.path)}"
        self._told[uri] = file
        return uri

    def _link(self, file: ChangedFile) -> ResourceLink:
        uri = self._told_of(file)
        return ResourceLink(uri=uri, name=file.path, mime_type=file.type, size=file.size)

    def read(self, uri: str) -> tuple[bytes, str] | None:
        """Return a file that was told of, with its media type; None when there is no such."""
        file = self._told.get(uri)
        if file is None:
            return None
        folder = str(self._workspace)
        try:
            return read_inside(f"{folder}/{file.path}", folder, _MOST_BYTES).data, file.type
        except CannotReadError:
            return None


def _is_own_name(path: str) -> bool:
    """Tell whether a path is what the file is really called, and lies in the workspace."""
    is_inside = all(part not in ("", ".", "..") for part in path.split("/"))
    return is_inside and escape_hidden(path) == path


ERROR_KEY = "skillpouch/error"
FILES_KEY = "skillpouch/files"
RUN_LATER_KEY = "skillpouch/run_later"
WRITES_KEY = "skillpouch/writes"
CHANGES_KEY = "skillpouch/changes"
CONFLICTS_KEY = "skillpouch/conflicts"
CALL_KEY = "skillpouch/call_id"
JOB_KEY = "skillpouch/job_id"
_MOST_CHANGES = 500


def as_mcp(tool: Tool, result: ToolResult, links: Links, *, modern: bool) -> CallToolResult:
    """Return a result for the wire."""
    blocks: list[ContentBlock] = [TextContent(text=_text(tool, result, links))]
    blocks += [_attached(each) for each in result.attachments]
    blocks += links.to(result.files)
    # A call that goes on has no value yet; clients refuse an answer without one to a tool that
    # declares its output, unless it is an error.
    is_error = result.is_error or (is_left(result) and bool(tool.output_schema))
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
        CHANGES_KEY: [each.facts for each in result.changes[:_MOST_CHANGES]],
        CONFLICTS_KEY: [{"path": each.path, "reason": each.reason} for each in result.conflicts],
        WRITES_KEY: result.writes if result.writes != "direct" else "",
        CALL_KEY: result.call_id,
        JOB_KEY: result.job_id if is_left(result) else "",
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
        text = links.words(text, tool, is_whole=is_left(result))
    return f"{text}\n[all of it: {', '.join(places.values())}]" if places else text


def _is_of_skillpouch(tool: Tool, result: ToolResult) -> bool:
    """Tell whether a text is Skillpouch's own: that a call failed or goes on, what was made."""
    return result.is_error or is_left(result) or tool.name in AUTHORING_NAMES


def _value(tool: Tool, result: ToolResult, links: Links, modern: bool) -> Any:
    value = result.structured
    if tool.name in AUTHORING_NAMES and isinstance(value, dict):
        value = {key: links.words(v, tool) if isinstance(v, str) else v for key, v in value.items()}
    # Clients of the older protocol refuse a value that is not an object; the text says it, too.
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
