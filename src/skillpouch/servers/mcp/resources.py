"""Resources: the files of skills, and the files that calls made."""

import asyncio
import base64

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    BlobResourceContents,
    ListResourcesResult,
    ListResourceTemplatesResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    Resource,
    ResourceTemplate,
    TextResourceContents,
)

from skillpouch.servers.mcp.eras import Context, is_modern
from skillpouch.servers.mcp.links import Links
from skillpouch.servers.mcp.offer import Offer
from skillpouch.servers.mcp.paging import page_of
from skillpouch.servers.mcp.skill_files import (
    SkillFile,
    files_of,
    owner_of,
    read_file,
    roots_of,
    same_uri,
)
from skillpouch.skills import Skill

_NOT_FOUND = -32002  # what the older protocol says of a resource that there is not
_TEMPLATE = ResourceTemplate(
    name="skill-file", uri_template="skill://{+skill}/{+path}", description="A file of a skill"
)


class Resources:
    """Answers `resources/list`, `resources/templates/list` and `resources/read`."""

    def __init__(self, offer: Offer, links: Links, page_size: int) -> None:
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


def _resource(skill: Skill, file: SkillFile) -> Resource:
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
