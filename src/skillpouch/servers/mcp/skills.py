"""Skills over MCP (SEP-2640): `skills/list` and `skills/get`, every file with its hash."""

import asyncio
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams, RequestParams

from skillpouch.servers.mcp.eras import Context
from skillpouch.servers.mcp.offer import Offer
from skillpouch.servers.mcp.paging import page_of
from skillpouch.servers.mcp.skill_files import files_of, is_by_the_book, root_uri, roots_of
from skillpouch.skills import Skill

EXTENSION = "io.modelcontextprotocol/skills"
# Nothing is promised to stay: a skill may change at any moment, and its hashes tell.
CACHING = {"ttlMs": 0, "cacheScope": "private"}


class GetSkillParams(RequestParams):
    uri: str


class Skills:
    """Answers about skills as wholes; their files are read as resources."""

    def __init__(self, offer: Offer, page_size: int) -> None:
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
