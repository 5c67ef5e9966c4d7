"""What can be read over MCP: files of skills, and files that calls made."""

import asyncio
import base64
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from mimetypes import guess_type
from typing import Any
from urllib.parse import quote, unquote

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    RequestParams,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from skillpouch.discovery.digest import DigestEntry, manifest_of
from skillpouch.discovery.walk import is_skipped_folder
from skillpouch.errors import SkillUnreadableError
from skillpouch.servers.mcp.results import Links
from skillpouch.servers.mcp.settings import Context, is_modern, page_of
from skillpouch.servers.mcp.snapshot import ServedTools
from skillpouch.skills import Skill
from skillpouch.untrusted_files import CannotReadError, read_inside

# What every host of skills over MCP accepts; a larger skill is not offered that way.
MOST_FILES = 512
MOST_BYTES = 16 * 1024 * 1024
_NAME = re.compile(r"(?=.{1,64}\Z)[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_DESCRIPTION = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillResource:
    uri: str
    path: str  # below the skill's folder
    sha256: str
    size: int
    type: str


def root_uri(skill: Skill) -> str:
    """Return where a skill is: `skill://NAME`, or `skill://PLUGIN/NAME`."""
    prefix = skill.name.split(":")[:-1]
    return "skill://" + "/".join(quote(part, safe="") for part in (*prefix, _own_name(skill)))


def roots_of(skills: Mapping[str, Skill]) -> dict[str, Skill]:
    """Return the skills that can be offered as they are, by address and in order.

    One without a name or a description of its own would not be what its file says.
    """
    found: dict[str, Skill] = {}
    for skill in skills.values():
        front = skill.metadata.frontmatter
        said = all(isinstance(front.get(key), str) for key in ("name", "description"))
        if said and not skill.degraded:
            found.setdefault(root_uri(skill), skill)
    return dict(sorted(found.items()))


def is_by_the_book(skill: Skill) -> bool:
    """Tell whether hosts that know the format take it: some refuse a whole list for one skill."""
    front = skill.metadata.frontmatter
    metadata = front.get("metadata", {})
    texts = isinstance(metadata, dict) and all(isinstance(each, str) for each in metadata.values())
    described = 0 < len(str(front.get("description", ""))) <= _LONGEST_DESCRIPTION
    return texts and described and _NAME.fullmatch(_own_name(skill)) is not None


def files_of(skill: Skill) -> dict[str, SkillResource] | None:
    """Return the files of a skill by address; None when they are too many, too large or gone.

    Hidden files, caches and links are left out: what is not listed is never served.
    """
    try:
        manifest = manifest_of(skill.home)
        found = [_file(skill, path, entry) for path, entry in manifest.items()]
    except (SkillUnreadableError, OSError):
        return None
    files = {file.uri: file for file in found if file is not None}
    if len(files) > MOST_FILES or sum(file.size for file in files.values()) > MOST_BYTES:
        return None
    return dict(sorted(files.items()))


def read_file(skill: Skill, file: SkillResource) -> bytes | None:
    """Return the bytes of a listed file; None when it is no longer there."""
    home = str(skill.home)
    try:
        return read_inside(f"{home}/{file.path}", home, MOST_BYTES).data
    except CannotReadError:
        return None


def owner_of(uri: str, roots: Mapping[str, Skill]) -> Skill | None:
    """Return the skill that an address lies in: of nested ones the innermost."""
    root = uri
    while "/" in root.removeprefix("skill://"):
        root = root.rpartition("/")[0]
        if root in roots:
            return roots[root]
    return None


def same_uri(uri: str) -> str:
    """Return an address in the one spelling that is listed."""
    return "skill://" + "/".join(
        quote(unquote(part), safe="") for part in uri.removeprefix("skill://").split("/")
    )


def _own_name(skill: Skill) -> str:
    return str(skill.metadata.frontmatter.get("name") or skill.metadata.name)


def _file(skill: Skill, path: str, entry: DigestEntry) -> SkillResource | None:
    parts = path.split("/")
    hidden = any(part.startswith(".") or is_skipped_folder(part) for part in parts)
    if entry.kind != "file" or hidden:
        return None
    name = "SKILL.md" if path.lower() == "skill.md" else path
    place = "/".join(quote(os.fsencode(part), safe="") for part in name.split("/"))
    kind = "text/markdown" if path.lower().endswith(".md") else guess_type(path)[0]
    return SkillResource(
        uri=f"{root_uri(skill)}/{place}",
        path=path,
        sha256=entry.content,
        size=(skill.home / path).stat().st_size,
        type=kind or "application/octet-stream",
    )


_NOT_FOUND = -32002  # what the older protocol says of a resource that there is not
_TEMPLATE = ResourceTemplate(
    name="skill-file", uri_template="skill://{+skill}/{+path}", description="A file of a skill"
)


class Resources:
    """Answers `resources/list`, `resources/templates/list` and `resources/read`."""

    def __init__(self, offer: ServedTools, links: Links, page_size: int) -> None:
        self._offer = offer
        self._links = links
        self._skills_per_page = max(1, page_size // 10)  # a skill has some ten files

    async def list(
        self, _context: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        roots = roots_of(self._offer.now.skills)
        cursor = params.cursor if params else None
        page, following = page_of(roots, cursor, self._skills_per_page)
        found = await asyncio.to_thread(lambda: [each for skill in page for each in _listed(skill)])
        return ListResourcesResult(resources=found, next_cursor=following)

    async def templates(
        self, _context: Context, _params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        return ListResourceTemplatesResult(resource_templates=[_TEMPLATE])

    async def read(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        uri = str(params.uri)
        found = await asyncio.to_thread(self._read, uri)
        if found is None:
            code = INVALID_PARAMS if is_modern(context) else _NOT_FOUND
            raise MCPError(code, f"no resource at {uri!r}", {"uri": uri})
        return ReadResourceResult(contents=[_contents(uri, *found)])

    def _read(self, uri: str) -> tuple[bytes, str] | None:
        if not uri.startswith("skill://"):
            return self._links.read(uri)
        place = same_uri(uri)
        skill = owner_of(place, roots_of(self._offer.now.skills))
        file = ((skill and files_of(skill)) or {}).get(place)
        if skill is None or file is None:
            return None
        data = read_file(skill, file)
        return None if data is None else (data, file.type)


def _listed(skill: Skill) -> list[Resource]:
    files = files_of(skill) or {}
    return [_resource(skill, file) for file in files.values()]


def _resource(skill: Skill, file: SkillResource) -> Resource:
    is_skill = file.path.lower() == "skill.md"
    return Resource(
        uri=file.uri,
        name=skill.metadata.name if is_skill else file.path,
        description=skill.description if is_skill else None,
        mime_type=file.type,
        size=file.size,
    )


def _contents(uri: str, data: bytes, kind: str) -> TextResourceContents | BlobResourceContents:
    try:
        return TextResourceContents(uri=uri, mime_type=kind, text=data.decode())
    except UnicodeDecodeError:
        blob = base64.b64encode(data).decode()
        return BlobResourceContents(uri=uri, mime_type=kind, blob=blob)


EXTENSION = "io.modelcontextprotocol/skills"
# Nothing is promised to stay: a skill may change at any moment, and its hashes tell.
CACHING = {"ttlMs": 0, "cacheScope": "private"}


class GetSkillParams(RequestParams):
    uri: str


class SkillResources:
    """Answers about skills as wholes; their files are read as resources."""

    def __init__(self, offer: ServedTools, page_size: int) -> None:
        self._offer = offer
        self._page_size = page_size

    async def list(self, _context: Context, params: PaginatedRequestParams) -> dict[str, Any]:
        skills = self._offer.now.skills.items()
        roots = roots_of({name: skill for name, skill in skills if is_by_the_book(skill)})
        page, following = page_of(roots, params.cursor, self._page_size)
        entries = await asyncio.to_thread(lambda: [_entry(skill) for skill in page])
        found = {"skills": [entry for entry in entries if entry], **CACHING}
        return {**found, "nextCursor": following} if following else found

    async def get(self, _context: Context, params: GetSkillParams) -> dict[str, Any]:
        skill = roots_of(self._offer.now.skills).get(params.uri.removesuffix("/SKILL.md"))
        whole = params.uri.endswith("/SKILL.md") and skill is not None
        entry = await asyncio.to_thread(_entry, skill) if whole and skill else None
        if entry is None:
            raise MCPError(INVALID_PARAMS, f"no skill at {params.uri!r}")
        return {"skill": entry, **CACHING}


def _entry(skill: Skill) -> dict[str, Any] | None:
    files = files_of(skill)
    if files is None:
        return None
    return {
        "uri": f"{root_uri(skill)}/SKILL.md",
        "frontmatter": dict(skill.metadata.frontmatter),
        "resources": [
            {"uri": file.uri, "digest": f"sha256:{file.sha256}", "size": file.size}
            for file in files.values()
        ],
    }
