"""Skills as prompts: what a person picks by name, and a model is given to follow."""

from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    GetPromptRequestParams,
    GetPromptResult,
    ListPromptsResult,
    PaginatedRequestParams,
    Prompt,
    PromptArgument,
    PromptMessage,
    TextContent,
)

from skillpouch.errors import SkillpouchError
from skillpouch.servers.faults import said
from skillpouch.servers.local_paths import shorten_error
from skillpouch.servers.mcp.eras import Context
from skillpouch.servers.mcp.links import Scheme
from skillpouch.servers.mcp.offer import Offer
from skillpouch.servers.mcp.paging import page_of
from skillpouch.servers.mcp.skill_files import root_uri
from skillpouch.skills import Skill

_ARGUMENT = PromptArgument(
    name="arguments", description="What to use the skill for, or on", required=False
)


class Prompts:
    """Answers `prompts/list` and `prompts/get`.

    A client that is elsewhere has no use for where a folder is here: it is told the address
    under which it can read the skill's files.
    """

    def __init__(self, offer: Offer, page_size: int, scheme: Scheme) -> None:
        self._offer = offer
        self._page_size = page_size
        self._is_elsewhere = scheme == "workspace"

    async def list(
        self, _context: Context, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        cursor = params.cursor if params else None
        page, following = page_of(self._skills(), cursor, self._page_size)
        return ListPromptsResult(prompts=[_prompt(skill) for skill in page], next_cursor=following)

    async def get(self, _context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        skill = self._skills().get(params.name)
        if skill is None:
            raise MCPError(INVALID_PARAMS, f"no prompt named {params.name!r}")
        words = (params.arguments or {}).get("arguments", "")
        try:
            home = root_uri(skill) if self._is_elsewhere else ""
            text = await self._offer.activate(skill.name, words, home)
        except SkillpouchError as error:
            words = shorten_error(said(error), error) if self._is_elsewhere else said(error)
            raise MCPError(INVALID_PARAMS, words, {"code": error.code}) from None
        message = PromptMessage(role="user", content=TextContent(text=text))
        return GetPromptResult(description=skill.description, messages=[message])

    def _skills(self) -> dict[str, Skill]:
        skills = self._offer.now.skills
        return {name: skill for name, skill in skills.items() if _is_for_people(skill)}


def _is_for_people(skill: Skill) -> bool:
    return skill.metadata.frontmatter.get("user-invocable") is not False


def _prompt(skill: Skill) -> Prompt:
    return Prompt(name=skill.name, description=skill.description, arguments=[_ARGUMENT])
